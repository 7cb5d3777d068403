"""Work that follows news, no more often than an eye can use."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from PySide6.QtCore import QElapsedTimer, QObject, Qt, QTimer

from evprof.run.processes.giving_way import WINDOW

ASKING_MS = 250
"""A longer wait is asked now and then whether it still is as long: when nothing is measured any more it ends."""

BREATH_MS, LONG_MS = 5, 2
"""Between two pieces of work that each take longer than that."""


class Pace(QTimer):
    """Does `work` after news, at most every `interval_ms`; whoever does it says so with `begin`.

    While the window spares what is measured, it waits longer (`WINDOW.stretch`), unless it `answers` a person's hand or
    is a part of something larger; and the work of several does not follow one upon the other: in between the window
    answers.
    """

    _last_long_s: ClassVar[float] = 0.0
    """When the last long work of any of them ended."""

    def __init__(self, interval_ms: int, work: Callable[[], object], parent: QObject, *, answers: bool = False) -> None:
        super().__init__(parent)
        self._interval_ms = interval_ms
        self._work = work
        self._answers = answers
        self._is_other = False
        self._age = QElapsedTimer()
        self.setSingleShot(True)
        self.setTimerType(Qt.TimerType.PreciseTimer)
        self.timeout.connect(self._do)

    @property
    def wait_ms(self) -> int:
        """How long the work has to wait, 0 where it may be done now."""
        interval_ms = self._interval_ms * (1.0 if self._answers or self._is_other else WINDOW.stretch)
        return max(0, int(interval_ms) - int(self._age.elapsed())) if self._age.isValid() else 0

    def _do(self) -> None:
        if wait_ms := self.wait_ms:
            self.start(min(wait_ms, ASKING_MS))
            return
        began_s = time.perf_counter()
        if WINDOW.is_sparing and 1000 * (began_s - Pace._last_long_s) < LONG_MS:
            self.start(BREATH_MS)
            return
        self._work()
        ended_s = time.perf_counter()
        if 1000 * (ended_s - began_s) > LONG_MS:
            Pace._last_long_s = ended_s

    def begin(self) -> None:
        """The work is being done."""
        self.stop()
        self._is_other = False
        self._age.start()

    def note(self, *_: object) -> None:
        """There is news: the work is done later."""
        if not self.isActive():
            self.start(min(self.wait_ms, ASKING_MS))

    def note_other(self) -> None:
        """Something else is to be shown: the work is done a moment later, however seldom news is followed."""
        if not (self._is_other and self.isActive()):
            self._is_other = True
            self.start(self.wait_ms)

    def follow(self) -> None:
        """There is news: the work is done before this returns, or when it is time."""
        if self.wait_ms or (WINDOW.is_sparing and self.isActive()):
            self.note()
        else:
            self._do()
