"""What is left of many rows must look like all of them: no outlier lost, no bar twice, few shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.view.decimate import (
    GAP_PX,
    LEAST_SHARE,
    WIDE_PX,
    column_levels,
    merged_bars,
    nearest_row,
    nice_ceiling,
    span_coverage,
    tallest_stems,
    visible_rows,
)
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
    assert np.array_equal(values[stems.rows], stems.values)


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
    borders = scale.start_ns + np.ceil(np.arange(columns + 1) * (scale.ns_per_px / per_px))
    for column in range(columns):
        before, inside = (
            values[times < borders[column]],
            values[(times >= borders[column]) & (times < borders[column + 1])],
        )
        held = [*before[-1:], *inside]
        wanted = (min(held), max(held)) if held else (np.nan, np.nan)
        np.testing.assert_array_equal((lowest[column], highest[column]), wanted)


def test_the_nearest_row() -> None:
    times = np.array([10, 20, 40])
    assert [nearest_row(times, t) for t in (0, 14, 16, 29, 31, 99)] == [0, 0, 1, 1, 2, 2]
    assert nearest_row(np.array([]), 5) is None


def test_ceilings_are_round_and_not_below() -> None:
    values = [nice_ceiling(value) for value in (0, 0.3, 1.0, 1.1, 7.2, 99, 101)]
    assert values == pytest.approx([1, 0.3, 1, 1.5, 8, 100, 150])


def view_of(data: st.DataObject, first: int, last: int) -> Timescale:
    length = max(last - first, 1)
    start = first + int(data.draw(st.floats(-0.2, 0.4)) * length)
    width = data.draw(st.sampled_from([1.0, 333.0, 640.0, 1456.0, 801.5]))
    return Timescale(start, start + max(1, int(data.draw(st.floats(0.5, 1.4)) * length)), width)


COLUMNS = 60


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(100, 1_500), st.integers(0, 1)), min_size=1, max_size=80),
    st.integers(-2_000, 20_000),
    st.sampled_from([1.0, 1.25, 2.0]),
    st.integers(0, 50),
)
def test_every_column_has_the_share_of_each_kind(
    rows: list[tuple[int, int, int]], start: int, per_px: float, overlap: int
) -> None:
    """Intervals of a pixel and more, each cut where the next one begins, wide ones by a gap."""
    gaps, lengths, kinds = (np.array(part) for part in zip(*rows, strict=True))
    ends = np.cumsum(gaps + lengths)
    starts, ends = ends - lengths, ends + overlap
    scale = Timescale(start, start + int(COLUMNS * 100 / per_px), COLUMNS / per_px)
    covered = span_coverage((starts, ends, kinds), 2, scale, COLUMNS, per_px)
    wanted, wide = np.zeros((COLUMNS, 2)), []
    is_short = np.zeros(COLUMNS, dtype=bool)
    for row, kind in enumerate(kinds):
        edges = np.array([starts[row], min(ends[row], *starts[row + 1 : row + 2], 10**9)], dtype=float)
        left, right = (edges - start) / scale.ns_per_px * per_px
        if (right - left) / per_px > WIDE_PX:
            right -= GAP_PX * per_px
            wide += [row] if right > 0 and left < COLUMNS else []
        else:
            is_short[int(max(0, left)) : int(max(0, left)) + 1] = True
        over = np.minimum(np.arange(1, COLUMNS + 1), right) - np.maximum(np.arange(COLUMNS), left)
        wanted[:, kind] += np.clip(over, 0, 1)
    is_exact = ~is_short | (wanted.sum(axis=1) >= LEAST_SHARE)
    assert np.abs(covered.shares - wanted)[is_exact].max(initial=0) <= 1e-6
    assert set(wide) <= set(covered.rows.tolist())


@pytest.mark.parametrize("length", [0, 1, 40])
@pytest.mark.parametrize("start", [1_000, 1_030, 1_900])
def test_a_short_interval_is_visible_in_its_own_colour(length: int, start: int) -> None:
    rows = np.array([start]), np.array([start + length]), np.array([1])
    shares = span_coverage(rows, 2, Timescale(0, COLUMNS * 1_000, COLUMNS), COLUMNS, 1.0).shares
    assert shares[1].tolist() == pytest.approx([0, LEAST_SHARE])
    assert shares.sum() == pytest.approx(LEAST_SHARE)


def test_a_dense_stretch_shows_how_much_of_it_is_covered() -> None:
    starts = np.arange(100_000) * 10
    covered = span_coverage((starts, starts + 8, starts // 10 % 2), 2, Timescale(0, 1_000_000, COLUMNS), COLUMNS, 1.0)
    assert covered.shares == pytest.approx(np.full((COLUMNS, 2), 0.4), abs=0.001)
    assert not len(covered.rows)


@pytest.mark.parametrize("span_ns", [1_000, 500_000])
def test_a_long_interval_is_even_however_close_one_looks(span_ns: int) -> None:
    hour = 3_600_000_000_000
    rows = np.array([0, 2 * hour]), np.array([2 * hour - 7, 3 * hour]), np.array([0, 1])
    inside = span_coverage(rows, 2, Timescale(hour + 3, hour + 3 + span_ns, 1_000.0), 1_000, 1.0).shares
    assert np.abs(inside - [1, 0]).max() < 1e-6
    between = span_coverage(rows, 2, Timescale(2 * hour - span_ns, 2 * hour + span_ns, 1_000.0), 1_000, 1.0).shares
    assert np.abs(between[:480] - [1, 0]).max() < 1e-6
    assert np.abs(between[501:] - [0, 1]).max() < 1e-6


def test_intervals_that_overlap_cover_no_more_than_all() -> None:
    rows = np.array([0, 0, 500]), np.array([900, 1_000, 1_000]), np.array([0, 1, 0])
    assert span_coverage(rows, 2, Timescale(0, 1_000, 10.0), 10, 1.0).shares.sum(axis=1).max() <= 1 + 1e-6


def test_no_interval_covers_nothing() -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert not span_coverage((nothing, nothing, nothing), 2, Timescale(0, 10, 10.0), 10, 1.0).shares.any()
