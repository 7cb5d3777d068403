"""Event frames equal a plain loop over events, pixel for pixel, whoever fires twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.pictures.render import render_event_frames, render_events, slice_times
from evprof.loaders.pictures.renderings import Painter
from traced_memory import memory_below

Rows = list[tuple[int, int, int, int]]


def loop(rows: Rows, width: int | None = None, height: int | None = None) -> np.ndarray:
    """The reference: one event after the other onto a white canvas."""
    columns = max(x for x, _, _, _ in rows) + 1 if width is None else width
    lines = max(y for _, y, _, _ in rows) + 1 if height is None else height
    picture = np.full((lines, columns, 3), 255, dtype=np.uint8)
    for x, y, _, p in rows:
        if x < columns and y < lines:
            picture[y, x] = (0, 0, 255) if p == 0 else (255, 0, 0)
    return picture


def events_of(rows: Rows) -> EventArray:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return EventArray.from_columns(*columns)


# Few pixels and many events: nearly every pixel is hit again and again, with both signs.
crowded = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 99), st.integers(0, 1)), min_size=5, max_size=120
)


@given(crowded, st.integers(1, 5))
def test_frames_equal_the_loop(rows: Rows, count: int) -> None:
    frames = render_event_frames(events_of(rows), count)
    size = len(rows) // count
    for index, frame in enumerate(frames):
        part = rows[index * size :] if index == count - 1 else rows[index * size : (index + 1) * size]
        expected = loop(part)
        assert frame.shape == expected.shape
        assert (frame == expected).all()


@given(crowded, st.integers(1, 6), st.integers(1, 6))
def test_a_fixed_canvas_leaves_out_what_lies_outside(rows: Rows, width: int, height: int) -> None:
    assert (render_events(events_of(rows), width=width, height=height) == loop(rows, width, height)).all()


def test_a_large_crowd_equals_the_loop() -> None:
    random = np.random.default_rng(5)
    rows = np.stack(
        [
            random.integers(0, 64, 60_000),
            random.integers(0, 48, 60_000),
            np.arange(60_000),
            random.integers(0, 2, 60_000),
        ]
    )
    listed = [tuple(row) for row in rows.T.tolist()]
    assert (render_events(EventArray.from_columns(*rows)) == loop(listed)).all()


def test_times_of_the_slices() -> None:
    times = slice_times(events_of([(0, 0, 5, 0), (0, 0, 900, 1), (0, 0, 1000, 1), (0, 0, 8340, 1)]), 2)
    assert [(part.start_us, part.end_us) for part in times] == [(5, 900), (1000, 8340)]
    assert times[1].label == "1.0–8.3 ms"


def test_too_few_events_and_empty_canvases_are_refused() -> None:
    with pytest.raises(UserError, match="too few for 5"):
        render_event_frames(events_of([(0, 0, 0, 1)]), 5)
    with pytest.raises(UserError, match="empty"):
        render_events(events_of([]))


def doubly_hit(count: int = 130_000, width: int = 640, height: int = 480) -> EventArray:
    """Moving edges and noise: a third of the events are on pixels that fired before, often with the other sign."""
    random = np.random.default_rng(11)
    edge = np.sort(random.integers(0, width, count))
    x = np.where(random.random(count) < 0.5, edge, random.integers(0, width, count))
    return EventArray.from_columns(
        x, random.integers(0, height, count), random.integers(0, 50_000, count), random.integers(0, 2, count)
    )


def corner(columns: int, rows: int) -> EventArray:
    """Five events, one of them at the far corner of a sensor of that size."""
    return events_of([(0, 0, number, 1) for number in range(4)] + [(columns - 1, rows - 1, 4, 0)])


@pytest.mark.parametrize("columns", [16_384, 5_000])
def test_one_event_at_a_far_corner_does_not_fill_the_memory(columns: int) -> None:
    events = corner(columns, columns)
    for draw in (
        lambda: render_event_frames(events, 1),
        lambda: Painter(events.width, events.height),
    ):
        with memory_below(1 << 20), pytest.raises(UserError, match=f"{columns} x {columns} pixels"):
            draw()
