"""Reduces many rows to what the pixel columns of a picture can show.

Times are ns relative to the run's zero, in ascending order. Positions are logical px from the left end of the drawing
area. A *column* is one device pixel; there are `per_px` columns in a logical px.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.view.timescale import Timescale

Ints: TypeAlias = "npt.NDArray[np.int64]"
Floats: TypeAlias = "npt.NDArray[np.float64]"

LEAST_SHARE = 0.6
"""Coverage of a column that short intervals begin in: a lone short interval stays visible."""

WIDE_PX, GAP_PX = 3.0, 1.0
"""A gap follows intervals wider than `WIDE_PX`."""


class Bars(NamedTuple):
    """Bars from left to right. Each stands for `counts[i]` rows from `firsts[i]` on; `rows[i]` is the longest."""

    x0: Floats
    x1: Floats
    rows: Ints
    firsts: Ints
    counts: Ints


class Stems(NamedTuple):
    """One stem per pixel column: its position, the largest value there and the row of that value."""

    x: Floats
    values: Floats
    rows: Ints


class Coverage(NamedTuple):
    """How much of each column the intervals of each kind cover: `shares` [columns, kinds], 0 to 1.

    `rows`, `left` and `right` (px) are the intervals wider than `WIDE_PX`; the gap after them is left out.
    """

    shares: Floats
    rows: Ints
    left: Floats
    right: Floats


def visible_rows(starts: Ints, ends: Ints, scale: Timescale) -> slice:
    """Rows that reach into the visible range, for intervals in order of start that do not overlap."""
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
    longest = _row_of_largest((ends[window] - starts[window]).astype(np.float64), groups)
    return Bars(
        x0[groups],
        np.maximum.reduceat(x1, groups),
        rows[longest],
        rows[groups],
        np.diff(groups, append=len(rows)),
    )


def span_coverage(
    intervals: tuple[Ints, Ints, Ints], kind_count: int, scale: Timescale, columns: int, per_px: float
) -> Coverage:
    """Coverage by intervals (starts, ends, kinds) in order of start, each cut where the next one begins.

    Kinds are 0 to `kind_count` - 1.
    """
    starts, ends, kinds = intervals
    factor = np.float64(per_px / scale.ns_per_px)
    edges = starts.searchsorted(_column_moments(scale, columns, per_px))
    first, last = int(edges[0]), int(edges[-1])
    stops = ends[first:last].copy()
    following = starts[first + 1 : last + 1]
    np.minimum(stops[: len(following)], following, out=stops[: len(following)])
    lengths: Floats = (stops - starts[first:last]) * factor
    column = np.repeat(np.arange(columns), np.diff(edges))
    # Intervals do not overlap: of each column only the last one can go on into others, and the one before the view.
    rows = edges[np.diff(edges, prepend=-1) > 0] - 1
    rows = rows[(rows >= max(0, first - 1)) & (rows < last)]
    own = np.where(rows >= first, column[rows - first] if last > first else 0, -1)
    left: Floats = (starts[rows] - scale.start_ns) * factor
    stop = ends[rows].copy()
    is_followed = rows + 1 < len(starts)
    stop[is_followed] = np.minimum(stop[is_followed], starts[rows[is_followed] + 1])
    right: Floats = (stop - scale.start_ns) * factor
    is_wide = (right - left > WIDE_PX * per_px) & (right > 0)
    right -= np.where(is_wide, GAP_PX * per_px, 0.0)
    goes_on = right > own + 1
    is_cut = goes_on & (own >= 0)
    lengths[rows[is_cut] - first] = own[is_cut] + 1 - left[is_cut]
    places = column * kind_count + kinds[first:last]
    covered: Floats = np.bincount(places, lengths + 1e-9, minlength=columns * kind_count).astype(np.float64)
    shares = covered.reshape(columns, kind_count)
    steps, rest = np.zeros((2, columns + 1, kind_count))
    end, kind = np.minimum(right[goes_on], columns), kinds[rows[goes_on]]
    np.add.at(steps, (own[goes_on] + 1, kind), 1.0)
    np.add.at(steps, (end.astype(np.intp), kind), -1.0)
    np.add.at(rest, (end.astype(np.intp), kind), end % 1)
    shares += (np.cumsum(steps, axis=0) + rest)[:columns]
    sums = shares.sum(axis=1)
    is_short = np.bincount(column, minlength=columns) > np.bincount(own[is_wide & (own >= 0)], minlength=columns)
    is_faint = is_short & (sums < LEAST_SHARE)
    shares[is_faint] *= (LEAST_SHARE / sums[is_faint])[:, None]
    shares = shares / np.maximum(sums, 1.0)[:, None]
    return Coverage(shares, rows[is_wide], left[is_wide] / per_px, right[is_wide] / per_px)


def tallest_stems(times: Ints, values: Floats, scale: Timescale, *, per_px: float = 1.0) -> Stems:
    """Points as stems, one per `1 / per_px` px. The largest value of each column is kept, so no outlier is lost."""
    beside = math.ceil(scale.ns_per_px * 8)
    first = int(times.searchsorted(scale.start_ns - beside))
    last = int(times.searchsorted(scale.end_ns + beside, side="right"))
    x = (times[first:last] - scale.start_ns) / scale.ns_per_px
    if not len(x):
        return Stems(x, values[first:last], np.empty(0, dtype=np.int64))
    column = np.floor(x * per_px)
    is_first = np.ones(len(column), dtype=bool)
    np.not_equal(column[1:], column[:-1], out=is_first[1:])
    largest = _row_of_largest(values[first:last], is_first.nonzero()[0])
    return Stems(x[largest], values[first:last][largest], first + largest)


def column_levels(times: Ints, values: Floats, scale: Timescale, columns: int, per_px: float) -> tuple[Floats, Floats]:
    """The lowest and the highest of the levels that hold in each column; a level holds until the next row.

    NaN where a column ends before the first row.
    """
    borders = times.searchsorted(_column_moments(scale, columns, per_px))
    # With the level that a column begins with.
    lowest = values.take(np.maximum(borders[:-1] - 1, 0)) if len(values) else np.empty(columns)
    highest = lowest.copy()
    if (first := int(borders[0])) < (last := int(borders[-1])):
        held = (borders[1:] > borders[:-1]).nonzero()[0]
        seen, places = values[first:last], borders[:-1][held] - first
        lowest[held] = np.minimum(lowest[held], np.minimum.reduceat(seen, places))
        highest[held] = np.maximum(highest[held], np.maximum.reduceat(seen, places))
    if first == 0:
        starts_at = int(borders[1:].searchsorted(1))
        lowest[:starts_at] = highest[:starts_at] = np.nan
    return lowest, highest


@lru_cache(maxsize=8)
def _column_moments(scale: Timescale, columns: int, per_px: float) -> Ints:
    """The first ns of each column, and of the one after the last."""
    borders = np.arange(columns + 1) * (scale.ns_per_px / per_px)
    return np.asarray(scale.start_ns + np.ceil(borders).astype(np.int64), dtype=np.int64)


def _clipped(times: Ints, scale: Timescale) -> Floats:
    """Positions, at most one view width beyond the edges."""
    x = (times - scale.start_ns) / scale.ns_per_px
    return np.clip(x, -scale.width_px, 2 * scale.width_px)


def _row_of_largest(values: Floats, groups: Ints) -> Ints:
    """The index of the first largest value of each group; `groups` are first rows."""
    if len(groups) == len(values):
        return groups
    largest = np.repeat(np.maximum.reduceat(values, groups), np.diff(groups, append=len(values)))
    places = (values >= largest).nonzero()[0]
    return np.asarray(places[places.searchsorted(groups)], dtype=np.int64)


def row_at(starts: Ints, ends: Ints, t_ns: int, slack_ns: float = 0.0) -> int | None:
    """The interval at a moment, or one that begins or ended a hair away."""
    index = int(np.searchsorted(starts, t_ns, side="right")) - 1
    near = [row for row in (index, index + 1) if 0 <= row < len(starts)]
    return next((row for row in near if starts[row] - slack_ns <= t_ns <= ends[row] + slack_ns), None)


def nearest_row(times: Ints, t_ns: int) -> int | None:
    """The row whose moment is nearest to `t_ns`, the earlier of two as near; None without rows."""
    if not len(times):
        return None
    right = int(np.searchsorted(times, t_ns))
    near = [row for row in (right - 1, right) if 0 <= row < len(times)]
    return min(near, key=lambda row: abs(int(times[row]) - t_ns))


def nice_ceiling(value: float) -> float:
    """The smallest of 1, 1.5, 2, 3, 4, 5, 6, 8, 10 × a power of ten that is at least `value`; 1 for 0 and less."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
    return next((step * power for step in steps if step * power >= value * 0.999_999), 20.0 * power)
