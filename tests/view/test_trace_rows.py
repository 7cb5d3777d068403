"""Slices of a trace as nested rows: every slice once, none over another, deeper ones below those around them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.rows.trace_columns import (
    DeviceColumns,
    MemoryColumns,
    SliceColumns,
    TraceColumns,
    TraceHead,
    TraceTrack,
)
from evprof.view.trace_rows import MOST_ROWS, call_depths, trace_lanes


def trace_of(slices: list[tuple[int, int, int]], on_device: list[int] | None = None) -> TraceColumns:
    """A trace of (track, start, length)."""
    count = len(slices)
    ints = np.zeros(count, dtype=np.int64)
    codes = np.zeros(count, dtype=np.int32)
    columns = SliceColumns(
        np.array([start for _, start, _ in slices], dtype=np.int64),
        np.array([length for _, _, length in slices], dtype=np.int64),
        codes,
        codes,
        np.array([track for track, _, _ in slices], dtype=np.int32),
        codes - 1,
        ints - 1,
        ints - 1,
    )
    rows = np.array(on_device or [], dtype=np.int64)
    few, none = np.full(len(rows), -1, dtype=np.int64), np.full(len(rows), np.nan)
    device = DeviceColumns(rows, few, few.astype(np.int32), few.astype(np.int32), few, few, none, none, few)
    empty, no_codes = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    return TraceColumns(
        TraceHead(),
        ["a slice"],
        [TraceTrack("1", str(number)) for number in range(4)],
        columns,
        device,
        MemoryColumns(empty, no_codes, empty, empty, empty, empty, empty, empty),
        count,
    )


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Properly nested slices with their depth: (start, length, depth)."""
    found: list[tuple[int, int, int]] = []

    def fill(start: int, end: int, depth: int) -> None:
        at = start
        while at < end and draw(st.booleans()) and len(found) < 60:
            first = draw(st.integers(at, end - 1))
            last = draw(st.integers(first + 1, end))
            found.append((first, last - first, depth))
            if depth < 5:
                fill(first, last, depth + 1)
            at = last

    fill(0, draw(st.integers(1, 400)), 0)
    return found


@given(nested())
def test_the_depth_of_nested_calls_is_how_many_lie_around_them(calls: list[tuple[int, int, int]]) -> None:
    # Of two that are the same stretch, either may be called the outer one.
    order = sorted(calls, key=lambda call: (call[0], -call[1], call[2]))
    starts = np.array([start for start, _, _ in order], dtype=np.int64)
    ends = starts + np.array([length for _, length, _ in order], dtype=np.int64)
    assert call_depths(starts, ends).tolist() == [depth for _, _, depth in order]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 200), st.integers(0, 50)), max_size=80))
def test_every_slice_stands_in_one_row_and_none_over_another(slices: list[tuple[int, int, int]]) -> None:
    trace = trace_of(slices)
    lanes = trace_lanes(trace, np.ones(len(slices), dtype=bool))
    shown = [place for lane in lanes for row in lane.rows for place in row.slices.tolist()]
    assert sorted(shown) == list(range(len(slices)))
    for lane in lanes:
        assert len(lane.rows) <= MOST_ROWS
        for row in lane.rows:
            assert (row.starts[1:] >= row.ends[:-1]).all()
            assert {int(trace.slices.tracks[place]) for place in row.slices.tolist()} == {lane.track}


def test_streams_of_devices_stand_below_the_threads() -> None:
    trace = trace_of([(2, 0, 5), (1, 3, 5), (0, 9, 5)], on_device=[0])
    assert [(lane.track, lane.is_device) for lane in trace_lanes(trace, np.ones(3, dtype=bool))] == [
        (1, False),
        (0, False),
        (2, True),
    ]


def test_a_thin_slice_is_met_a_hair_beside_it() -> None:
    (lane,) = trace_lanes(trace_of([(0, 100, 1), (0, 500, 100)]), np.ones(2, dtype=bool))
    (row,) = lane.rows
    assert row.at(100, 0) == 0
    assert row.at(104, 5.0) == 0
    assert row.at(300, 5.0) is None
    assert row.at(550, 0) == 1
    assert lane.row_of(1) == 0
    assert lane.row_of(7) is None
