"""Zoom and pan arithmetic, ticks, and the view that follows a live run."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.view.timescale import MIN_SPAN_NS, Timescale, around, followed, tick_unit, time_text

MS = 1_000_000


@given(
    start=st.integers(-(10**9), 10**11),
    span=st.integers(10_000, 10**11),
    at=st.floats(0, 1200),
    factor=st.floats(0.2, 5),
)
def test_zoom_keeps_the_moment_under_the_pointer(start: int, span: int, at: float, factor: float) -> None:
    scale = Timescale(start, start + span, 1200.0)
    zoomed = scale.zoomed(factor, at)
    assert zoomed.span_ns >= MIN_SPAN_NS
    assert abs(zoomed.x(scale.t(at)) - at) <= 2.0 / zoomed.ns_per_px + 0.01
    if span / factor >= MIN_SPAN_NS:
        assert zoomed.span_ns == pytest.approx(span / factor, abs=1)


def test_zoom_stops_at_both_limits() -> None:
    scale = Timescale(0, 1000 * MS, 1000.0)
    assert scale.zoomed(1e12, 500.0).span_ns == MIN_SPAN_NS
    assert scale.zoomed(0.001, 500.0, longest_ns=2000 * MS).span_ns == 2000 * MS


def test_a_view_never_loses_its_content() -> None:
    far = Timescale(90_000 * MS, 91_000 * MS, 500.0).within((0, 1000 * MS))
    assert far.start_ns < 1000 * MS
    assert far.span_ns == 1000 * MS
    early = Timescale(-90_000 * MS, -89_000 * MS, 500.0).within((0, 1000 * MS))
    assert early.end_ns > 0


@given(start=st.integers(-(10**8), 10**10), span=st.integers(1_000, 10**11), width=st.integers(200, 4000))
def test_ticks_lie_in_view_and_are_far_enough_apart_to_be_read(start: int, span: int, width: int) -> None:
    scale = Timescale(start, start + span, float(width))
    ticks = scale.ticks()
    places = [scale.x(t_ns) for t_ns, _ in ticks]
    assert all(-0.01 <= x <= width + 0.01 for x in places)
    assert all(b - a >= 87.9 for a, b in pairwise(places))
    assert len({text for _, text in ticks}) == len(ticks)


def test_ticks_are_written_in_ms_with_the_digits_they_need() -> None:
    ticks = Timescale(0, 1 * MS, 1000.0).ticks()
    assert [text for _, text in ticks][:3] == ["0.0", "0.1", "0.2"]
    assert tick_unit(100_000) == "ms"
    assert tick_unit(1_000) == "µs"
    assert tick_unit(10**9) == "s"


def test_a_followed_view_stays_while_the_content_fits_and_grows_seldom() -> None:
    scale = None
    widths = set()
    for end in range(1, 4000, 7):
        scale = followed(scale, (0, end * MS), 1000.0)
        assert scale.x(end * MS) <= 1000
        widths.add(scale.span_ns)
    assert 5 < len(widths) < 40


def test_times_carry_the_digits_the_view_resolves() -> None:
    assert time_text(66_215_400) == "66.215 ms"
    assert time_text(66_215_400, 1_000_000) == "66 ms"
    assert time_text(12_500 * MS) == "12.500 s"


def test_a_view_moves_only_where_it_must() -> None:
    assert around((10, 20), (0, 100)) is None
    assert around((5_000, 6_000), (0, 3_000)) == (4_000, 7_000)
    # A round longer than the view makes it longer.
    assert around((0, 4_000), (1_000, 2_000)) == (-2_000, 6_000)
