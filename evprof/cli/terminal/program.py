"""How to start this very program again, and whether a window can open here."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Mapping

from evprof.core.installation import CONSOLE, WINDOW, bundled_program, is_bundle, is_without_qt

_NEED_QT = (("gui",), ("_examine", "window"))
"""How commands begin that the program without Qt cannot carry out."""

INVISIBLE_PLATFORMS = ("offscreen", "minimal", "vnc")
"""Platforms of Qt that draw where no one sees it."""


def program_argv(*words: str) -> list[str]:
    """The argument list that runs `evprof WORDS`; in a bundle by the program that can."""
    if not is_bundle():
        return [sys.executable, "-m", "evprof", *words]
    name = WINDOW if any(words[: len(start)] == start for start in _NEED_QT) else CONSOLE
    return [str(bundled_program(name)), *words]


def engine_argv() -> list[str]:
    return program_argv("_engine")


def missing_display(environment: Mapping[str, str] | None = None, system: str = sys.platform) -> str:
    """Why no window can be seen here, in a sentence; "" where one may open. Qt itself reports a display that fails."""
    variables = os.environ if environment is None else environment
    platform = variables.get("QT_QPA_PLATFORM", "").partition(";")[0].partition(":")[0]
    if platform in INVISIBLE_PLATFORMS:
        return f"QT_QPA_PLATFORM={platform} draws where no one sees it."
    if platform or system in ("win32", "darwin") or variables.get("DISPLAY") or variables.get("WAYLAND_DISPLAY"):
        return ""
    return "this machine has no display (neither DISPLAY nor WAYLAND_DISPLAY is set)."


@contextlib.contextmanager
def loading_window() -> Iterator[None]:
    """Context of the import of the window's modules and of its start.

    Python's garbage collector pauses meanwhile: it would find nothing and take a tenth of the start.
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
