"""When to sample: at a run's beginning and then ten times a second, however often one asks."""

from __future__ import annotations

from evprof.core.clock import Clock
from evprof.core.units import NS_PER_S

SAMPLES_PER_S = 10
INTERVAL_NS = NS_PER_S // SAMPLES_PER_S


class SampleGrid:
    """The moments of one sampler. A late call does not shift all later ones; a long pause starts a new grid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_ns: int | None = None
        self._run_id: int | None = None

    def now_if_due(self, run_id: int) -> int | None:
        """The clock's time when a sample of this run is due, None otherwise. However short a run is, it has one."""
        now = self._clock()
        if run_id != self._run_id:
            self._run_id, self._due_ns = run_id, None
        if self._due_ns is not None and now < self._due_ns:
            return None
        self._due_ns = now + INTERVAL_NS if self._due_ns is None else self._due_ns + INTERVAL_NS
        if self._due_ns <= now:
            self._due_ns = now + INTERVAL_NS
        return now
