"""`evprof _work COMMAND …`: any command, for a program that follows it.

It tells its progress in lines (`evprof.run.works.work_form`). The program that started it holds its standard
input: a line there is a Ctrl-C, the end of it too, so nothing goes on for a program that is gone.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Callable


def main(words: list[str], run: Callable[..., int]) -> int:
    """Has `run` run the command, told that it is followed, and returns its exit code."""
    if sys.stdin is not None and not sys.stdin.isatty():
        # On Windows Ctrl-C of a shared console would reach it a second time; what stops it comes through the pipe.
        threading.Thread(target=_listen, args=(sys.stdin.fileno(),), name="evprof-stop", daemon=True).start()
    return run(words, is_followed=True)


def _listen(descriptor: int) -> None:
    while os.read(descriptor, 4096):
        _interrupt()
    _interrupt()


def _interrupt() -> None:
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        ident = threading.main_thread().ident
        if ident is not None:
            signal.pthread_kill(ident, signal.SIGINT)
