"""Opens whatever paths hold: sessions, inputs, sequences, lists of samples, torch traces, results of other programs.

A thread reads what they hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from evprof.core.errors import UserError
from ui.samples.openings import MOST_LOOKED_AT, Opening, OpeningPath, look_at, opening_of
from ui.samples.sample_list import SampleList
from ui.settings.toolbar import Toolbar
from ui.state.newest_errand import NewestErrand
from ui.state.window_session import WindowSession
from ui.widgets.message_bar import MessageBar
from ui.window.activity import Activity
from ui.window.exporting import Results

_SLOW_MS = 400
"""After so long it is said that something is being opened."""


class Opener(QObject):
    """Opens paths one drop after the other, in their order.

    Signals:
        listed(object): the Sample to show, the first of a list that was opened.
        trace_opened(object): the Path of a torch trace to show.
    """

    listed = Signal(object)
    trace_opened = Signal(object)

    def __init__(
        self,
        session: WindowSession,
        toolbar: Toolbar,
        samples: SampleList,
        results: Results,
        messages: MessageBar,
        *,
        activity: Activity,
    ) -> None:
        super().__init__(toolbar)
        self._session = session
        self._toolbar = toolbar
        self._samples = samples
        self._results = results
        self._messages = messages
        self._activity = activity
        self._said = ""
        self._wanted: deque[tuple[str, ...]] = deque()
        self._looking = NewestErrand("evprof-opening", self)
        self._looking.done.connect(self._take)

    @property
    def is_busy(self) -> bool:
        return bool(self._wanted)

    def open(self, paths: Sequence[str]) -> None:
        """Opens each; what cannot be opened is told in the message bar."""
        if not paths:
            return
        self._wanted.append(tuple(paths))
        if len(paths) > MOST_LOOKED_AT:
            self._messages.post(
                f"{len(paths):,} files are more than the {MOST_LOOKED_AT} that are opened at once; put the rest into a "
                "list of samples.",
                "warn",
            )
        if len(self._wanted) == 1:
            self._begin()

    def _begin(self) -> None:
        paths = self._wanted[0]
        self._looking.ask(lambda: [look_at(path) for path in paths[:MOST_LOOKED_AT]])
        QTimer.singleShot(_SLOW_MS, self, partial(self._say_slow, paths))

    def _say_slow(self, paths: tuple[str, ...]) -> None:
        if self._wanted and self._wanted[0] is paths:
            names = [Path(path).name for path in paths]
            self._say(f"Opening {names[0] if len(names) == 1 else f'{len(names)} files'}")

    def _take(self, found: list[OpeningPath] | None) -> None:
        self._wanted.popleft()
        self._say("")
        self._carry_out(opening_of(found or []), waits=False)
        if self._wanted:
            self._begin()

    def open_now(self, paths: Sequence[str]) -> None:
        """Opens each before it returns. Raises UserError instead of telling (pictures)."""
        opening = opening_of([look_at(path) for path in paths])
        for sentence, kind in opening.problems:
            if kind == "bad":
                raise UserError(sentence)
        self._carry_out(opening, waits=True)

    def close(self) -> None:
        self._wanted.clear()
        self._looking.wait()

    def _say(self, sentence: str) -> None:
        self._activity.end(self._said)
        self._said = sentence
        if sentence:
            self._activity.begin(sentence)

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
