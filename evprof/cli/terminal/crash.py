"""The one path for defects: a sentence for the person, the whole story in a file of the log folder."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

import evprof
from evprof.core.errors import FAILURE
from evprof.core.user_folders import log_folder

KEPT_REPORTS = 20
"""Older reports are deleted, so that a program that fails in a loop does not fill the disk."""


def report_crash(error: BaseException, words: list[str]) -> int:
    """Writes a report, says in one line what happened and where the report is, and returns exit code 1."""
    if "--debug" in words:
        traceback.print_exception(error, file=sys.stderr)
        return FAILURE
    path = write_report(error, " ".join(words))
    where = f"the details are in {path}" if path else "the details could not be saved; --debug shows them"
    first_line = (str(error).splitlines() or [""])[0]
    print(f"evprof: a defect of evprof: {type(error).__name__}: {first_line} ({where}).", file=sys.stderr)
    return FAILURE


def write_report(error: BaseException, activity: str) -> Path | None:
    """The traceback, versions and what was being done, as a file; None when no folder takes it."""
    text = "\n".join(
        [
            f"evprof {evprof.__version__}, Python {platform.python_version()}, {sys.platform}",
            f"doing: {activity}",
            "",
            *traceback.format_exception(error),
        ]
    )
    name = f"crash-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    for folder in (log_folder(), Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / name
            path.write_text(text, encoding="utf-8")
        except OSError:
            continue
        _forget_old_reports(folder)
        return path
    return None


def _forget_old_reports(folder: Path) -> None:
    for path in sorted(folder.glob("crash-*.txt"))[:-KEPT_REPORTS]:
        path.unlink(missing_ok=True)
