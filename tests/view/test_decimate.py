"""What is left of many rows must look like all of them: no outlier lost, no bar twice, few shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.view.decimate import (
    column_levels,
    merged_bars,
    nearest_row,
    nice_ceiling,
    step_line,
    tallest_stems,
    thinned,
    visible_rows,
)
from evprof.view.peaks import Peaks
from evprof.view.timescale import Timescale


def _spans(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    starts = np.cumsum(random.integers(1_000, 90_000, count))
    lengths = np.minimum(random.integers(1, 80_000, count), np.append(np.diff(starts), 80_000))
    return starts, starts + lengths


def test_only_rows_that_reach_into_the_view_are_taken() -> None:
    starts, ends = np.array([0, 100, 200, 300]), np.array([50, 150, 250, 350])
    assert visible_rows(starts, ends, Timescale(120, 260, 100.0)) == slice(1, 3)
    assert visible_rows(starts, ends, Timescale(160, 190, 100.0)) == slice(2, 2)
    assert visible_rows(np.array([]), np.array([]), Timescale(0, 1, 100.0)) == slice(0, 0)


@given(count=st.integers(1, 3000), seed=st.integers(0, 99), low=st.floats(0, 0.9), share=st.floats(0.001, 1.0))
def test_bars_stand_for_every_visible_row_once(count: int, seed: int, low: float, share: float) -> None:
    starts, ends = _spans(count, seed)
    length = int(ends[-1])
    scale = Timescale(int(low * length), int(low * length + share * length) + 1, 640.0)
    bars = merged_bars(starts, ends, scale)
    window = visible_rows(starts, ends, scale)
    assert int(bars.counts.sum()) == window.stop - window.start
    covered = [row for first, n in zip(bars.firsts, bars.counts, strict=True) for row in range(first, first + n)]
    assert covered == list(range(window.start, window.stop))
    assert len(bars.x0) <= 2 * 640 + 4
    assert bool((bars.x1 >= bars.x0).all())


def test_a_merged_bar_shows_its_longest_row() -> None:
    starts = np.array([0, 10, 20, 500_000])
    ends = np.array([5, 19, 22, 900_000])
    bars = merged_bars(starts, ends, Timescale(0, 1_000_000, 100.0))
    assert bars.rows.tolist() == [1, 3]
    assert bars.counts.tolist() == [3, 1]


@given(count=st.integers(1, 5000), seed=st.integers(0, 99))
def test_the_tallest_stem_of_each_pixel_survives(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    times = np.sort(random.integers(0, 1_000_000, count))
    values = random.exponential(5.0, count)
    stems = tallest_stems(times, values, Timescale(0, 1_000_000, 300.0))
    assert stems.values.max() == values.max()
    assert len(stems.x) <= 320
    assert int(stems.counts.sum()) == count
    assert np.array_equal(values[stems.rows], stems.values)


def test_levels_hold_until_the_next_row() -> None:
    x, level = step_line(np.array([100, 200]), np.array([5.0, 9.0]), Timescale(0, 1000, 1000.0))
    assert list(zip(x.tolist(), level.tolist(), strict=True)) == [(100, 5), (200, 5), (200, 9)]


def test_the_level_before_the_view_is_carried_in() -> None:
    x, level = step_line(np.array([100, 700]), np.array([5.0, 9.0]), Timescale(400, 600, 100.0))
    assert level[0] == 5.0
    assert x[0] <= 0


def test_a_dense_line_keeps_its_extremes() -> None:
    times = np.arange(100_000) * 10
    levels = np.sin(np.arange(100_000) / 50.0)
    levels[54_321] = 7.0
    x, level = step_line(times, levels, Timescale(0, 1_000_000, 500.0))
    assert level.max() == 7.0
    assert level.min() == levels.min()
    assert len(x) <= 2 * 502


def test_a_column_holds_the_levels_from_that_before_it_to_its_last() -> None:
    times, levels = np.array([150, 420, 480, 900]), np.array([5.0, 9.0, 2.0, 7.0])
    lowest, highest = column_levels(times, levels, Timescale(0, 1000, 10.0), 10, 1.0)
    nan = float("nan")
    np.testing.assert_array_equal(lowest, [nan, 5, 5, 5, 2, 2, 2, 2, 2, 2])
    np.testing.assert_array_equal(highest, [nan, 5, 5, 5, 9, 2, 2, 2, 2, 7])


@given(st.data())
def test_columns_of_levels_are_those_found_row_by_row(data: st.DataObject) -> None:
    times = np.cumsum(data.draw(st.lists(st.sampled_from([0, 1, 30, 5_000]), max_size=40)) or [])
    times = times.astype(np.int64) + data.draw(st.integers(-9_000, 1 << 50))
    values = np.array([data.draw(st.integers(0, 9)) for _ in times], dtype=np.float64)
    scale = view_of(data, int(times[0]), int(times[-1])) if len(times) else Timescale(0, 99, 12.0)
    per_px = data.draw(st.sampled_from([1.0, 1.5, 2.0]))
    columns = math.ceil(scale.width_px * per_px)
    lowest, highest = column_levels(times, values, scale, columns, per_px)
    places = np.floor((times - scale.start_ns) / scale.ns_per_px * per_px)
    for column in range(columns):
        before, inside = values[places < column], values[places == column]
        held = [*before[-1:], *inside]
        wanted = (min(held), max(held)) if held else (np.nan, np.nan)
        np.testing.assert_array_equal((lowest[column], highest[column]), wanted)


def test_thinning_leaves_every_corner() -> None:
    x = np.arange(1000.0)
    y = np.where(x < 400, 20.0, 60.0)
    kept, heights = thinned(x, y)
    assert kept.tolist() == [0, 399, 400, 999]
    assert heights.tolist() == [20, 20, 60, 60]


def test_the_nearest_row() -> None:
    times = np.array([10, 20, 40])
    assert [nearest_row(times, t) for t in (0, 14, 16, 29, 31, 99)] == [0, 0, 1, 1, 2, 2]
    assert nearest_row(np.array([]), 5) is None


def test_ceilings_are_round_and_not_below() -> None:
    values = [nice_ceiling(value) for value in (0, 0.3, 1.0, 1.1, 7.2, 99, 101)]
    assert values == pytest.approx([1, 0.3, 1, 1.5, 8, 100, 150])


@st.composite
def rows_in_order(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of rows that do not overlap, some of no length, some touching, some longer than a view."""
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    count = draw(st.integers(6_000, 9_000))
    gaps = random.choice([0, 0, 1, 7, 1_000, 90_000], count)
    lengths = random.choice([0, 1, 3, 800, 800, 5_000, 2_000_000], count, p=[0.1, 0.2, 0.2, 0.2, 0.2, 0.09, 0.01])
    ends = np.cumsum(gaps + lengths) + draw(st.integers(-1_000, 1 << 50))
    return ends - lengths, ends


