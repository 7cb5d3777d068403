"""`python -m evprof` and the installed `evprof` program."""

from __future__ import annotations

import os
import sys
import threading


def main() -> int:
    """Runs the command line on this process's arguments."""
    from evprof.cli import main as run_command

    code = run_command()
    if any(thread.name.startswith(("evprof-engine", "evprof-convert")) for thread in threading.enumerate()):
        # A second Ctrl-C left it in the middle of its work; Python would wait for it or crash in it.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
