"""The one path for defects: a sentence for the person, the whole story in a file of the log folder."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from evprof.cli.terminal.streams import tell
from evprof.core.errors import FAILURE
from evprof.core.files.user_folders import log_folder
from evprof.version import __version__

KEPT_REPORTS = 20
"""Older reports are deleted, so that a program that fails in a loop does not fill the disk."""


def report_crash(error: BaseException, words: list[str]) -> int:
    """Writes a report, says in one line what happened and where the report is, and returns exit code 1."""
    if "--debug" in words:
        tell("".join(traceback.format_exception(error)).rstrip())
        return FAILURE
    path = write_report(error, " ".join(words))
    where = f"the details are in {path}" if path else "the details could not be saved; --debug shows them"
    first_line = (str(error).splitlines() or [""])[0]
    tell(f"evprof: a defect of evprof: {type(error).__name__}: {first_line} ({where}).")
    return FAILURE


def write_report(error: BaseException, activity: str, facts: Sequence[str] = ()) -> Path | None:
    """The traceback, versions, what was being done and `facts` as a file; None when no folder takes it."""
    text = "\n".join(
        [
            f"evprof {__version__}, Python {platform.python_version()}, {sys.platform}",
            f"doing: {activity}",
            *facts,
            "",
            *traceback.format_exception(error),
        ]
    )
    name = f"crash-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    for folder in (log_folder, tempfile.gettempdir):
        try:
            path = Path(folder()) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
            _forget_old_reports(path.parent)
        except OSError:  # no such folder can be had, or no file in it
            continue
        return path
    return None


def _forget_old_reports(folder: Path) -> None:
    for path in sorted(folder.glob("crash-*.txt"))[:-KEPT_REPORTS]:
        path.unlink(missing_ok=True)
