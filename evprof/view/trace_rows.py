"""A torch trace as lanes of nested bars: one lane for each thread and stream, one row for each depth of calls.

Arrays in, arrays out; times in ns on the trace's clock. It knows nothing of what slices mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evprof.core.rows.blocks import Ints
from evprof.core.rows.trace_columns import TraceColumns
from evprof.view.decimate import row_at

MOST_ROWS = 24
"""Calls nested deeper are drawn in the last row, one over the other."""


@dataclass(frozen=True)
class NestedRow:
    """Slices of one depth in order of time, none before the one before it ends; `slices` are places in the trace."""

    starts: Ints
    ends: Ints
    slices: Ints

    def at(self, t_ns: int, slack_ns: float) -> int | None:
        """The slice at a moment, or one that begins or ended a hair away; its place in the trace."""
        place = row_at(self.starts, self.ends, t_ns, slack_ns)
        return None if place is None else int(self.slices[place])


@dataclass(frozen=True)
class TraceLane:
    """A thread or a stream: its place in the trace's tracks, and its rows, the outermost calls first."""

    track: int
    is_device: bool
    rows: tuple[NestedRow, ...]

    def row_of(self, slice_place: int) -> int | None:
        """The row in which a slice of the trace is drawn."""
        return next((at for at, row in enumerate(self.rows) if bool((row.slices == slice_place).any())), None)


def trace_lanes(trace: TraceColumns, chosen: npt.NDArray[np.bool_]) -> tuple[TraceLane, ...]:
    """The lanes of the chosen slices: threads first, then devices' streams, each kind in the order of first slices."""
    places = np.flatnonzero(chosen)
    if not len(places):
        return ()
    slices = trace.slices
    starts, ends = slices.starts[places], trace.ends[places]
    tracks = slices.tracks[places]
    order = np.lexsort((-(ends - starts), starts, tracks))
    borders = np.flatnonzero(np.diff(tracks[order])) + 1
    on_device = np.zeros(len(slices), dtype=bool)
    on_device[trace.device.rows] = True
    found = []
    for block in np.split(order, borders):
        rows = tuple(_nested(starts[block], ends[block], places[block]))
        found.append(TraceLane(int(tracks[block[0]]), bool(on_device[places[block[0]]]), rows))
    return tuple(sorted(found, key=lambda lane: (lane.is_device, int(lane.rows[0].starts[0]))))


def _nested(starts: Ints, ends: Ints, places: Ints) -> Iterator[NestedRow]:
    """Rows by depth of slices in order of start, the longer of two first."""
    depths = np.minimum(call_depths(starts, ends), MOST_ROWS - 1)
    for depth in range(int(depths.max()) + 1):
        mine = depths == depth
        if mine.any():
            # What crosses its neighbour is cut where the next one begins: rows may not overlap.
            first, last = starts[mine], ends[mine]
            last[:-1] = np.minimum(last[:-1], np.maximum(first[1:], first[:-1]))
            yield NestedRow(first, last, places[mine])


def call_depths(starts: Ints, ends: Ints) -> Ints:
    """How many intervals lie around each; in order of start, the longer of two first.

    Of intervals that nest, those around one have begun and not ended: all that began less all that have ended.
    """
    # An empty interval would end where it begins and count as over before it is met.
    lasts = np.sort(np.maximum(ends, starts + 1))
    begun = np.arange(len(starts), dtype=np.int64)
    found: Ints = np.maximum(begun - np.searchsorted(lasts, starts, side="right"), 0)
    return found
