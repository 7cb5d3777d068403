"""The sessions that were open lately, and their cards on the start page."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from evprof.core.safe_text import one_line, plain
from evprof.core.units import count_text
from evprof.core.vocabulary.modes import mode_of
from evprof.session.autosave import autosave_folder
from ui.state.recent import Recent
from ui.style.theme import GRID
from ui.welcome.welcome import CARD_PX
from ui.widgets.boxes import in_role, stacked
from ui.widgets.elided import elided_text
from ui.widgets.label import Label

if TYPE_CHECKING:
    from evprof.session.opened import SessionSummary

SHOWN = 6
_MOST_MODELS = 2


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


def content_lines(summary: SessionSummary | None) -> tuple[str, *tuple[tuple[str, str], ...]]:
    """What a card says of a session: a head, then lines, each with its role in the style sheet."""
    if summary is None:
        return ("content not read",)
    models = [one_line(name) for name in summary.models]
    more = f" and {len(models) - _MOST_MODELS} more" if len(models) > _MOST_MODELS else ""
    lines = [(", ".join(mode_of(mode).title for mode in summary.modes), "dim")]
    lines += [(name, "") for name in models[:_MOST_MODELS]]
    lines[-1] = lines[-1][0] + more, lines[-1][1]
    lines.append((", ".join(one_line(name) for name in summary.samples), "dim"))
    return (count_text(summary.run_count, "run"), *[line for line in lines if line[0]])


class SessionCard(QPushButton):
    """A button with what a session holds, its name and its time; it opens the session."""

    def __init__(self, session: RecentSession) -> None:
        super().__init__()
        self.session = session
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip(plain(str(session.path)))
        self.setAccessibleName(f"Open session {one_line(session.name)}")
        self.setAccessibleDescription(f"changed {session.when}")
        self.setFixedSize(CARD_PX)
        head, *lines = content_lines(session.summary)
        texts = [(head, "title"), *lines, ("", ""), (session.name, ""), (session.when, "dim")]
        column = stacked(on=self, margins=(GRID + 4, GRID, GRID + 4, GRID), spacing=GRID // 4)
        for text, role in texts:
            if not text:
                column.addStretch(1)
                continue
            label = in_role(Label(), role) if role else Label()
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            room = CARD_PX.width() - 3 * GRID - 8
            label.setText(elided_text(label.fontMetrics(), text, Qt.TextElideMode.ElideMiddle, room))
            column.addWidget(label)
