#!/usr/bin/env bash
# Runs the tests of the ground floor in an environment that holds neither Qt nor torch.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=.venv/light
if [ ! -f "$environment/ready" ] || [ constraints.txt -nt "$environment/ready" ]; then
  .venv/bin/python -m venv --clear "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt \
    numpy av pillow psutil platformdirs nvidia-ml-py rich ijson h5py hdf5plugin aedat rosbags faery pytest pytest-timeout pytest-xdist hypothesis scipy
  touch "$environment/ready"
fi
"$environment/bin/python" - <<'P'
import importlib.util
found = [name for name in ("torch", "transformers", "PySide6", "pyqtgraph") if importlib.util.find_spec(name)]
raise SystemExit(f"this environment must not hold {found}" if found else 0)
P
"$environment/bin/python" -m pytest -q -p no:cacheprovider -n 2 --dist loadfile \
  tests/core tests/loaders tests/session tests/run tests/metrics tests/export tests/view tests/models
