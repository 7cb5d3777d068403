"""Work that follows news, no more often than an eye can use."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QElapsedTimer, QObject, Qt, QTimer


class Pace(QTimer):
    """Does `work` after news, at most every `interval_ms`; whoever does it says so with `begin`."""

    def __init__(self, interval_ms: int, work: Callable[[], object], parent: QObject) -> None:
        super().__init__(parent)
        self._interval_ms = interval_ms
        self._age = QElapsedTimer()
        self.setSingleShot(True)
        self.setTimerType(Qt.TimerType.PreciseTimer)
        self.timeout.connect(work)

    @property
    def wait_ms(self) -> int:
        """How long the work has to wait, 0 where it may be done now."""
        return max(0, self._interval_ms - int(self._age.elapsed())) if self._age.isValid() else 0

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
        if self.wait_ms:
            self.note()
        else:
            self.timeout.emit()
