"""The playing position that both inputs share, in sensor time."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QElapsedTimer, QObject, Qt, QTimer, Signal

TICK_MS = 33
RATES = (1.0, 0.25, 0.1)
"""Playing speeds on offer; event clips are often shorter than a blink."""


@dataclass(frozen=True)
class InputSpan:
    """When one input is shown, in µs on the sample's clock. `what` is "events" or "video"."""

    what: str
    start_us: int
    stop_us: int


class PlayClock(QObject):
    """Position, playing and the rule that nothing plays while a run is measured.

    Signals:
        position_changed(object): µs on the sample's clock.
        changed(): duration, speed, playing or suspension changed.
    """

    position_changed = Signal(object)
    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._spans: dict[object, InputSpan] = {}
        self.part: tuple[int, int] | None = None
        """What playing goes round in while it is inside of it; None: everything."""

        self.position_us = 0

        self.rate = RATES[0]
        """Sensor time per wall time."""

        self.is_playing = self.is_suspended = False
        """Whether the user pressed play, also while suspended; whether a run is being measured."""

        self._since = QElapsedTimer()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._tick)

    @property
    def spans(self) -> list[InputSpan]:
        return list(self._spans.values())

    @property
    def start_us(self) -> int:
        """Where the position may begin: 0, or before it where a video begins earlier than the events."""
        return min((0, *(span.start_us for span in self._spans.values())))

    @property
    def stop_us(self) -> int:
        return max((span.stop_us for span in self._spans.values()), default=0)

    @property
    def duration_us(self) -> int:
        """From the first beginning to the last end; 0 without any input."""
        return self.stop_us - self.start_us if self._spans else 0

    @property
    def overlap_us(self) -> tuple[int, int] | None:
        """When inputs of both kinds are shown; None where one kind is alone, or they never meet."""
        if len({span.what for span in self._spans.values()}) < 2:
            return None
        start = max(span.start_us for span in self._spans.values())
        stop = min(span.stop_us for span in self._spans.values())
        return (start, stop) if start < stop else None

    def set_span(self, owner: object, span: InputSpan | None) -> None:
        """When one input is shown; None takes it away."""
        if self._spans.get(owner) == span:
            return
        if span is None:
            self._spans.pop(owner, None)
        else:
            self._spans[owner] = span
        self.seek(self.position_us)
        self.changed.emit()

    def seek(self, position_us: int) -> None:
        """Goes to a position, kept inside."""
        position_us = min(max(self.start_us, position_us), self.stop_us)
        if position_us != self.position_us:
            self.position_us = position_us
            self.position_changed.emit(position_us)

    def set_playing(self, is_playing: bool) -> None:
        if is_playing == self.is_playing:
            return
        self.is_playing = is_playing
        if is_playing and self.position_us >= self.stop_us:
            self.seek(self.start_us)
        self._run()

    def set_suspended(self, is_suspended: bool) -> None:
        """Holds while a run is measured: the window must not disturb what it measures."""
        if is_suspended != self.is_suspended:
            self.is_suspended = is_suspended
            self._run()

    def next_rate(self) -> None:
        self.rate = RATES[(RATES.index(self.rate) + 1) % len(RATES)]
        self.changed.emit()

    def _run(self) -> None:
        if self.is_playing and not self.is_suspended:
            self._since.start()
            self._timer.start()
        else:
            self._timer.stop()
        self.changed.emit()

    def _tick(self) -> None:
        passed_us = int(self._since.restart() * 1000 * self.rate)
        before, following = self.position_us, self.position_us + passed_us
        if self.part is not None and self.part[0] <= before < self.part[1] <= following:
            following = self.part[0]
        self.seek(following if following <= self.stop_us else self.start_us)
