"""A command of evprof in a process of its own, with an engine of `scripted_process` that makes records for an hour."""

from __future__ import annotations

from pathlib import Path

from evprof.core.errors import UserError
from whole_session import read_session

DRIVER = """
import sys
from evprof.__main__ import main
from evprof.cli.run import recorded_session
sys.path.append({tests!r})
from scripted_process import engine_of
recorded_session.make_engine = lambda: engine_of("{engine}:200:3600")
sys.exit(main())
"""

TESTS = str(Path(__file__).parent)


def saved_tokens(path: Path) -> int:
    try:
        return len(read_session(path).streams["tokens"])
    except UserError:  # it has just been made, or not yet
        return 0
