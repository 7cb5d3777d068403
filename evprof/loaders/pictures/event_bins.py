"""Cuts a recording into the bins EventGPT-Plus reads, and draws each as its program does.

How many bins there are follows from the recording's length, see the family's record. Up to 100 ms the bins are equally
long and whole; of longer recordings each bin is represented by the 25 ms in it that hold the most events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.pictures.palette import EVENTGPT_PALETTE
from evprof.loaders.pictures.render import Picture, SliceTime
from evprof.loaders.pictures.representations import flat_index, inside

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
