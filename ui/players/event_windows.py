"""Events of any moment of a recording: a small recording is held, of a long one the part that was read last.

It draws nothing and uses no Qt.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.recording import NO_EVENTS, EventRecording, EventsInMemory
from evprof.view.event_rates import Rates, polarity_counts

HELD_EVENTS, HELD_BYTES = 20_000_000, 40_000_000
"""A recording of at most so many events is held where its format has no quick way to a window. The bytes count for
formats that do not say how many events they hold."""

SMALL_EVENTS, SMALL_BYTES = 500_000, 1_000_000
"""A recording of at most so many events is held in any format."""

BLOCK_EVENTS = 250_000
"""About so many events are read at once."""

_BLOCK_US = (1_000, 1_000_000)
"""The shortest and the longest block."""

BINS, SAMPLE_US, _STEP = 160, 20_000, 8
"""Bins of a rate curve, the time that is read of a longer bin, and bins read at once."""


class EventWindows:
    """Events by time since the earliest event, which lies at `zero_us` of the recording's clock.

    Used by one thread only. Every call may raise UserError. `width` and `height` are the sensor's, or what the events
    read so far need.
    """

    def __init__(self, recording: EventRecording, *, holds_all: bool = False) -> None:
        """Takes the recording over. Raises UserError without events."""
        info = recording.info
        self._recording = recording
        self._is_size_known = bool(info.width and info.height)
        self.width, self.height = info.width or 1, info.height or 1
        self._start_us = self._stop_us = 0
        self._events = NO_EVENTS
        if holds_all:
            events = recording.read().in_time_order()
            if not len(events):
                raise UserError("The recording holds no events.")
            self.width, self.height = events.width, events.height
            self.zero_us, last_us = int(events.t_us[0]), int(events.t_us[-1])
            self._events, self._stop_us = events, last_us - self.zero_us + 1
        else:
            self.zero_us, last_us = _bounds(recording)
        self.duration_us = max(0, last_us - self.zero_us)
        self._block_us = _block_us(recording.info.events, self.duration_us)

    def between(self, start_us: int, stop_us: int) -> EventArray:
        """Events with start_us <= t < stop_us, in order of time."""
        start_us, stop_us = max(0, start_us), min(stop_us, self.duration_us + 1)
        if start_us >= stop_us:
            return NO_EVENTS
        if not self._start_us <= start_us <= stop_us <= self._stop_us:
            self._read(start_us // self._block_us, -(-stop_us // self._block_us))
        edges = np.searchsorted(self._events.t_us, [start_us + self.zero_us, stop_us + self.zero_us])
        return self._events.slice_count(int(edges[0]), int(edges[1]))

    def close(self) -> None:
        self._events = NO_EVENTS
        self._recording.close()

    def _read(self, first: int, stop: int) -> None:
        """Reads blocks first…stop-1 in place of what was held."""
        self._start_us, self._stop_us = first * self._block_us, stop * self._block_us
        zero = self.zero_us
        events = self._recording.read_time(zero + self._start_us, zero + self._stop_us).in_time_order()
        self._events = events
        if not self._is_size_known:
            self.width, self.height = max(self.width, events.width), max(self.height, events.height)


class RateSurvey:
    """Event rates of a recording, computed a few bins at a time. Used by one thread only."""

    def __init__(self, windows: EventWindows) -> None:
        self._windows = windows
        self.rates = Rates.unknown(windows.duration_us + 1, min(BINS, windows.duration_us + 1))
        self._next = 0

    def step(self) -> bool:
        """Computes some more bins; False where none is left. Raises UserError."""
        rates = self.rates
        if self._next >= rates.bins:
            return False
        on, off, looked = rates.on.copy(), rates.off.copy(), rates.looked_us.copy()
        for place in range(self._next, min(self._next + _STEP, rates.bins)):
            start, stop = rates.edges(place)
            stop = min(stop, start + SAMPLE_US)
            events = self._windows.between(start, stop)
            on[place], off[place] = polarity_counts(events)
            looked[place] = stop - start
        self._next += _STEP
        self.rates = Rates(rates.stop_us, on, off, looked)
        return True


def open_windows(path: str, rectify_path: str | None = None) -> EventWindows:
    """The events of a file, with a rectification map where the model sees them. Raises UserError."""
    from evprof.loaders.events.opening import open_recording

    recording = open_recording(path)
    try:
        holds_all = _is_held(recording)
        if rectify_path is not None:
            from evprof.loaders.events.rectification import Rectified, RectifyMap

            recording = Rectified(recording, RectifyMap.load(rectify_path))
        return EventWindows(recording, holds_all=holds_all)
    except BaseException:
        recording.close()
        raise


def _is_held(recording: EventRecording) -> bool:
    """Whether reading all of a recording at once is the quicker way to its windows."""
    if isinstance(recording, EventsInMemory):
        return True
    has_windows = type(recording).read_time is not EventRecording.read_time
    count = recording.info.events
    if count is not None:
        return count <= (SMALL_EVENTS if has_windows else HELD_EVENTS)
    return Path(recording.path).stat().st_size <= (SMALL_BYTES if has_windows else HELD_BYTES)


def _bounds(recording: EventRecording) -> tuple[int, int]:
    """Times of the first and the last event. Raises UserError without events."""
    if recording.info.t_max_us is not None:
        return recording.origin_us(), recording.info.t_max_us
    first = next(recording.chunks(), NO_EVENTS)
    if not len(first):
        raise UserError(f"{recording.path}: the recording holds no events.")
    recording.read_time(int(first.t_us.min()), int(first.t_us.min()) + 1)  # formats with an index make it here
    info = recording.info
    if info.t_min_us is not None and info.t_max_us is not None:
        return info.t_min_us, info.t_max_us
    edges = [(int(chunk.t_us.min()), int(chunk.t_us.max())) for chunk in recording.chunks() if len(chunk)]
    return min(edge[0] for edge in edges), max(edge[1] for edge in edges)


def _block_us(events: int | None, duration_us: int) -> int:
    """A length of about BLOCK_EVENTS; where the number is not known, that of a busy sensor."""
    wanted = 50_000 if not events else round(duration_us * BLOCK_EVENTS / events)
    return min(max(wanted, _BLOCK_US[0]), _BLOCK_US[1])
