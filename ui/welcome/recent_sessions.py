"""The sessions that were open lately: noted when one is opened, saved or closed, and looked up with their pictures."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtGui import QImage

from evprof.session.autosave import autosave_folder
from ui.state.recent import Recent
from ui.welcome.thumbnails import thumbnail

if TYPE_CHECKING:
    from evprof.session.summary import SessionSummary

SHOWN = 6


@dataclass(frozen=True)
class RecentSession:
    """One that is still there: where, when it was changed, and how it looked; of one that no window has closed yet what
    is inside instead."""

    path: Path
    changed_s: float
    picture: QImage | None
    summary: SessionSummary | None = None

    @property
    def name(self) -> str:
        """Its file's name; that of a session which has none of its own says nothing."""
        return "not saved yet" if self.path.parent == autosave_folder() else self.path.stem

    @property
    def when(self) -> str:
        """The day and the minute."""
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.changed_s))


def look_up(recent: Recent) -> list[RecentSession]:
    """Those that are there, the newest first. Reads files: for a thread."""
    from evprof.session.summary import read_summary

    found: list[RecentSession] = []
    for path in [Path(text) for text in recent.sessions]:
        with contextlib.suppress(OSError, ValueError):
            if path.is_file():
                picture = thumbnail(path)
                summary = read_summary(path) if picture is None else None
                found.append(RecentSession(path, path.stat().st_mtime, picture, summary))
        if len(found) == SHOWN:
            break
    return found
