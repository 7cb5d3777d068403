"""`python -m evprof` and the installed `evprof` program."""

from __future__ import annotations

import contextlib
import os
import sys
import threading


def main() -> int:
    """Runs the command line on this process's arguments."""
    try:
        return _run()
    except KeyboardInterrupt:  # while the command line itself was loaded, or after its end: it says what stopped it
        return 130


def _run() -> int:
    from evprof.cli.terminal.crash import open_missing_streams

    open_missing_streams()
    from evprof.cli import main as run_command

    code = run_command()
    if any(thread.name.startswith(("evprof-engine", "evprof-convert")) for thread in threading.enumerate()):
        # A second Ctrl-C left it in the middle of its work; Python would wait for it or crash in it.
        with contextlib.suppress(OSError):
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
