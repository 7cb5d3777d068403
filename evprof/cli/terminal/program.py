"""How to start this very program again: as an engine process, or to draw a picture of a window."""

from __future__ import annotations

import sys
from pathlib import Path


def program_argv(*words: str) -> list[str]:
    """The argument list that runs `evprof WORDS`; frozen, that is the console program beside this one."""
    if getattr(sys, "frozen", False):
        here = Path(sys.executable)
        return [str(here.with_name(f"evprof{here.suffix}")), *words]
    return [sys.executable, "-m", "evprof", *words]


def engine_argv() -> list[str]:
    """The argument list of an engine process."""
    return program_argv("_engine")
