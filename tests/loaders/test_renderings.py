"""Renderings and the numbers behind them equal plain loops over events; no event is lost or counted twice."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.recording import EventsInMemory
from evprof.loaders.events.windows import windows_by_count, windows_by_time
from evprof.loaders.pictures.palette import EVENTGPT_PALETTE, PALETTES, Palette
from evprof.loaders.pictures.renderings import RENDERINGS, Painter

Rows = list[tuple[int, int, int, int]]
WIDTH, HEIGHT = 5, 3

rows_of_events = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 1000), st.integers(0, 1)), min_size=1, max_size=80
)


def events_of(rows: Rows) -> EventArray:
    return EventArray.from_columns(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def draw(events: EventArray, rendering: str, palette: Palette = EVENTGPT_PALETTE, **where: int) -> np.ndarray:
    """The events of start_us <= t < stop_us, drawn by a painter of its own."""
    start_us, stop_us = where["start_us"], where["stop_us"]
    painter = Painter(where["width"], where["height"], palette=palette, rendering=rendering)
    return painter.paint(events.slice_time(start_us, stop_us), start_us, stop_us)


def test_senseless_numbers_are_refused() -> None:
    events = events_of([(0, 0, 0, 1)])
    for call in (
        lambda: list(windows_by_time(events, 0)),
        lambda: list(windows_by_count(events, 0)),
        lambda: Painter(4, 4, rendering="nothing"),
        lambda: Painter(0, 4),
    ):
        with pytest.raises(UserError):
            call()


# --- windows ----------------------------------------------------------------------------------------------------------


@given(rows_of_events, st.integers(1, 300), st.booleans())
def test_every_event_is_in_exactly_one_time_window(rows: Rows, window_us: int, is_sorted: bool) -> None:
    if is_sorted:
        rows = sorted(rows, key=lambda row: row[2])
    origin = min(t for _, _, t, _ in rows)
    windows = list(windows_by_time(events_of(rows), window_us))
    assert windows[0].start_us == origin
    assert all(a.stop_us == b.start_us for a, b in pairwise(windows))
    assert len(windows) == (max(t for _, _, t, _ in rows) - origin) // window_us + 1
    for window in windows:
        expected = [row for row in rows if window.start_us <= row[2] < window.stop_us]
        found = window.events
        columns = (found.x, found.y, found.t_us, found.p)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


@given(rows_of_events, st.integers(1, 90))
def test_windows_of_a_number_of_events(rows: Rows, count: int) -> None:
    parts = list(windows_by_count(events_of(rows), count))
    assert [len(part.events) for part in parts[:-1]] == [count] * (len(parts) - 1)
    assert np.concatenate([part.events.t_us for part in parts]).tolist() == [t for _, _, t, _ in rows]
    assert all((part.events.t_us >= part.start_us).all() and (part.events.t_us < part.stop_us).all() for part in parts)


class InChunks(EventsInMemory):
    """A recording that hands out small chunks, as formats that stream do."""

    def chunks(self):
        whole = self.read()
        for start in range(0, len(whole), 7):
            yield whole.slice_count(start, start + 7)


@given(rows_of_events, st.integers(1, 400), st.integers(1, 20))
def test_windows_of_an_open_recording_are_those_of_its_events(rows: Rows, window_us: int, count: int) -> None:
    events = events_of(sorted(rows, key=lambda row: row[2]))
    recording = InChunks(__file__, "npy", events)
    for streamed, held in (
        (windows_by_time(recording, window_us), windows_by_time(events, window_us)),
        (windows_by_count(recording, count), windows_by_count(events, count)),
    ):
        found = [(part.start_us, part.stop_us, part.events.t_us.tolist()) for part in streamed]
        assert found == [(part.start_us, part.stop_us, part.events.t_us.tolist()) for part in held]


def test_a_little_lateness_is_put_right_and_much_is_told() -> None:
    late = [(0, 0, t, 1) for t in [0, 10, 20, 30, 40, 50, 60, 55, 70, 80, 90, 100, 110, 120, 130]]
    recording = InChunks(__file__, "npy", events_of(late))
    windows = list(windows_by_time(recording, 20))
    assert [part.events.t_us.tolist() for part in windows][2:4] == [[40, 50, 55], [60, 70]]
    much = [(0, 0, t, 1) for t in [0, 100, 200, 300, 400, 500, 600, 50]]
    with pytest.raises(UserError, match="backwards"):
        list(windows_by_time(InChunks(__file__, "npy", events_of(much)), 20))


def test_a_jump_of_an_age_makes_no_endless_windows() -> None:
    events = events_of([(0, 0, 0, 1), (0, 0, 2**60, 1)])
    for source in (events, InChunks(__file__, "npy", events)):
        with pytest.raises(UserError, match="use longer ones"):
            list(windows_by_time(source, 1000))


# --- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rendering", RENDERINGS)
@pytest.mark.parametrize("size", [(5, 3), (4, 2)])
def test_every_rendering_shows_events_where_they_are(rendering: str, size: tuple[int, int]) -> None:
    width, height = size
    palette = PALETTES["eventgpt" if rendering == "eventgpt" else "dark"]
    events = events_of([(1, 1, 10, 1), (3, 0, 90, 0), (4, 2, 50, 1)])
    picture = draw(events, rendering, palette, width=width, height=height, start_us=0, stop_us=100)
    assert picture.shape == (height, width, 3)
    assert picture.dtype == np.uint8
    hit = (picture != np.array(palette.none)).any(axis=2)
    assert sorted(zip(*(axis.tolist() for axis in np.nonzero(hit)), strict=True)) == sorted(
        {(1, 1), (0, 3), (2, 4)} & {(y, x) for y in range(height) for x in range(width)}
    )
    # Only the window asked for is drawn, and nothing is left of an earlier picture.
    painter = Painter(width, height, palette=palette, rendering=rendering)
    assert (painter.paint(events, 0, 100) == picture).all()
    late = painter.paint(events.slice_time(80, 100), 80, 100)
    assert np.argwhere((late != np.array(palette.none)).any(axis=2)).tolist() == [[0, 3]]
    assert (painter.paint(events, 0, 100) == picture).all()
    assert (painter.paint(events.slice_time(200, 300), 200, 300) == np.array(palette.none)).all()


def color(picture: np.ndarray, x: int, y: int) -> tuple[int, ...]:
    return tuple(picture[y, x].tolist())


def test_colours_mean_what_the_renderings_say() -> None:
    palette = PALETTES["light"]
    events = events_of(
        [(0, 0, 1, 0), (1, 0, 1, 1), (2, 0, 1, 1), (2, 0, 2, 1), (2, 0, 3, 1), (3, 0, 99, 1), (4, 0, 99, 0)]
    )
    shown = {name: draw(events, name, palette, width=6, height=1, start_us=0, stop_us=100) for name in RENDERINGS}
    assert [color(shown["polarity"], x, 0) for x in (0, 1, 5)] == [palette.darker, palette.brighter, palette.none]
    assert color(shown["eventgpt"], 0, 0) == (0, 0, 255)
    assert color(shown["count"], 2, 0) == palette.ramp[-1]
    assert color(shown["count"], 1, 0) == tuple(palette.amounts[127].tolist())
    # Old events have faded towards the background, fresh ones not; many add up.
    distance = np.abs(shown["decay"].astype(int) - np.array(palette.none)).sum(axis=2)[0]
    assert distance[5] == 0 < distance[1] < distance[2] < distance[3]
    distance = np.abs(shown["time-surface"].astype(int) - np.array(palette.none)).sum(axis=2)[0]
    assert distance[5] == 0 < distance[1] <= distance[2] < distance[3]
    nearly = np.abs(shown["time-surface"][0, [4, 3]].astype(int) - [palette.darker, palette.brighter])
    assert nearly.max() <= 8


@given(rows_of_events)
def test_counts_and_fading_sums_are_drawn_as_their_formulas_say(rows: Rows) -> None:
    counts, sums = np.zeros((HEIGHT, WIDTH)), np.zeros((HEIGHT, WIDTH))
    for x, y, t, p in rows:
        counts[y, x] += 1
        sums[y, x] += (1 if p else -1) * math.exp(-3 * (1001 - t) / 1001)
    palette = PALETTES["light"]
    levels = {
        "count": (palette.amounts, 255 * np.log1p(counts) / np.log1p(counts.max())),
        "decay": (palette.signed, 128.5 + 127 * sums / (0.5 + np.abs(sums))),
    }
    for rendering, (colors, exact) in levels.items():
        picture = draw(events_of(rows), rendering, palette, width=WIDTH, height=HEIGHT, start_us=0, stop_us=1001)
        for (y, x), level in np.ndenumerate(exact):
            near = colors[[math.floor(level - 1e-3), math.floor(level + 1e-3)]].tolist()
            assert picture[y, x].tolist() in near, (rendering, x, y)


@given(rows_of_events)
def test_a_time_surface_shows_the_latest_event_even_of_unsorted_ones(rows: Rows) -> None:
    last: dict[tuple[int, int], tuple[int, int]] = {}
    for x, y, t, p in rows:
        if (y, x) not in last or t >= last[y, x][0]:
            last[y, x] = (t, p)
    palette = PALETTES["eventgpt"]
    picture = draw(events_of(rows), "time-surface", width=WIDTH, height=HEIGHT, start_us=0, stop_us=1001)
    for (y, x), (t, p) in last.items():
        step = 127 * math.exp(-3 * (1001 - t) / 1001)
        exact = 128.5 + (step if p else -step)
        near = palette.signed[[math.floor(exact - 1e-3), math.floor(exact + 1e-3)]].tolist()
        assert picture[y, x].tolist() in near
