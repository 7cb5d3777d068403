"""The sessions that were open lately: noted when one is opened, saved or closed."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.session.autosave import autosave_folder
from ui.state.recent import Recent

if TYPE_CHECKING:
    from evprof.session.opened import SessionSummary

SHOWN = 6


@dataclass(frozen=True)
class RecentSession:
    """A session file that exists: its path, when it was changed, and what it holds (None where it cannot be read)."""

    path: Path
    changed_s: float
    summary: SessionSummary | None

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
    from evprof.session.opened import read_summary

    found: list[RecentSession] = []
    for path in [Path(text) for text in recent.sessions]:
        with contextlib.suppress(OSError, ValueError):
            if path.is_file():
                found.append(RecentSession(path, path.stat().st_mtime, read_summary(path)))
        if len(found) == SHOWN:
            break
    return found
