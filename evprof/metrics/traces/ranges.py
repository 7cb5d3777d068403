"""Stretches of time as two arrays, beginnings and ends: their union, and how much of what lies in any other stretch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evprof.core.rows.distinct import Ints
from evprof.core.rows.trace_columns import Shares


@dataclass(frozen=True)
class Ranges:
    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def total_ns(self) -> int:
        return int((self.ends - self.starts).sum())

    def within_ns(self, start: int, end: int) -> int:
        return int(np.maximum(np.minimum(self.ends, end) - np.maximum(self.starts, start), 0).sum())


def union(starts: Ints, ends: Ints) -> Ranges:
    if not len(starts):
        return Ranges(starts, ends)
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    begins = np.ones(len(starts), dtype=bool)
    begins[1:] = starts[1:] > reach[:-1]
    places = np.flatnonzero(begins)
    return Ranges(starts[places], reach[np.append(places[1:] - 1, len(starts) - 1)])


def shared_out(layers: list[Ranges], steps: list[tuple[int, int]]) -> Ints:
    """How the time of each step is shared among layers: each moment belongs to the first layer that covers it.

    (steps, layers + 1) in ns; the last column is what no layer covers. Rows sum to the steps' lengths.
    """
    moments = [
        np.array(steps, dtype=np.int64).ravel(),
        *(side for layer in layers for side in (layer.starts, layer.ends)),
    ]
    edges = _distinct(np.concatenate(moments))
    owner = np.full(len(edges) - 1 if len(edges) else 0, len(layers))
    for place in reversed(range(len(layers))):
        owner[covered(layers[place], edges)] = place
    lengths = np.diff(edges)
    found = np.zeros((len(steps), len(layers) + 1), dtype=np.int64)
    bounds = np.searchsorted(edges, np.array(steps, dtype=np.int64))
    for place in range(len(layers) + 1):
        passed = np.concatenate(([0], np.cumsum(np.where(owner == place, lengths, 0))))
        found[:, place] = passed[bounds[:, 1]] - passed[bounds[:, 0]]
    return found


def covered(ranges: Ranges, edges: Ints) -> npt.NDArray[np.bool_]:
    """Which intervals between edges the stretches cover; all their ends are edges."""
    change = np.zeros(len(edges), dtype=np.int64)
    np.add.at(change, np.searchsorted(edges, ranges.starts), 1)
    np.add.at(change, np.searchsorted(edges, ranges.ends), -1)
    return np.cumsum(change)[:-1] > 0


def levels(starts: Ints, ends: Ints, values: Shares) -> tuple[Ints, Shares]:
    """The sum of the values of all stretches that cover a moment: edges, and the level from each edge to the next."""
    times = np.concatenate((starts, ends))
    order = np.argsort(times, kind="stable")
    edges = times[order]
    level = np.cumsum(np.concatenate((values, -values))[order])
    depth = np.cumsum(np.concatenate((np.ones(len(starts)), -np.ones(len(ends))))[order])
    return edges, np.where(depth > 0, level, 0.0)


def _distinct(values: Ints) -> Ints:
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]
