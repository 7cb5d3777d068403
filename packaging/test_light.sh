#!/usr/bin/env bash
# Runs pytest with the given arguments in an environment that holds neither Qt nor torch.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/python packaging/light_environment.py
python=.venv/light/bin/python
"$python" - <<'P'
import importlib.util
found = [name for name in ("torch", "transformers", "PySide6", "pyqtgraph") if importlib.util.find_spec(name)]
raise SystemExit(f"this environment must not hold {found}" if found else 0)
P
"$python" -m pytest -q -p no:cacheprovider "$@"
