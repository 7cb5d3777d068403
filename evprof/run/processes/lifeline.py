"""A child process that ends when the program that started it does, however that ended: kill -9 included.

The parent holds the other end of the child's standard input and never writes. The system closes it with the parent, on
every platform, and the child's read comes back empty.
"""

from __future__ import annotations

import os
import sys
import threading


def end_with_parent() -> None:
    """Ends this process at once when its standard input does; to be called first, in a process started with a pipe."""
    if sys.stdin is None or sys.stdin.isatty():
        return
    threading.Thread(target=_wait, args=(sys.stdin.fileno(),), name="evprof-lifeline", daemon=True).start()


def _wait(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    finally:
        os._exit(0)
