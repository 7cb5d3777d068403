"""What of a lane's spans lies in a range of time: how many, how long together, and how long each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evprof.view.lanes import Ints, SpanRow


class RangeFigure(NamedTuple):
    """All spans of one name and stage that reach into a range.

    `reaching` is how many, `sum_ns` the time that they cover inside it, `lengths` those of spans that lie in it as a
    whole, in ns.
    """

    name: str
    stage: str
    reaching: int
    sum_ns: int
    lengths: Ints


def figures_in(row: SpanRow, names: Sequence[str], start_ns: int, end_ns: int) -> list[RangeFigure]:
    """One entry for each kind of span, in order of first appearance; `names` are what the row's codes mean."""
    last = int(np.searchsorted(row.starts, end_ns, side="left"))
    inside = np.flatnonzero(row.ends[:last] > start_ns)
    starts, ends = row.starts[inside], row.ends[inside]
    covered = np.minimum(ends, end_ns) - np.maximum(starts, start_ns)
    is_whole = (starts >= start_ns) & (ends <= end_ns)
    kinds = row.stages[inside] * max(1, len(names)) + row.names[inside]
    _, firsts = np.unique(kinds, return_index=True)
    found = []
    for first in sorted(firsts.tolist()):
        of_kind = kinds == kinds[first]
        found.append(
            RangeFigure(
                names[int(row.names[inside[first]])],
                names[int(row.stages[inside[first]])],
                int(of_kind.sum()),
                int(covered[of_kind].sum()),
                (ends - starts)[of_kind & is_whole],
            )
        )
    return found
