"""Draws events exactly as EventGPT does, for the models.

It knows events and pixels, no files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.pictures.palette import EVENTGPT_PALETTE

Picture: TypeAlias = "npt.NDArray[np.uint8]"
"""uint8 [height, width, 3], RGB."""

EVENTGPT_FRAMES = 5
"""EventGPT's number of event frames."""

_MOST_ORDINALS = (1 << 31) - 1


MOST_PIXELS = 1 << 24
"""4096 x 4096: eight times the largest event camera. One event at a far corner must not fill the memory."""

_PIXELS_PER_EVENT = 4
"""More pixels need so many events: those simulated from films may be larger than any camera's."""


def check_canvas(columns: int, rows: int, events: int = 0) -> None:
    """Raises UserError for a picture that is empty, or larger than any sensor and its `events` account for."""
    if columns < 1 or rows < 1:
        raise UserError(f"A picture of {columns} x {rows} pixels cannot be drawn; the events or the canvas are empty.")
    if columns * rows > max(MOST_PIXELS, _PIXELS_PER_EVENT * events):
        raise UserError(
            f"The events would need a picture of {columns} x {rows} pixels, larger than any event camera's; the "
            "recording is damaged, so copy or export it again."
        )


def canvas_size(events: EventArray, width: int | None, height: int | None) -> tuple[int, int]:
    """Width and height asked for, or of the smallest canvas that holds every event. Raises UserError, see above."""
    columns = events.width if width is None else width
    rows = events.height if height is None else height
    check_canvas(columns, rows, len(events))
    return columns, rows


def inside(events: EventArray, width: int, height: int) -> EventArray:
    """The events on the canvas; the same object when that is all of them."""
    if events.width <= width and events.height <= height:
        return events
    return events.taken((events.x < width) & (events.y < height))


def flat_index(events: EventArray, width: int) -> npt.NDArray[np.intp]:
    """y * width + x of each event."""
    flat = events.y.astype(np.intp)
    flat *= width
    flat += events.x
    return flat


@dataclass(frozen=True)
class SliceTime:
    """Sensor time of one event frame: its smallest and largest timestamp in µs."""

    start_us: int
    end_us: int

    @property
    def label(self) -> str:
        """For people: `0.0–8.3 ms`."""
        return f"{self.start_us / 1000:.1f}–{self.end_us / 1000:.1f} ms"


def slice_times(events: EventArray, count: int) -> list[SliceTime]:
    """Sensor time covered by each of the `count` event frames."""
    slices = events.split_equal_count(count)
    return [SliceTime(int(part.t_us.min()), int(part.t_us.max())) for part in slices]


def render_event_frames(
    events: EventArray, count: int = EVENTGPT_FRAMES, *, width: int | None = None, height: int | None = None
) -> list[Picture]:
    """The `count` pictures EventGPT sees, each uint8 [H, W, 3].

    The canvas of each slice is max(y)+1 by max(x)+1 of that slice unless `width` and `height` fix it. Raises UserError
    when there are fewer events than frames.
    """
    return [render_events(part, width=width, height=height) for part in events.split_equal_count(count)]


def render_events(events: EventArray, *, width: int | None = None, height: int | None = None) -> Picture:
    """One picture of all `events`: white canvas, p == 0 blue, otherwise red; the last event in file order wins.

    Events outside a fixed canvas are left out. Order is guaranteed, not just observed: numpy promises nothing for
    repeated indices in an assignment, so the event left on a pixel is checked.
    """
    columns, rows = canvas_size(events, width, height)
    shown = inside(events, columns, rows)
    flat = flat_index(shown, columns)
    if len(shown) > _MOST_ORDINALS:
        raise UserError(f"{len(shown):,} events are more than one picture can be drawn of; ask for more frames.")
    return _drawn(flat, shown.p, rows * columns).reshape(rows, columns, 3)


def _drawn(flat: npt.NDArray[np.intp], p: npt.NDArray[np.uint8], pixels: int) -> npt.NDArray[np.uint8]:
    """[pixels, 3], only the pixels with events touched after the canvas was made white."""
    latest = np.empty(pixels, dtype=np.int32)
    order = np.arange(len(flat), dtype=np.int32)
    latest[flat] = order
    left = latest[flat]
    while (late := left < order).any():  # never seen; each turn moves at least one pixel to a later event
        latest[flat[late]] = order[late]
        left = latest[flat]
    # Events of one pixel all paint what the last one is, so that their order no longer matters. White, blue and red
    # differ from each other in whole parts: part by part is a third of the time of whole pixels.
    last = p[left]
    picture = np.full((pixels, 3), 255, dtype=np.uint8)
    picture[:, 0][flat] = np.negative(last)
    picture[:, 1][flat] = 0
    picture[:, 2][flat] = last - np.uint8(1)
    return picture


