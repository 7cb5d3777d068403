"""How many events a recording has from moment to moment, found out a little at a time; it knows no widget."""

from __future__ import annotations

from evprof.view.event_rates import Rates, Region, polarity_counts
from ui.players.event_windows import EventWindows

BINS = 160
SAMPLE_US = 20_000
"""Of longer bins so much is looked at: a long recording is not read as a whole for a curve."""

_STEP = 8


class RateSurvey:
    """Looks at every bin once. Used by one thread only."""

    def __init__(self, windows: EventWindows, region: Region | None) -> None:
        self._windows = windows
        self.region = region
        self.rates = Rates.unknown(windows.duration_us + 1, min(BINS, windows.duration_us + 1))
        self._next = 0

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to look at."""
        return self._next >= self.rates.bins

    def step(self) -> None:
        """Looks at some more bins. Raises UserError."""
        rates = self.rates
        on, off, looked = rates.on.copy(), rates.off.copy(), rates.looked_us.copy()
        for place in range(self._next, min(self._next + _STEP, rates.bins)):
            start, stop = rates.edges(place)
            stop = min(stop, start + SAMPLE_US)
            events = self._windows.between(start, stop)
            on[place], off[place] = polarity_counts(events if self.region is None else self.region.events(events))
            looked[place] = stop - start
        self._next += _STEP
        self.rates = Rates(rates.stop_us, on, off, looked)
