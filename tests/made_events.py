"""Events that tests compare."""

from __future__ import annotations

from typing import Any

import numpy as np

from evprof.core.events import EventArray

COLUMNS = ("x", "y", "t_us", "p")


def same(one: EventArray, other: EventArray) -> bool:
    """Whether two recordings hold the same events in columns of the same types."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in COLUMNS]
    return all(left.dtype == right.dtype and np.array_equal(left, right) for left, right in pairs)


def from_faery(events: Any) -> EventArray:
    """faery's table of events as ours."""
    return EventArray.from_columns(events["x"], events["y"], events["t"].astype(np.int64), events["p"])


def rows(events: EventArray) -> list[tuple[int, int, int, int]]:
    """(x, y, t, p) of each event."""
    return list(zip(*(getattr(events, name).tolist() for name in COLUMNS), strict=True))
