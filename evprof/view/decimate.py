"""At most a few shapes per pixel, whatever the number of rows: what a picture of given width can show.

Arrays in, arrays out; times in ns relative to the run's zero, positions in px. Rows are expected in order of time.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.view.peaks import Peaks
from evprof.view.timescale import Timescale

Ints: TypeAlias = "npt.NDArray[np.int64]"
Floats: TypeAlias = "npt.NDArray[np.float64]"

FEW_ROWS = 5_000
"""Up to so many rows each is looked at."""


class Bars(NamedTuple):
    """Bars to draw, left to right. Each stands for `counts[i]` rows from `firsts[i]` on; `rows[i]` is the longest."""

    x0: Floats
    x1: Floats
    rows: Ints
    firsts: Ints
    counts: Ints


class Stems(NamedTuple):
    """One stem per pixel column: position, the largest value there and its row, and how many rows fell on it."""

    x: Floats
    values: Floats
    rows: Ints
    counts: Ints


def visible_rows(starts: Ints, ends: Ints, scale: Timescale) -> slice:
    """Rows that reach into the visible range, for intervals in order of start that do not overlap."""
    if not len(starts):
        return slice(0, 0)
    first = int(ends.searchsorted(scale.start_ns))
    last = int(starts.searchsorted(scale.end_ns, side="right"))
    return slice(min(first, last), last)


def merged_bars(starts: Ints, ends: Ints, scale: Timescale, *, narrow_px: float = 1.5) -> Bars:
    """Intervals as bars; neighbours narrower than `narrow_px` that begin on the same pixel become one.

    The result has at most about two bars per pixel. Bars are clipped to one view width beyond the edges.
    """
    window = visible_rows(starts, ends, scale)
    x0, x1 = _clipped(starts[window], scale), _clipped(ends[window], scale)
    rows = np.arange(window.start, window.stop, dtype=np.int64)
    if not len(rows):
        return Bars(x0, x1, rows, rows, rows)
    narrow, pixel = (x1 - x0) < narrow_px, np.floor(x0)
    begins = np.ones(len(rows), dtype=bool)
    begins[1:] = ~(narrow[1:] & narrow[:-1] & (pixel[1:] == pixel[:-1]))
    groups = begins.nonzero()[0]
    counts = _counts(groups, len(rows))
    tallest = _row_of_largest((ends[window] - starts[window]).astype(np.float64), groups, counts)
    right = np.maximum.reduceat(x1, groups)
    return Bars(x0[groups], right, rows[tallest], rows[groups], counts.astype(np.int64))


def _first_rows(times: Ints, window: slice, scale: Timescale, reach: tuple[float, float], per_px: float = 1.0) -> Ints:
    """The first of the rows of a window on each column of `1 / per_px` px, of columns that hold any.

    What lies left of `reach` (px), and right of it, is one column each.
    """
    rows = window.start + times[window].searchsorted(_column_moments(scale, reach, per_px))
    # Where a column is empty, the next one begins with the same row.
    is_first = np.empty(len(rows), dtype=bool)
    np.not_equal(rows[:-1], rows[1:], out=is_first[:-1])
    is_first[-1] = rows[-1] < window.stop
    return np.asarray(rows[is_first], dtype=np.int64)


@lru_cache(maxsize=8)
def _column_moments(scale: Timescale, reach: tuple[float, float], per_px: float) -> Ints:
    """When each of the columns begins, after a moment before all of them: the same for every lane of a picture."""
    columns = np.arange(math.floor(reach[0] * per_px), math.floor(reach[1] * per_px) + 2)
    moments = scale.start_ns + np.ceil(columns / per_px * scale.ns_per_px).astype(np.int64)

    def column(at: Ints) -> Floats:
        # As it is computed row by row, to the last bit.
        return np.floor((at - scale.start_ns) / scale.ns_per_px * per_px)

    while bool((is_late := column(moments - 1) >= columns).any()):
        moments -= is_late
    while bool((is_early := column(moments) < columns).any()):
        moments += is_early
    return np.concatenate([[np.iinfo(np.int64).min], moments])


def thinned(x: Floats, y: Floats, *, grain: float = 0.5) -> tuple[Floats, Floats]:
    """The points of a line in px that are needed to draw it: those between two at the same height are left out."""
    if len(x) < 3:
        return x, y
    level = np.round(y / grain)
    is_needed = np.ones(len(x), dtype=bool)
    is_needed[1:-1] = (level[1:-1] != level[:-2]) | (level[1:-1] != level[2:])
    return x[is_needed], y[is_needed]


def tallest_stems(
    times: Ints, values: Floats, scale: Timescale, *, per_px: float = 1.0, highest: Peaks | None = None
) -> Stems:
    """Points as stems, one per `1 / per_px` px: the largest value of each column is kept, so no outlier is lost.

    `highest` are peaks of the values: with them many points cost no more than few.
    """
    # Whole numbers: for a fraction all of the moments would become fractions first.
    beside = scale.ns_per_px * 8
    first = int(times.searchsorted(math.ceil(scale.start_ns - beside)))
    last = int(times.searchsorted(math.floor(scale.end_ns + beside), side="right"))
    if highest is not None and last - first > FEW_ROWS:
        groups = _first_rows(times, slice(first, last), scale, (-10.0, scale.width_px + 10.0), per_px)
        counts = _counts(groups, last)
        largest = highest.rows(groups, counts)
        return Stems((times[largest] - scale.start_ns) / scale.ns_per_px, values[largest], largest, counts)
    x = (times[first:last] - scale.start_ns) / scale.ns_per_px
    rows = np.arange(first, last, dtype=np.int64)
    if not len(rows):
        return Stems(x.astype(np.float64), values[first:last], rows, rows)
    column = np.floor(x * per_px)
    is_first = np.ones(len(column), dtype=bool)
    np.not_equal(column[1:], column[:-1], out=is_first[1:])
    groups = is_first.nonzero()[0]
    counts = _counts(groups, len(rows))
    largest = _row_of_largest(values[first:last], groups, counts)
    return Stems(x[largest], values[first:last][largest], rows[largest], counts.astype(np.int64))


def step_line(times: Ints, values: Floats, scale: Timescale) -> tuple[Floats, Floats]:
    """A line through levels that hold until the next row, as x and value; where
    rows are dense, the lowest and the highest of each pixel.

    The level before the first visible row is carried in from the left; nothing is drawn before the first row of all.
    """
    first = max(0, int(times.searchsorted(scale.start_ns)) - 1)
    last = min(int(times.searchsorted(scale.end_ns, side="right")) + 1, len(times))
    if last - first > 2 * scale.width_px:
        return _two_per_pixel(times, values, slice(first, last), scale)
    x, level = _clipped(times[first:last], scale), values[first:last]
    if not len(x):
        return x.astype(np.float64), level
    # Each level holds until the next moment: (x0,v0) (x1,v0) (x1,v1) …
    xs = np.repeat(x, 2)[1:]
    levels = np.repeat(level, 2)[:-1]
    return xs, levels


def column_levels(times: Ints, values: Floats, scale: Timescale, columns: int, per_px: float) -> tuple[Floats, Floats]:
    """The lowest and the highest of the levels that hold in each of `columns` columns of `1 / per_px` px, where a level
    holds until the next row; NaN where a column ends before the first row of all."""
    borders = times.searchsorted(_column_moments(scale, (0.0, columns / per_px), per_px)[1 : columns + 2])
    # With the level that a column begins with.
    lowest = values.take(np.maximum(borders[:-1] - 1, 0)) if len(values) else np.empty(columns)
    highest = lowest.copy()
    if (first := int(borders[0])) < (last := int(borders[-1])):
        is_held = borders[1:] > borders[:-1]
        held = slice(None) if is_held.all() else is_held.nonzero()[0]
        seen, places = values[first:last], borders[:-1][held] - first
        lowest[held] = np.minimum(lowest[held], np.minimum.reduceat(seen, places))
        highest[held] = np.maximum(highest[held], np.maximum.reduceat(seen, places))
    if first == 0:
        lowest[: int(borders[1:].searchsorted(1))] = np.nan
        highest[: int(borders[1:].searchsorted(1))] = np.nan
    return lowest, highest


def _clipped(times: Ints, scale: Timescale) -> Floats:
    """Positions, at most one view width beyond the edges."""
    x = (times - scale.start_ns) / scale.ns_per_px
    np.maximum(x, -scale.width_px, out=x)
    return np.minimum(x, 2 * scale.width_px, out=x)


def _two_per_pixel(times: Ints, values: Floats, window: slice, scale: Timescale) -> tuple[Floats, Floats]:
    groups = _first_rows(times, window, scale, (0.0, scale.width_px))
    lasts = _lasts(groups, window.stop)
    level, places = values[window], groups - window.start
    lowest, highest = np.minimum.reduceat(level, places), np.maximum.reduceat(level, places)
    # Rising pixels go up and falling ones down, so that the line does not zigzag.
    rises = values[lasts] >= values[groups]
    levels = np.empty((len(groups), 2))
    levels[:, 0], levels[:, 1] = np.where(rises, lowest, highest), np.where(rises, highest, lowest)
    return np.floor(_clipped(times[groups], scale)).repeat(2), levels.ravel()


def _lasts(firsts: Ints, stop: int) -> Ints:
    """The last row of each stretch, the last of which ends before `stop`."""
    lasts = np.empty_like(firsts)
    np.subtract(firsts[1:], 1, out=lasts[:-1])
    lasts[-1:] = stop - 1
    return lasts


def _counts(firsts: Ints, stop: int) -> Ints:
    """How many rows each stretch has."""
    counts = np.empty_like(firsts)
    np.subtract(firsts[1:], firsts[:-1], out=counts[:-1])
    counts[-1:] = stop - firsts[-1:]
    return counts


def _row_of_largest(values: Floats, groups: Ints, counts: Ints) -> Ints:
    """Per group, the index of its (first) largest value."""
    if len(groups) == len(values):
        return groups
    largest = np.repeat(np.maximum.reduceat(values, groups), counts)
    places = (values >= largest).nonzero()[0]
    return np.asarray(places[places.searchsorted(groups)], dtype=np.int64)


def nearest_row(times: Ints, t_ns: int) -> int | None:
    """The row whose moment is nearest to `t_ns`, or None without rows."""
    if not len(times):
        return None
    right = int(np.searchsorted(times, t_ns))
    if right == 0:
        return 0
    if right == len(times):
        return len(times) - 1
    return right if times[right] - t_ns < t_ns - times[right - 1] else right - 1


def nice_ceiling(value: float) -> float:
    """The smallest of 1, 1.5, 2, 3, 4, 5, 6, 8, 10 × a power of ten that is at least `value`; 1 for nothing."""
    if value <= 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(value))
    for leading in (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0):
        if leading * power >= value * 0.999_999:
            return float(leading * power)
    return float(20.0 * power)
