"""Commands that the program starts for itself; no list of commands names them."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from collections.abc import Callable
from importlib import import_module

from evprof.core.errors import UsageError


def _engine(words: list[str]) -> int:
    """Serves the host that started this process. Raises UserError (exit code 2) when no host did, or for arguments."""
    from evprof.run.processes.channel import serve

    if words:
        raise UsageError("evprof _engine takes no arguments; the window starts it.")
    # Imported by the server: a model library takes seconds, in which the host would get no answer.
    return serve(lambda: import_module("evprof.cli.run.recorded_session").make_engine())


def _examine(words: list[str]) -> int:
    from evprof.cli.doctor import examination
    from evprof.cli.terminal.program import leave_to_window_program

    if words == ["window"]:
        leave_to_window_program()
    return examination.main(words)


def _work(words: list[str]) -> int:
    """Any command, for a program that reads its progress in lines (`evprof.run.works.work_form`).

    That program holds the standard input: a line there is a Ctrl-C, and so is its end, so that nothing outlives it.
    """
    from evprof.cli import run_words

    if sys.stdin is not None and not sys.stdin.isatty():
        # On Windows Ctrl-C of a shared console would arrive twice; only the pipe stops this process.
        threading.Thread(target=_listen, args=(sys.stdin.fileno(),), name="evprof-stop", daemon=True).start()
    return run_words(words, is_followed=True)


def _listen(descriptor: int) -> None:
    while os.read(descriptor, 4096):
        _interrupt()
    _interrupt()


def _interrupt() -> None:
    if sys.platform == "win32":
        _thread.interrupt_main()
    elif (ident := threading.main_thread().ident) is not None:
        signal.pthread_kill(ident, signal.SIGINT)


def _tensorboard(words: list[str]) -> int:
    """TensorBoard's own command line, in a process that ends with the one that started it."""
    end_with_parent()
    from tensorboard.main import run_main

    sys.argv = ["tensorboard", *words]
    run_main()
    return 0


def end_with_parent() -> None:
    """Ends this process at once when its standard input, a pipe from its parent, ends.

    The leader of a process group ends the whole group: what it started would stay otherwise.
    """
    if sys.stdin is not None and not sys.stdin.isatty():
        threading.Thread(target=_wait, args=(sys.stdin.fileno(),), name="evprof-lifeline", daemon=True).start()


def _wait(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    finally:
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(0)


HIDDEN: dict[str, Callable[[list[str]], int]] = {
    "_engine": _engine,
    "_examine": _examine,
    "_gpu-section": lambda words: import_module("evprof.cli.bench.gpu_section").main(words),
    "_video": lambda _: import_module("evprof.loaders.videos.apart_server").main(),
    "_tensorboard": _tensorboard,
    "_work": _work,
}
