#!/usr/bin/env bash
# Runs pytest with the given arguments in an environment that holds neither Qt nor torch.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=.venv/light
wanted=$(.venv/bin/python - <<'P'
import re, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
absent = {"PySide6-Essentials", "pyqtgraph", "torch", "transformers", "safetensors", "sentencepiece"}
absent |= {"evprof", "ruff", "mypy", "import-linter"}
every = project["dependencies"] + project["optional-dependencies"]["dev"]
print("\n".join(line for line in every if re.match(r"[\w-]+", line)[0] not in absent))
P
)
fingerprint=$(echo "$wanted" | cat - constraints.txt | cksum)
if [ "$(cat "$environment/ready" 2>/dev/null)" != "$fingerprint" ]; then
  .venv/bin/python -m venv --clear "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -r /dev/stdin <<<"$wanted"
  echo "$fingerprint" >"$environment/ready"
fi
"$environment/bin/python" - <<'P'
import importlib.util
found = [name for name in ("torch", "transformers", "PySide6", "pyqtgraph") if importlib.util.find_spec(name)]
raise SystemExit(f"this environment must not hold {found}" if found else 0)
P
"$environment/bin/python" -m pytest -q -p no:cacheprovider "$@"
