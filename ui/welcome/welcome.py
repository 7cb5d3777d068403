"""The start page with the recent sessions, and when it comes and goes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QPushButton, QWidget

from evprof.core.texts import one_line, plain
from evprof.session.autosave import abandoned, autosave_folder
from ui.state.newest_errand import NewestErrand
from ui.state.recent import Recent
from ui.state.run_controller import RunController
from ui.state.window_session import WindowSession
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.drawn import asks_for_escape, is_escape
from ui.widgets.label import Label
from ui.widgets.panel_parts import section_head

OPENINGS = (
    ("demo", "Run the bundled demo", "primary"),
    ("open_session", "Open a session…", ""),
    ("open_sequence", "Open a folder with events and video…", ""),
    ("open_events", "Open events…", ""),
    ("open_video", "Open a video…", ""),
)
"""Actions of the window by name, what a button calls them, and its role."""

_LEFT_PX, _RIGHT_PX = 33 * GRID, 42 * GRID
_TITLE_PX = 30.0


class StartPage(QWidget):
    """Lies over the ground until something is opened or run, or the person goes on without.

    Signals:
        asked(str): an action of the window, by name.
        session_chosen(str): the path of a recent session.
    """

    asked = Signal(str)
    session_chosen = Signal(str)

    def __init__(self, themes: ThemeHolder, ground: QWidget, home: QWidget) -> None:
        """`home` gets the keyboard when the page is left."""
        super().__init__(ground)
        self._ground = ground
        self._home = home
        self.buttons: dict[str, QPushButton] = {}
        in_role(self, "panel").setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Start page")
        self.sessions = QListWidget()
        self.sessions.setAccessibleName("Recent sessions")
        self.sessions.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.sessions.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.sessions.setSpacing(GRID // 2)
        for chosen in (self.sessions.itemClicked, self.sessions.itemActivated):
            chosen.connect(lambda item: self.session_chosen.emit(item.data(Qt.ItemDataRole.UserRole)))
        self._lay_out(themes)
        ground.installEventFilter(self)
        self.hide()

    def _lay_out(self, themes: ThemeHolder) -> None:
        words = in_role(Label("See what each model does, when, and what drafting saves."), "dim")
        words.setWordWrap(True)
        left = QWidget()
        left.setFixedWidth(_LEFT_PX)
        title = Label("evprof")
        title.setFont(themes.theme.font(_TITLE_PX, 600))
        column = stacked(title, words, GRID, on=left, spacing=GRID)
        for name, text, role in OPENINGS:
            button = in_role(QPushButton(text), role) if role else QPushButton(text)
            button.clicked.connect(lambda _=False, name=name: self.asked.emit(name))
            self.buttons[name] = button
            column.addWidget(button)
        hint = in_role(Label("or drop files and folders onto the window"), "small")
        column.addWidget(hint)
        self.close_button = in_role(QPushButton("Go to the window (Esc)"), "link")
        self.close_button.clicked.connect(self.leave)
        column.addWidget(self.close_button)
        column.addStretch(1)
        self._right = QWidget()
        self._right.setFixedWidth(_RIGHT_PX)
        self._right.hide()
        stacked(section_head("Recent sessions"), (self.sessions, 1), on=self._right, spacing=2 * GRID)
        inner = beside(None, left, self._right, None, spacing=6 * GRID)
        stacked(None, inner, None, on=self, margins=(4 * GRID, 4 * GRID, 4 * GRID, 8 * GRID))

    def open(self) -> None:
        self.setGeometry(self._ground.rect())
        self.raise_()
        self.show()
        self.buttons["demo"].setFocus()

    def leave(self) -> None:
        focused = self.window().focusWidget()
        had_focus = self.isAncestorOf(focused)
        self.hide()
        if had_focus:
            self._home.setFocus(Qt.FocusReason.OtherFocusReason)

    def show_sessions(self, sessions: Sequence[RecentSession]) -> None:
        self.sessions.clear()
        for session in sessions:
            texts = f"{session.name} · {session.when}", str(session.path.parent)
            item = QListWidgetItem("\n".join(one_line(text) for text in texts), self.sessions)
            item.setToolTip(plain(str(session.path)))
            item.setData(Qt.ItemDataRole.UserRole, str(session.path))
        self._right.setVisible(bool(sessions))

    def event(self, event: QEvent) -> bool:
        """Esc uncovers the window before it does anything in it."""
        return asks_for_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if is_escape(event):
            self.leave()
        else:
            super().keyPressEvent(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and not self.isHidden():
            self.setGeometry(self._ground.rect())
        return super().eventFilter(watched, event)


class Welcome(QObject):
    """Owns the start page over `ground`, from which the keyboard goes to `home`."""

    def __init__(
        self,
        session: WindowSession,
        controller: RunController,
        recent: Recent,
        holder: ThemeHolder,
        *,
        ground: QWidget,
        home: QWidget,
    ) -> None:
        super().__init__(ground)
        self._session = session
        self._controller = controller
        self._recent = recent
        self.page = StartPage(holder, ground, home)
        self._errand = NewestErrand("evprof-recent-sessions", self)
        self._errand.done.connect(lambda found: self.page.show_sessions(found or []))
        self.page.session_chosen.connect(lambda path: session.open(Path(path)))
        session.opened.connect(self._take_opened)
        session.saved.connect(lambda _: self.note())
        controller.busy_changed.connect(lambda is_busy: self.page.leave() if is_busy else None)
        controller.waiting_changed.connect(lambda: self.page.leave() if controller.waiting else None)

    def open(self) -> None:
        """Shows the start page, with the sessions there are."""
        self.page.open()
        self.look_up()

    def look_up(self) -> None:
        """Has the sessions looked up that the start page shows, unless it is left already."""
        if not self.page.isHidden():
            self._errand.ask(partial(look_up, self._recent))

    def _take_opened(self, _recording: object) -> None:
        self.page.leave()
        if self._session.path is not None:
            self._recent.note_session(self._session.path)

    def note(self) -> None:
        """Adds the open session to the recent ones, unless it has no runs."""
        path = self._session.file
        if path is not None and self._controller.runs:
            self._recent.note_session(path)

    @property
    def is_busy(self) -> bool:
        """Whether sessions are being looked up."""
        return self._errand.is_busy

    def close(self) -> None:
        """Remembers what is open, and waits for what is being read."""
        self.note()
        self._errand.wait()


SHOWN = 6


@dataclass(frozen=True)
class RecentSession:
    """A session file that exists, and when it was changed. `is_recovered`: its program was killed."""

    path: Path
    changed_s: float
    is_recovered: bool = False

    @property
    def name(self) -> str:
        """Its file's name; that of a session which has none of its own says nothing."""
        if self.is_recovered:
            return "recovered session"
        return "not saved yet" if self.path.parent == autosave_folder() else self.path.stem

    @property
    def when(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.changed_s))


def look_up(recent: Recent) -> list[RecentSession]:
    """Those that killed programs left and those that are there, the newest first. Reads files: for a thread."""
    found = [RecentSession(one.path, one.changed_s, is_recovered=True) for one in abandoned()[:SHOWN]]
    for path in [Path(text) for text in recent.sessions if Path(text) not in {one.path for one in found}]:
        with contextlib.suppress(OSError, ValueError):
            if path.is_file():
                found.append(RecentSession(path, path.stat().st_mtime))
        if len(found) >= SHOWN:
            break
    return found
