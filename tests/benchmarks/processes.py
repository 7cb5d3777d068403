"""How a benchmark starts a part of itself in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

_RUN = Path(__file__).with_name("run.py")


def run_argv(*words: str) -> list[str]:
    return [sys.executable, str(_RUN), *words]
