"""Events of any moment of a recording for the player: small ones held in memory, long ones read in blocks as needed.

A block read is kept as long as there is room for it, so that moving to and fro costs one reading. It knows no picture.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Protocol

import numpy as np

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.recording import NO_EVENTS, EventRecording, EventsInMemory, joined

HELD_EVENTS = 20_000_000
"""Blocks are kept up to this many events, 260 MB; recordings of up to as many are held whole where a format knows no
quicker way to a window than through all of it."""

SMALL_EVENTS = 500_000
"""Recordings of up to this many events are held whatever their format: reading them takes no longer than a blink."""

HELD_BYTES, SMALL_BYTES = 40_000_000, 1_000_000
"""The same in bytes of a file where the format does not count; no format takes less than two bytes for an event."""

BLOCK_EVENTS = 250_000
"""Events of a block, about: what is read in some milliseconds and holds a moment of the busiest sensor."""

_BLOCK_US = (1_000, 1_000_000)
"""The shortest and the longest block."""

_MOST_BLOCKS_BACK = 400
"""How far back the last N events are looked for before fewer are good enough."""


class EventWindows(Protocol):
    """Events by time since the recording's earliest. Used by one thread only; every call may raise UserError.

    `width` and `height` are the sensor's, or what the events read so far need. Events come on the recording's own
    clock, on which the earliest lies at `zero_us`.
    """

    width: int
    height: int
    zero_us: int

    @property
    def duration_us(self) -> int:
        """From the earliest event to the latest."""

    @property
    def is_length_known(self) -> bool:
        """Whether that is so, or only as far as is known yet: `prepare` finds out."""

    def between(self, start_us: int, stop_us: int) -> EventArray:
        """Events with start_us <= t < stop_us, in order of time."""

    def last(self, count: int, stop_us: int) -> EventArray:
        """The last `count` events before a moment; fewer near the beginning."""

    def prepare(self, position_us: int) -> None:
        """Reads what follows a moment."""

    def close(self) -> None:
        """Lets go of the recording."""


class HeldEvents:
    """A recording held in memory."""

    def __init__(self, events: EventArray) -> None:
        """Raises UserError without events."""
        if not len(events):
            raise UserError("The recording holds no events.")
        events = events.in_time_order()
        self.width, self.height = events.width, events.height
        self.zero_us = int(events.t_us[0])
        self.is_length_known = True
        self._events = events

    @property
    def duration_us(self) -> int:
        """From the earliest event to the latest."""
        return int(self._events.t_us[-1]) - self.zero_us

    def between(self, start_us: int, stop_us: int) -> EventArray:
        """A view."""
        return _cut(self._events, start_us + self.zero_us, stop_us + self.zero_us)

    def last(self, count: int, stop_us: int) -> EventArray:
        """A view."""
        stop = int(np.searchsorted(self._events.t_us, stop_us + self.zero_us, side="left"))
        return self._events.slice_count(max(0, stop - count), stop)

    def prepare(self, position_us: int) -> None:
        """Everything is there."""

    def close(self) -> None:
        """Forgets the events."""
        self._events = NO_EVENTS


class BlockedEvents:
    """A recording read in blocks of time; what was read last is kept, up to `room_events` events.

    Where only looking through all of a file tells how long it is, its beginning is shown first, and `prepare` looks.
    """

    def __init__(self, recording: EventRecording, *, room_events: int = HELD_EVENTS) -> None:
        """Takes the recording over. Raises UserError."""
        info = recording.info
        self._recording = recording
        self._room_events = room_events
        self._blocks: OrderedDict[int, EventArray] = OrderedDict()
        self._held_events = 0
        self.width, self.height = info.width or 1, info.height or 1
        self._is_size_known = bool(info.width and info.height)
        self._beginning: EventArray | None = None
        if info.t_max_us is None:
            self._beginning = next(recording.chunks(), NO_EVENTS).in_time_order()
            if not len(self._beginning):
                raise UserError(f"{recording.path}: the recording holds no events.")
            self._note_size(self._beginning)
            self._take_bounds(int(self._beginning.t_us[0]), int(self._beginning.t_us[-1]), None)
        else:
            self._take_bounds(recording.origin_us(), info.t_max_us, info.events)

    def _take_bounds(self, first_us: int, last_us: int, events: int | None) -> None:
        self.zero_us = first_us
        self._duration_us = max(0, last_us - first_us)
        self._block_us = _block_us(events, self._duration_us)

    @property
    def is_length_known(self) -> bool:
        """Whether `duration_us` is more than how long the beginning is."""
        return self._beginning is None

    @property
    def duration_us(self) -> int:
        """From the earliest event to the latest."""
        return self._duration_us

    def between(self, start_us: int, stop_us: int) -> EventArray:
        """Joined from the blocks it lies in; one reading for all that are missing beside each other."""
        start_us, stop_us = max(0, start_us), min(stop_us, self._duration_us + 1)
        if start_us >= stop_us:
            return NO_EVENTS
        if self._beginning is not None:
            return _cut(self._beginning, start_us + self.zero_us, stop_us + self.zero_us)
        first, last = start_us // self._block_us, (stop_us - 1) // self._block_us
        self._read_missing(first, last)
        events = joined(self._blocks[number] for number in range(first, last + 1)).in_time_order()
        found = _cut(events, start_us + self.zero_us, stop_us + self.zero_us)
        self._forget()
        return found

    def last(self, count: int, stop_us: int) -> EventArray:
        """Goes back block by block until there are enough."""
        stop_us = min(stop_us, self._duration_us + 1)
        start_us = max(0, stop_us - self._block_us)
        found = self.between(start_us, stop_us)
        for _ in range(_MOST_BLOCKS_BACK):
            if len(found) >= count or start_us <= 0:
                break
            earlier = max(0, start_us - self._block_us)
            found = joined((self.between(earlier, start_us), found))
            start_us = earlier
        return found.slice_count(max(0, len(found) - count), len(found))

    def prepare(self, position_us: int) -> None:
        """The block after the one a moment lies in; before that, how long the recording is."""
        if self._beginning is not None:
            self._learn_length()
        following = position_us // self._block_us + 1
        if following * self._block_us <= self._duration_us:
            self._read_missing(following, following)
            self._forget()

    def close(self) -> None:
        """Lets go of the file and the blocks."""
        self._blocks.clear()
        self._held_events = 0
        self._recording.close()

    def _learn_length(self) -> None:
        """Formats with an index make it for the first window; of others every piece has to be looked at."""
        recording = self._recording
        recording.read_time(self.zero_us, self.zero_us + 1)
        info = recording.info
        if info.t_min_us is not None and info.t_max_us is not None:
            first_us, last_us = info.t_min_us, info.t_max_us
        else:
            edges = [(int(chunk.t_us.min()), int(chunk.t_us.max())) for chunk in recording.chunks()]
            first_us, last_us = min(edge[0] for edge in edges), max(edge[1] for edge in edges)
        self._beginning = None
        self._take_bounds(first_us, last_us, info.events)

    def _note_size(self, events: EventArray) -> None:
        if not self._is_size_known:
            self.width, self.height = max(self.width, events.width), max(self.height, events.height)

    def _read_missing(self, first: int, last: int) -> None:
        number = first
        while number <= last:
            if number in self._blocks:
                self._blocks.move_to_end(number)
                number += 1
                continue
            stop = number
            while stop <= last and stop not in self._blocks:
                stop += 1
            self._read(number, stop)
            number = stop

    def _read(self, first: int, stop: int) -> None:
        """Blocks first…stop-1 in one reading, taken apart."""
        zero, length = self.zero_us, self._block_us
        events = self._recording.read_time(zero + first * length, zero + stop * length).in_time_order()
        self._note_size(events)
        edges = np.searchsorted(events.t_us, [zero + number * length for number in range(first, stop + 1)])
        for place, number in enumerate(range(first, stop)):
            block = events.slice_count(int(edges[place]), int(edges[place + 1]))
            # A view would keep what was read with it alive.
            self._blocks[number] = _copied(block) if stop - first > 1 else block
            self._held_events += len(block)

    def _forget(self) -> None:
        while self._held_events > self._room_events and len(self._blocks) > 1:
            _, oldest = self._blocks.popitem(last=False)
            self._held_events -= len(oldest)


def open_windows(path: str, rectify_path: str | None = None) -> EventWindows:
    """The events of a file, held or in blocks; with a rectification map where the model sees them. Raises UserError."""
    from evprof.loaders.events.opening import open_recording

    recording = open_recording(path)
    try:
        is_held = _is_held(recording)
        if rectify_path is not None:
            from evprof.loaders.events.rectification import Rectified, RectifyMap

            recording = Rectified(recording, RectifyMap.load(rectify_path))
        if is_held:
            events = recording.read()
            recording.close()
            return HeldEvents(events)
        return BlockedEvents(recording)
    except BaseException:
        recording.close()
        raise


def _is_held(recording: EventRecording) -> bool:
    """Whether reading all of a recording at once is the better way to its windows."""
    if isinstance(recording, EventsInMemory):
        return True
    has_windows = type(recording).read_time is not EventRecording.read_time
    count = recording.info.events
    if count is not None:
        return count <= (SMALL_EVENTS if has_windows else HELD_EVENTS)
    return Path(recording.path).stat().st_size <= (SMALL_BYTES if has_windows else HELD_BYTES)


def _block_us(events: int | None, duration_us: int) -> int:
    """A length that holds about BLOCK_EVENTS; for a recording that does not count, what a busy sensor makes."""
    wanted = 50_000 if not events else round(duration_us * BLOCK_EVENTS / events)
    return min(max(wanted, _BLOCK_US[0]), _BLOCK_US[1])


def _copied(events: EventArray) -> EventArray:
    return EventArray(events.x.copy(), events.y.copy(), events.t_us.copy(), events.p.copy())


def _cut(events: EventArray, start_us: int, stop_us: int) -> EventArray:
    """Events in order of time with start_us <= t < stop_us; a view."""
    start, stop = np.searchsorted(events.t_us, [start_us, stop_us], side="left")
    return events.slice_count(int(start), max(int(start), int(stop)))
