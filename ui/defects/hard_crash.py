"""What is left of a window that ended without a word: where its threads were, written as it died.

A crash of a driver or a library runs no Python any more; the interpreter's fault handler then writes into a file that
was opened before. The next start finds it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from evprof.core.files.user_folders import log_folder
from evprof.version import __version__

_MARK = "threads as it ended:"
_PREFIX = "window-"
_LARGEST_BYTES = 1 << 20


class FaultFile:
    """The file of this window; without a folder that takes it there is none."""

    def __init__(self) -> None:
        self._file: TextIO | None = None
        self._path = log_folder() / f"{_PREFIX}{os.getpid()}.txt"

    def open(self) -> None:
        """Begins to wait for a crash."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("w", encoding="utf-8")
            when = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
            self._file.write(
                f"evprof {__version__}, Python {platform.python_version()}, {sys.platform}\n"
                f"doing: the window, begun {when}\n{_MARK}\n"
            )
            self._file.flush()
            faulthandler.enable(self._file, all_threads=True)

    def close(self) -> None:
        if self._file is not None:
            faulthandler.disable()
            if sys.__stderr__ is not None:
                with contextlib.suppress(ValueError, OSError):  # there is no such stream in a program without console
                    faulthandler.enable(sys.__stderr__)
            self._file.close()
            self._file = None
            with contextlib.suppress(OSError):
                self._path.unlink()


def crashed_windows() -> list[Path]:
    """Reports of windows that crashed, the newest first, each told once; files that say nothing are removed."""
    import psutil  # takes longer than the window's start may

    found = []
    for path in sorted(log_folder().glob(f"{_PREFIX}*.txt")):
        with contextlib.suppress(OSError, ValueError):
            if psutil.pid_exists(int(path.stem.removeprefix(_PREFIX))) or path.stat().st_size > _LARGEST_BYTES:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            if text.partition(_MARK)[2].strip():
                told = path.with_name(f"crash-{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y%m%d-%H%M%S}-w.txt")
                path.replace(told)
                found.append(told)
            else:
                path.unlink()
    return found[::-1]
