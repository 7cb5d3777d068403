"""The one playing position of both inputs, in sensor time; it knows no picture and no file."""

from __future__ import annotations

from PySide6.QtCore import QElapsedTimer, QObject, Qt, QTimer, Signal

TICK_MS = 33
RATES = (1.0, 0.25, 0.1)
"""Playing speeds on offer; event clips are often shorter than a blink."""


class PlayClock(QObject):
    """Position, playing and the rule that nothing plays while a run is measured.

    Signals:
        position_changed(int): µs since the first event or frame.
        changed(): duration, speed, playing or suspension changed.
    """

    position_changed = Signal(int)
    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._durations: dict[object, int] = {}
        self._position_us = 0
        self._rate = RATES[0]
        self._is_playing = False
        self._is_suspended = False
        self._since = QElapsedTimer()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._tick)

    @property
    def position_us(self) -> int:
        """Where both players stand."""
        return self._position_us

    @property
    def duration_us(self) -> int:
        """The longer of the two inputs; 0 without any."""
        return max(self._durations.values(), default=0)

    @property
    def rate(self) -> float:
        """Sensor time per wall time."""
        return self._rate

    @property
    def is_playing(self) -> bool:
        """Whether the person pressed play; stays set while suspended."""
        return self._is_playing

    @property
    def is_suspended(self) -> bool:
        """Whether a run is being measured."""
        return self._is_suspended

    def set_duration(self, owner: object, duration_us: int | None) -> None:
        """One input's length; None takes it away."""
        if self._durations.get(owner) == duration_us:
            return
        if duration_us is None:
            self._durations.pop(owner, None)
        else:
            self._durations[owner] = duration_us
        if self._position_us > self.duration_us:
            self.seek(self.duration_us)
        self.changed.emit()

    def seek(self, position_us: int) -> None:
        """Goes to a position, kept inside the longer input."""
        position_us = min(max(0, position_us), self.duration_us)
        if position_us != self._position_us:
            self._position_us = position_us
            self.position_changed.emit(position_us)

    def set_playing(self, is_playing: bool) -> None:
        """Plays or stands."""
        if is_playing == self._is_playing:
            return
        self._is_playing = is_playing
        if is_playing and self._position_us >= self.duration_us:
            self.seek(0)
        self._run()

    def set_suspended(self, is_suspended: bool) -> None:
        """Holds while a run is measured: the window must not disturb what it measures."""
        if is_suspended != self._is_suspended:
            self._is_suspended = is_suspended
            self._run()

    def next_rate(self) -> None:
        """The next of the speeds on offer."""
        self._rate = RATES[(RATES.index(self._rate) + 1) % len(RATES)]
        self.changed.emit()

    def _run(self) -> None:
        if self._is_playing and not self._is_suspended:
            self._since.start()
            self._timer.start()
        else:
            self._timer.stop()
        self.changed.emit()

    def _tick(self) -> None:
        passed_us = int(self._since.restart() * 1000 * self._rate)
        following = self._position_us + passed_us
        self.seek(following if following <= self.duration_us else 0)
