"""When the start page comes and goes, and which sessions it lists."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from ui.state.newest_errand import NewestErrand
from ui.state.recent import Recent
from ui.state.run_controller import RunController
from ui.state.window_session import WindowSession
from ui.style.theme import ThemeHolder
from ui.welcome.start_page import StartPage

if TYPE_CHECKING:
    from ui.welcome.recent_sessions import RecentSession


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
            self._errand.ask(partial(_looked_up, self._recent))

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


def _looked_up(recent: Recent) -> list[RecentSession]:
    from ui.welcome.recent_sessions import look_up

    return look_up(recent)
