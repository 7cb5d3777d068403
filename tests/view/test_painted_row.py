"""Colours of columns: what they hold is what the intervals themselves would cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.view.painted_row import CHANNELS, GAP_PX, LEAST, WIDE_PX, PaintedRow
from evprof.view.timescale import Timescale

COLUMNS = 60
RED, BLUE = (0, 0, 200, 255), (220, 30, 10, 255)
KINDS = np.array([RED, BLUE], dtype=np.uint8)


def painted(starts: list[int], ends: list[int], kinds: list[int]) -> PaintedRow:
    """The intervals in red (0) and blue (1)."""
    return PaintedRow().update(np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64), KINDS[kinds])


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(100, 1_500), st.integers(0, 1)), min_size=1, max_size=80),
    st.integers(-2_000, 20_000),
    st.sampled_from([1.0, 1.25, 2.0]),
    st.integers(0, 50),
)
def test_every_column_has_the_colours_of_what_lies_in_it(
    rows: list[tuple[int, int, int]], start: int, per_px: float, overlap: int
) -> None:
    """Intervals of a pixel and more, each cut where the next one begins, wide ones by a gap."""
    gaps, lengths, kinds = (np.array(part) for part in zip(*rows, strict=True))
    ends = np.cumsum(gaps + lengths)
    starts = ends - lengths
    scale = Timescale(start, start + int(COLUMNS * 100 / per_px), COLUMNS / per_px)
    found = painted(starts.tolist(), (ends + overlap).tolist(), kinds.tolist()).columns(scale, COLUMNS, per_px)
    wanted, wide = np.zeros((COLUMNS, CHANNELS)), []
    for at, (first, last, kind) in enumerate(zip(starts, ends + overlap, kinds, strict=True)):
        edges = np.array([first, min(last, starts[at + 1]) if at + 1 < len(starts) else last], dtype=float)
        left, right = (edges - start) / scale.ns_per_px * per_px
        if (right - left) / per_px > WIDE_PX:
            right -= GAP_PX * per_px
            wide += [at] if right > 0 and left < COLUMNS else []
        over = np.minimum(np.arange(1, COLUMNS + 1), right) - np.maximum(np.arange(COLUMNS), left)
        wanted += np.clip(over, 0, 1)[:, None] * KINDS[kind]
    assert np.abs(found.colors - wanted).max() <= 0.5
    assert set(wide) <= set(found.wide.rows.tolist())


@pytest.mark.parametrize("length", [0, 1, 40])
@pytest.mark.parametrize("start", [1_000, 1_030, 1_990])
def test_what_is_short_is_seen_in_its_own_colour(length: int, start: int) -> None:
    found = painted([start], [start + length], [1]).columns(Timescale(0, COLUMNS * 1_000, COLUMNS), COLUMNS, 1.0)
    assert found.colors[1] == pytest.approx(LEAST * np.array(BLUE), abs=0.01)
    assert found.colors[3:].max() < 0.01


def test_a_dense_stretch_shows_how_much_of_it_is_taken() -> None:
    starts = np.arange(100_000) * 10
    found = painted(starts.tolist(), (starts + 8).tolist(), (np.arange(100_000) % 2).tolist())
    columns = found.columns(Timescale(0, 1_000_000, COLUMNS), COLUMNS, 1.0)
    assert columns.colors == pytest.approx(np.tile(0.8 * KINDS.mean(axis=0), (COLUMNS, 1)), abs=0.1)
    assert not len(columns.wide.rows)


@pytest.mark.parametrize("zoom_ns", [1_000, 60_000])
def test_far_from_zero_and_as_close_as_can_be_edges_are_where_they_belong(zoom_ns: int) -> None:
    zero = 1 << 52
    found = painted([zero, zero + 400], [zero + 100, zero + 10_000], [0, 1])
    scale = Timescale(zero - zoom_ns // 2, zero + zoom_ns // 2, 1_000.0)
    columns = found.columns(scale, 1_000, 1.0)
    edge = round(100 / scale.ns_per_px) if zoom_ns < 5_000 else None
    assert not columns.colors[:500].any()
    if edge is not None:
        assert columns.colors[500 + edge - 3] == pytest.approx(RED, abs=1)
        assert not columns.colors[500 + edge + 1 : 900].any()
        assert columns.wide.left.tolist() == [500.0, 900.0]


@pytest.mark.parametrize("span_ns", [1_000, 500_000])
def test_a_long_interval_is_even_however_close_one_looks(span_ns: int) -> None:
    hour = 3_600_000_000_000
    found = painted([0, 2 * hour], [2 * hour - 7, 3 * hour], [0, 1])
    columns = found.columns(Timescale(hour + 3, hour + 3 + span_ns, 1_000.0), 1_000, 1.0)
    assert np.abs(columns.colors - RED).max() < 0.1
    columns = found.columns(Timescale(2 * hour - span_ns, 2 * hour + span_ns, 1_000.0), 1_000, 1.0)
    assert np.abs(columns.colors[:490] - RED).max() < 0.1
    assert np.abs(columns.colors[501:] - BLUE).max() < 0.1


def test_nothing_has_no_colour() -> None:
    columns = painted([], [], []).columns(Timescale(0, 10, 10.0), 10, 1.0)
    assert columns.colors.shape == (10, CHANNELS)
    assert not columns.colors.any()
