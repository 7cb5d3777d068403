"""How to start this very program again: as an engine process, or to draw a picture of a window."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator

from evprof.core.installation import CONSOLE, WINDOW, bundled_program, is_bundle, is_without_qt

_NEED_QT = (("gui",), ("_examine", "window"))
"""How commands begin that the program without Qt cannot carry out."""


def program_argv(*words: str) -> list[str]:
    """The argument list that runs `evprof WORDS`; in a bundle by that of its programs which can."""
    if not is_bundle():
        return [sys.executable, "-m", "evprof", *words]
    name = WINDOW if any(words[: len(start)] == start for start in _NEED_QT) else CONSOLE
    return [str(bundled_program(name)), *words]


def engine_argv() -> list[str]:
    """The argument list of an engine process."""
    return program_argv("_engine")


@contextlib.contextmanager
def loading_window() -> Iterator[None]:
    """Context of the import of the window's modules and of its start.

    Python's garbage collector rests meanwhile: it would find nothing and take a tenth of the start. The window turns it
    on again after the first paint.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def leave_to_window_program() -> None:
    """Called before anything of `ui` is imported: in a bundle's console program the window program takes over with the
    same arguments, and this does not return."""
    if not is_without_qt():
        return
    import subprocess  # only where there are two programs

    argv = [str(bundled_program(WINDOW)), *sys.argv[1:]]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if sys.platform != "win32":
        os.execv(argv[0], argv)
    raise SystemExit(subprocess.call(argv))
