"""Opens whatever paths hold: sessions, inputs, sequences, lists of samples, torch traces, results of other programs.

What they hold is found out on a thread; the window looks now and then whether that is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QElapsedTimer, QObject, QTimer, Signal

from evprof.core.errors import UserError
from ui.samples.openings import MOST_LOOKED_AT, Finder, Opening, Search, look_at, opening_of
from ui.samples.sample_list import SampleList
from ui.settings.toolbar import Toolbar
from ui.state.window_session import WindowSession
from ui.widgets.message_bar import MessageBar
from ui.window.exporting import Results

INTERVAL_MS = 20
_SLOW_MS = 400
"""After so long it is said that something is being opened."""


class Opener(QObject):
    """Opens paths one drop after the other, in their order.

    Signals:
        seen(object): the Opening that would come of what is being dragged over the window.
        listed(object): the Sample to show, the first of a list that was opened.
        trace_opened(object): the Path of a torch trace to show.
    """

    seen = Signal(object)
    listed = Signal(object)
    trace_opened = Signal(object)

    def __init__(
        self, session: WindowSession, toolbar: Toolbar, samples: SampleList, results: Results, messages: MessageBar
    ) -> None:
        super().__init__(toolbar)
        self._session = session
        self._toolbar = toolbar
        self._samples = samples
        self._results = results
        self._messages = messages
        self._finder = Finder()
        self._wanted: deque[Search] = deque()
        self._looked_at: Search | None = None
        self._doing = ""
        self._since = QElapsedTimer()
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL_MS)
        self._timer.timeout.connect(self._take)

    @property
    def is_busy(self) -> bool:
        return bool(self._wanted)

    def open(self, paths: Sequence[str]) -> None:
        """Opens each; what cannot be opened is told in the message bar."""
        if not paths:
            return
        looked_at, self._looked_at = self._looked_at, None
        is_known = looked_at is not None and looked_at.paths == tuple(paths)
        self._wanted.append(looked_at if is_known and looked_at is not None else self._finder.search(paths))
        if len(paths) > MOST_LOOKED_AT:
            self._messages.post(
                f"{len(paths):,} files are more than the {MOST_LOOKED_AT} that are opened at once; put the rest into a "
                "list of samples.",
                "warn",
            )
        self._since.start()
        self._timer.start()

    def open_now(self, paths: Sequence[str]) -> None:
        """Opens each before it returns. Raises UserError instead of telling (pictures)."""
        opening = opening_of([look_at(path) for path in paths])
        for sentence, kind in opening.problems:
            if kind == "bad":
                raise UserError(sentence)
        self._carry_out(opening, waits=True)

    def look(self, paths: Sequence[str]) -> None:
        if self._looked_at is not None and self._looked_at.paths == tuple(paths):
            self._timer.start()
            return
        self.forget()
        self._looked_at = self._finder.search(paths)
        self._timer.start()

    def forget(self) -> None:
        if self._looked_at is not None:
            self._looked_at.is_wanted = False
            self._looked_at = None

    def close(self) -> None:
        self._timer.stop()
        self._wanted.clear()
        self._finder.close()

    def _take(self) -> None:
        if self._looked_at is not None and self._looked_at.found is not None:
            self.seen.emit(opening_of(self._looked_at.found))
            if not self._wanted:
                self._timer.stop()
        while self._wanted and (found := self._wanted[0].found) is not None:
            self._wanted.popleft()
            self._say("")
            self._carry_out(opening_of(found), waits=False)
        if self._wanted:
            if self._since.elapsed() > _SLOW_MS:
                names = [Path(path).name for path in self._wanted[0].paths]
                self._say(f"Opening {names[0] if len(names) == 1 else f'{len(names)} files'} …")
        elif self._looked_at is None:
            self._timer.stop()

    def _say(self, doing: str) -> None:
        if doing == self._doing:
            return
        if self._doing:
            self._messages.retract(self._doing)
        self._doing = doing
        if doing:
            self._messages.post(doing, "info")

    def _carry_out(self, opening: Opening, *, waits: bool) -> None:
        for sentence, kind in opening.problems:
            self._messages.post(sentence, kind)
        for path in opening.sessions:
            if waits:
                self._session.read(Path(path))
            else:
                self._session.open(Path(path))
        if opening.half is not None:
            take = self._toolbar.open_events if opening.half.kind == "events" else self._toolbar.open_video
            take(opening.half.path)
        if opening.samples:
            self._samples.add_all(opening.samples)
            if any(entry.kind == "manifest" for entry in opening.found):
                self.listed.emit(opening.samples[0])
            else:
                self._toolbar.open_sample(opening.samples[0])
        if opening.traces:
            self.trace_opened.emit(Path(opening.traces[-1]))
        if opening.results:
            self._results.take([Path(path) for path in opening.results], waits=waits)
