"""Events counted over time, brighter and darker apart. It uses no Qt."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from evprof.core.events import EventArray
from evprof.core.units import amount_text
from evprof.view.lanes import Floats, Ints


class Rates(NamedTuple):
    """Counts [n] in bins of equal length from the recording's beginning to `stop_us`.

    `looked_us` is how much of each bin was looked at: 0 where nothing is known yet.
    """

    stop_us: int
    on: Ints
    off: Ints
    looked_us: Ints

    @classmethod
    def unknown(cls, stop_us: int, bins: int) -> Self:
        """Before anything was looked at."""
        return cls(stop_us, *(np.zeros(bins, dtype=np.int64) for _ in range(3)))

    @property
    def bins(self) -> int:
        return len(self.on)

    def edges(self, place: int) -> tuple[int, int]:
        """Begin and end of a bin in µs."""
        return place * self.stop_us // self.bins, (place + 1) * self.stop_us // self.bins

    def place_of(self, moment_us: int) -> int | None:
        """The bin of a moment; None outside."""
        if not 0 <= moment_us < self.stop_us:
            return None
        # The last bin that begins by then: edges are rounded down, and some bins of a very short recording are empty.
        return ((moment_us + 1) * self.bins - 1) // self.stop_us

    @property
    def on_per_s(self) -> Floats:
        """Brighter events per second; NaN where nothing is known."""
        return self._per_s(self.on)

    @property
    def off_per_s(self) -> Floats:
        """Darker events per second; NaN where nothing is known."""
        return self._per_s(self.off)

    def _per_s(self, counts: Ints) -> Floats:
        known = self.looked_us > 0
        return np.where(known, counts / np.maximum(self.looked_us, 1) * 1e6, np.nan)

    @property
    def is_sampled(self) -> bool:
        """Whether only a part of the known bins was looked at."""
        lengths = np.diff([self.edges(place)[0] for place in range(self.bins)] + [self.stop_us])
        known = self.looked_us > 0
        return bool((self.looked_us[known] < lengths[known]).any())


def polarity_counts(events: EventArray) -> tuple[int, int]:
    """How many were brighter and how many darker."""
    on = int(np.count_nonzero(events.p))
    return on, len(events) - on


def rate_words(events_per_s: float) -> str:
    """`128 k/s`, `1.2 M/s`."""
    if events_per_s < 1000:
        return amount_text(events_per_s, "/s")
    unit, factor = ("M", 1e6) if events_per_s >= 1e6 else ("k", 1e3)
    value = events_per_s / factor
    return f"{value:,.0f} {unit}/s" if value >= 100 else f"{value:.1f} {unit}/s"
