"""How often the window looks at the recording: 30 times a second, and where something is measured on few cores only as
often as what they leave idle allows."""

from __future__ import annotations

import time

from evprof.run.processes.giving_way import WINDOW
from evprof.run.processes.idle_cores import IdleCores

PULL_INTERVAL_MS = 33
"""Time between two looks: 30 Hz."""

FEW_CORES = 4
"""On fewer cores than that the engine needs them all while something is measured."""

SPARING_SHARE = 0.008
"""Of one core, what looks and all that follows from them aim at there while hardly a core is idle; more is taken where
a look costs more than this share of `SLOWEST_MS`, or very much comes in."""

IDLE_SHARE, HARDLY_IDLE = 0.25, 0.25
"""What they take besides of what is idle, and how much of a core is too little to count: an engine that uses all cores
still waits now and then."""

QUICKEST_MS, SLOWEST_MS = 100, 4_000
"""Limits of the time between two looks there. The quickest is also how often it is asked whether one is due."""

MANY_ROWS = 2_000
"""So many rows are taken in at once where they are due: all of more would hold the window up."""


class LookRate:
    """When the next look is due. The more of the processor looks take, the more seldom they come; everything that
    follows them at a pace of its own (`ui.widgets.pace`) is stretched by as much."""

    def __init__(self) -> None:
        self.interval_ms: float = PULL_INTERVAL_MS
        """Time from one look to the next."""
        self._idle = IdleCores()
        self._worked_s = 0.0
        self._looked_s = 0.0
        self._row_count = 0

    @property
    def asking_ms(self) -> int:
        """How often to ask whether a look is due."""
        return QUICKEST_MS if WINDOW.is_sparing else PULL_INTERVAL_MS

    def spare(self, is_sparing: bool) -> None:
        """Begins or ends to look seldom."""
        self._worked_s = time.thread_time()
        if is_sparing:
            self._idle.since_last()
        self._set(QUICKEST_MS if is_sparing else PULL_INTERVAL_MS)

    def is_due(self, row_count: int) -> bool:
        """Whether it is time for a look, of the recording that has so many rows by now."""
        if not WINDOW.is_sparing or row_count - self._row_count >= MANY_ROWS:
            return True
        # A timer may come a little early, and would then wait for a whole turn more.
        return 1000 * (time.monotonic() - self._looked_s) > self.interval_ms - QUICKEST_MS / 2

    def note(self, row_count: int) -> None:
        """A look begins. What the one before led to has been done by now."""
        before_s, self._worked_s = self._worked_s, time.thread_time()
        self._looked_s, self._row_count = time.monotonic(), row_count
        if WINDOW.is_sparing:
            share = SPARING_SHARE + IDLE_SHARE * max(0.0, self._idle.since_last() - HARDLY_IDLE)
            wanted_ms = 1000 * (self._worked_s - before_s) / share
            # Half of the way: one costly picture is no reason to look away.
            middle_ms = (self.interval_ms + min(wanted_ms, SLOWEST_MS)) / 2
            self._set(max(middle_ms, QUICKEST_MS))

    def _set(self, interval_ms: float) -> None:
        self.interval_ms = interval_ms
        WINDOW.stretch = interval_ms / PULL_INTERVAL_MS