@st.composite
def rows_that_overlap(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """The same, but each may begin before others have ended, though none ends before one that began earlier."""
    starts, ends = draw(rows_in_order())
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    early = random.choice([0, 1, 900, 70_000], len(starts), p=[0.7, 0.1, 0.1, 0.1])
    return np.maximum.accumulate(starts - early), ends


def view_of(data: st.DataObject, first: int, last: int) -> Timescale:
    length = max(last - first, 1)
    start = first + int(data.draw(st.floats(-0.2, 0.4)) * length)
    width = data.draw(st.sampled_from([1.0, 333.0, 640.0, 1456.0, 801.5]))
    return Timescale(start, start + max(1, int(data.draw(st.floats(0.5, 1.4)) * length)), width)


@given(st.data())
def test_stems_and_lines_out_of_peaks_are_those_of_all_rows(data: st.DataObject) -> None:
    times, _ = data.draw(rows_in_order())
    random = np.random.default_rng(data.draw(st.integers(0, 999)))
    values = random.integers(0, data.draw(st.sampled_from([2, 50, 1 << 40])), len(times)).astype(np.float64)
    scale = view_of(data, int(times[0]), int(times[-1]))
    for per_px in (1.0, 0.5):
        direct = tallest_stems(times, values, scale, per_px=per_px)
        quick = tallest_stems(times, values, scale, per_px=per_px, highest=Peaks().update(values))
        assert all(np.array_equal(one, other) for one, other in zip(direct, quick, strict=True))
    xs, levels = step_line(times, values, scale)
    assert (xs.tolist(), levels.tolist()) == two_per_pixel(times, values, scale)


def two_per_pixel(times: np.ndarray, values: np.ndarray, scale: Timescale) -> tuple[list[float], list[float]]:
    """The lowest and the highest level of each pixel, found row by row."""
    first = max(0, int(np.searchsorted(times, scale.start_ns, side="left")) - 1)
    shown = slice(first, int(np.searchsorted(times, scale.end_ns, side="right")) + 1)
    x = np.clip((times[shown] - scale.start_ns) / scale.ns_per_px, -scale.width_px, 2 * scale.width_px)
    if len(x) <= 2 * scale.width_px:
        known = step_line(times, values, scale)
        return known[0].tolist(), known[1].tolist()
    by_pixel: dict[float, list[float]] = {}
    for place, value in zip(np.floor(x).tolist(), values[shown].tolist(), strict=True):
        by_pixel.setdefault(place, []).append(value)
    pairs = [(min(found), max(found))[:: 1 if found[-1] >= found[0] else -1] for found in by_pixel.values()]
    return [place for place in by_pixel for _ in range(2)], [level for pair in pairs for level in pair]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=600), st.lists(st.integers(0, 200), max_size=6), st.data())
def test_peaks_are_right_however_the_column_grew(values: list[int], steps: list[int], data: st.DataObject) -> None:
    column, peaks, known = np.array(values, dtype=np.float64), Peaks(), 0
    for more in [*steps, len(values)]:
        known = min(known + more, len(column))
        peaks.update(column[:known].copy())
    firsts = np.array(data.draw(st.lists(st.integers(0, len(column) - 1), min_size=1, max_size=20)))
    counts = np.array([data.draw(st.integers(1, len(column) - first)) for first in firsts.tolist()])
    expected = [first + int(np.argmax(column[first : first + n])) for first, n in zip(firsts, counts, strict=True)]
    assert peaks.rows(firsts, counts).tolist() == expected
