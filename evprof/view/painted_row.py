"""What colour each column of a picture has, out of as many intervals as there may be.

Of each interval it is known how much of every colour lies before it. What lies between two moments is then looked up at
both: a picture of a million intervals costs its columns, and shows of each column how much of it is taken.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.view.growing import Growing
from evprof.view.timescale import Timescale

Ints: TypeAlias = "npt.NDArray[np.int64]"
Floats: TypeAlias = "npt.NDArray[np.float64]"
Singles: TypeAlias = "npt.NDArray[np.float32]"
Colors: TypeAlias = "npt.NDArray[np.uint8]"

CHANNELS = 4
"""Of a colour, the last of them its opacity, which the others do not exceed."""

LEAST = 0.6
"""Opacity of a column that one interval or more falls into: of what is short something is to be seen."""

GAP_PX = 1.0
WIDE_PX = 3.0
"""Wider intervals are told apart from the next one by a gap."""


class Wide(NamedTuple):
    """Intervals that are wide: their places in the row, and from where to where they reach (px)."""

    rows: Ints
    left: Floats
    right: Floats


class Columns(NamedTuple):
    """A colour for each column (a row each, 0…255), and the wide intervals that are seen in them."""

    colors: Singles
    wide: Wide


class PaintedRow:
    """The colours of intervals in order of start, each as far as the next one begins. `update` before asking."""

    def __init__(self) -> None:
        self._starts: Ints = np.empty(0, dtype=np.int64)
        self._ends: Ints = self._starts
        self._colors = Growing(np.uint8, CHANNELS)
        self._before = Growing(np.int64, CHANNELS)
        """Colours of all intervals before each one, times their lengths (ns)."""

    def update(self, starts: Ints, ends: Ints, colors: Colors, first: int = 0) -> PaintedRow:
        """Takes in all intervals, of which those from `first` on are new or other ones: `colors` are theirs."""
        self._starts, self._ends = starts, ends
        painted, before = self._colors.reach(len(starts)), self._before.reach(len(starts))
        painted[first:] = colors
        begin = max(first - 1, 0)
        lengths = np.minimum(ends[begin:-1], starts[begin + 1 :]) - starts[begin:-1]
        if len(lengths):
            np.cumsum(painted[begin:-1] * lengths[:, None], axis=0, out=before[begin + 1 :])
            before[begin + 1 :] += before[begin]
        return self

    def columns(self, scale: Timescale, count: int, per_px: float) -> Columns:
        """The colours of `count` columns of `1 / per_px` px, in each the intervals' own by how much of it they take."""
        if not len(self._starts):
            return Columns(np.zeros((count, CHANNELS), dtype=np.float32), Wide(self._starts, np.empty(0), np.empty(0)))
        borders, moments = _borders(scale, count, per_px)
        begun = self._starts.searchsorted(moments)
        rows = np.maximum(begun - 1, 0)
        starts, colors = self._starts.take(rows), self._colors.view.take(rows, axis=0)
        lengths = self._ends.take(rows) - starts
        starts -= scale.start_ns
        before = self._before.view.take(rows, axis=0)
        before -= before[0]
        inside = np.minimum(borders - starts, lengths)
        painted = colors * np.maximum(inside, 0, out=inside)[:, None]
        painted += before
        found = ((painted[1:] - painted[:-1]) * (per_px / scale.ns_per_px)).astype(np.float32)
        is_faint = (begun[1:] > begun[:-1]) & (lengths[1:] < scale.ns_per_px) & (found[:, -1] < LEAST * 255)
        if is_faint.any():
            # Without a length it has a colour all the same.
            shown = found[is_faint] + np.float32(1e-6) * colors[1:][is_faint]
            found[is_faint] = shown * (np.float32(LEAST * 255) / shown[:, -1:])
        # Wide ones hold several borders beside each other, unless the picture cuts them.
        apart = max(int(WIDE_PX * per_px) - 1, 1)
        held = rows[apart:][rows[apart:] == rows[:-apart]]
        wide = self._wide(np.concatenate([rows[:1], held, rows[-1:]]), scale)
        if len(wide.rows):
            add_colors(found, (wide.right - GAP_PX, wide.right), -self.colors(wide.rows), per_px)
        return Columns(found, wide)

    def colors(self, rows: Ints) -> Singles:
        """The colours of some intervals."""
        return self._colors.view[rows].astype(np.float32)

    def _wide(self, rows: Ints, scale: Timescale) -> Wide:
        """Those of some intervals, told in order and more than once, that are wide."""
        rows = rows[np.concatenate([[True], rows[1:] > rows[:-1]])]
        after = np.minimum(rows + 1, len(self._starts) - 1)
        ends = self._ends[rows]
        ends = np.where(after > rows, np.minimum(ends, self._starts[after]), ends)
        left, right = ((edge - scale.start_ns) / scale.ns_per_px for edge in (self._starts[rows], ends))
        is_wide = right - left > WIDE_PX
        return Wide(rows[is_wide], left[is_wide], right[is_wide])


@lru_cache(maxsize=4)
def _borders(scale: Timescale, count: int, per_px: float) -> tuple[Floats, Ints]:
    """Where columns begin and the last one ends, in ns from the scale's start; and the first whole moments (ns) from
    there on: the same for every lane of a picture."""
    borders = np.arange(count + 1, dtype=np.float64) * (scale.ns_per_px / per_px)
    return borders, scale.start_ns + np.ceil(borders).astype(np.int64)


def add_colors(columns: Singles, edges_px: tuple[Floats, Floats], colors: Singles, per_px: float) -> None:
    """Adds a colour to the columns between two positions each, by how much of them it takes. No two in one column."""
    left, right = edges_px[0] * per_px, edges_px[1] * per_px
    first = np.floor(left)
    for beside in range(int(np.ceil((right - left).max(initial=0))) + 1):
        at = first + beside
        share = np.minimum(at + 1, right) - np.maximum(at, left)
        is_seen = (share > 0) & (at >= 0) & (at < len(columns))
        columns[at[is_seen].astype(np.intp)] += colors[is_seen] * share[is_seen, None].astype(np.float32)