WHOLE_US = 100_000
"""Up to this length of a recording its bins are shown whole."""

WINDOW_MS = 25
"""What is shown of each bin of a longer one."""


@dataclass(frozen=True, eq=False)
class EventBin:
    """The events of one bin that are shown, which may be none, and the time they stand for."""

    events: EventArray
    time: SliceTime


def event_bins(events: EventArray, count: int) -> list[EventBin]:
    """`count` bins in order of time. As in the published program, what happened in a recording's very last
    microsecond is in no bin of a short one, and what happened at a border of a long one's may be in two.

    Raises UserError for events that all happened at once.
    """
    first_us, last_us = events.t_min_us, events.t_max_us
    if first_us is None or last_us is None or first_us == last_us:
        raise UserError("All events have one time, so they cannot be cut into bins; choose a longer recording.")
    ordered = events if events.is_sorted else _by_time(events)
    borders = np.linspace(first_us, last_us, count + 1).tolist()
    cut = _whole if last_us - first_us <= WHOLE_US else _densest
    found = []
    for edges in pairwise(borders):
        shown = cut(ordered, *edges)
        found.append(EventBin(shown, _time_of(shown, *edges)))
    return found


def ready_bins(events: EventArray) -> list[EventBin]:
    """The parts that a recording came in, each whole; one without events stands for the moment the one before ended."""
    found: list[EventBin] = []
    start, edge_us = 0, events.t_min_us or 0
    for count in events.parts:
        shown = events.slice_count(start, start + count)
        found.append(EventBin(shown, _time_of(shown, edge_us, edge_us)))
        start, edge_us = start + count, found[-1].time.end_us
    return found


def draw_bin(events: EventArray, *, width: int, height: int) -> Picture:
    """uint8 [height, width, 3]: white, blue where something became darker, red where anything became brighter.

    Events outside the canvas are left out.
    """
    shown = inside(events, width, height)
    flat = flat_index(shown, width)
    colors = EVENTGPT_PALETTE.polarities
    picture = np.repeat(colors[:1], height * width, axis=0)
    for polarity in (0, 1):
        picture[flat[shown.p == polarity]] = colors[1 + polarity]
    return picture.reshape(height, width, 3)


def _by_time(events: EventArray) -> EventArray:
    order = np.argsort(events.t_us, kind="stable")
    return EventArray(events.x[order], events.y[order], events.t_us[order], events.p[order])


def _whole(events: EventArray, start_us: float, stop_us: float) -> EventArray:
    """All from `start_us` up to `stop_us`, without it."""
    first, stop = (int(events.t_us.searchsorted(math.ceil(edge))) for edge in (start_us, stop_us))
    return events.slice_count(first, stop)


def _densest(events: EventArray, start_us: float, stop_us: float) -> EventArray:
    """Of those from `start_us` to `stop_us` the window with the most, the first of several."""
    first = int(events.t_us.searchsorted(math.ceil(start_us)))
    stop = int(events.t_us.searchsorted(math.floor(stop_us), side="right"))
    between = events.slice_count(first, stop)
    if not len(between):
        return between
    begin, end = densest_window((between.t_us - between.t_us[0]) // 1000, WINDOW_MS)
    return between.slice_count(begin, end)


def densest_window(times: npt.NDArray[np.int64], length: int) -> tuple[int, int]:
    """Sorted whole times from 0 on -> first index and stop of those in the window of `length` with the most of them,
    the earliest of several. Windows begin at whole times from 0 on.

    Going to later windows, their number grows only where an event comes in at the end; so these are looked at, and
    the memory taken follows from the number of events, not from how long they last.
    """
    starts = np.unique(np.maximum(times - (length - 1), 0))
    first, stop = times.searchsorted(starts), times.searchsorted(starts + length)
    best = int((stop - first).argmax())
    return int(first[best]), int(stop[best])


def _time_of(events: EventArray, start_us: float, stop_us: float) -> SliceTime:
    if not len(events):
        return SliceTime(int(start_us), int(stop_us))
    return SliceTime(int(events.t_us[0]), int(events.t_us[-1]))
