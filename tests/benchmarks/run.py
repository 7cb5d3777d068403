"""Benchmarks of evprof itself: `.venv/bin/python tests/benchmarks/run.py NAME --json`; `--help` lists them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    # The checkout's own program and the folder above this one, in place of this one.
    sys.path[:1] = [str(ROOT), str(ROOT / "tests")]
    from benchmarks.command import main

    raise SystemExit(main(sys.argv[1:]))
