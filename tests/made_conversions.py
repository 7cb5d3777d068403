"""What tests of conversions share: recordings that are made, and a watcher."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evprof.core.events import EventArray
from evprof.run.conversion.workers import Outcome


class ConversionNotes:
    """Keeps what a conversion says; `on_end` is called after each outcome."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        self.outcomes: list[Outcome] = []
        self.counts = (0, 0)
        self._on_end = on_end

    def begin(self, tasks: int, done_before: int) -> None:
        self.counts = tasks, done_before

    def look(self) -> None: ...

    def end(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._on_end()

    def stopping(self) -> None: ...


def some_events(seed: int, count: int = 3_000, span_us: int = 50_000, first_us: int = 0) -> EventArray:
    """Random events of a sensor of 64 x 48, in time order."""
    generator = np.random.default_rng(seed)
    columns = [generator.integers(0, limit, count) for limit in (64, 48, span_us, 2)]
    return EventArray.from_columns(columns[0], columns[1], np.sort(columns[2]) + first_us, columns[3])
