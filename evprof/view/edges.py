"""Which edge of what is drawn lies nearest to a moment."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from evprof.view.decimate import Ints


def nearest_edge(columns: Iterable[Ints], t_ns: int, within_ns: int) -> int | None:
    """The value nearest to `t_ns`, the earlier of two as near; None where none lies within `within_ns`.

    `columns` are moments in ns, each in order of time.
    """
    near: list[int] = []
    for column in columns:
        place = int(np.searchsorted(column, t_ns))
        near += [int(column[index]) for index in (place - 1, place) if 0 <= index < len(column)]
    best = min(near, key=lambda edge: (abs(edge - t_ns), edge), default=None)
    return best if best is not None and abs(best - t_ns) <= within_ns else None
