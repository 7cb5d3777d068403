"""Events that tests compare."""

from __future__ import annotations

import numpy as np

from evprof.core.events import EventArray

COLUMNS = ("x", "y", "t_us", "p")


def same(one: EventArray, other: EventArray) -> bool:
    """Whether two recordings hold the same events in columns of the same types."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in COLUMNS]
    return all(left.dtype == right.dtype and np.array_equal(left, right) for left, right in pairs)


def rows(events: EventArray) -> list[tuple[int, int, int, int]]:
    """(x, y, t, p) of each event."""
    return list(zip(*(getattr(events, name).tolist() for name in COLUMNS), strict=True))
