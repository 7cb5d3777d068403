"""Work that follows news, no more often than an eye can use."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from PySide6.QtCore import QElapsedTimer, QObject, Qt, QTimer

from evprof.run.processes.giving_way import WINDOW

SPARING = 3
"""How many times as long the work waits where the window is to spare the few cores there are."""

BREATH_MS, LONG_MS = 5, 2
"""Between two pieces of work that each take longer than that."""


class Pace(QTimer):
    """Does `work` after news, at most every `interval_ms`; whoever does it says so with `begin`.

    While the window spares what is measured, the work of several does not follow one upon the other: in between the
    window answers.
    """

    _last_long_s: ClassVar[float] = 0.0
    """When the last long work of any of them ended."""

    def __init__(self, interval_ms: int, work: Callable[[], object], parent: QObject) -> None:
        super().__init__(parent)
        self._interval_ms = interval_ms
        self._work = work
        self._age = QElapsedTimer()
        self.setSingleShot(True)
        self.setTimerType(Qt.TimerType.PreciseTimer)
        self.timeout.connect(self._do)

    @property
    def wait_ms(self) -> int:
        """How long the work has to wait, 0 where it may be done now."""
        interval_ms = self._interval_ms * (SPARING if WINDOW.is_sparing else 1)
        return max(0, interval_ms - int(self._age.elapsed())) if self._age.isValid() else 0

    def _do(self) -> None:
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
        self._age.start()

    def note(self, *_: object) -> None:
        """There is news: the work is done later."""
        if not self.isActive():
            self.start(self.wait_ms)

    def follow(self) -> None:
        """There is news: the work is done before this returns, or when it is time."""
        if self.wait_ms or (WINDOW.is_sparing and self.isActive()):
            self.note()
        else:
            self._do()
