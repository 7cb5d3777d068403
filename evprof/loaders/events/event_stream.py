"""Reads `.es` files (Event Stream 2): events of an event camera as differences of time, 5 bytes each.

Format: neuromorphicsystems/event_stream. An event is a byte of 7 bits of time since the event before and one of
polarity, then x and y as 16-bit numbers; ahead of it, a byte 0xff lets 127 µs pass and 0xfe none. Rows are counted from
the bottom there, from the top here. Times never run backwards, so a window ends the reading.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.recording import FileRecording, RecordingInfo, check_sensor, joined

_KINDS = {0: "generic", 1: "DVS", 2: "ATIS", 4: "colour"}
_DVS = 1
_HEADER = 20
_EVENT = np.dtype([("t", "u1"), ("x", "<u2"), ("y", "<u2")])
_LOWEST_BETWEEN = 0xFE
_PASSING = 0xFF
_PASSED_US = 127
_BLOCK = _EVENT.itemsize << 17


class EventStream(FileRecording):
    """Reads in blocks from the start; where each began is kept, so that later windows begin near their place."""

    def _begin(self) -> None:
        path, head = self.path, self._file.at(0, _HEADER)
        if len(head) < _HEADER:
            raise UserError(f"{path}: is cut short within its header; copy or export the file again.")
        version, kind = ".".join(map(str, head[12:15])), head[15]
        if head[12] != 2 or kind != _DVS:
            what = _KINDS.get(kind, f"unknown ({kind})")
            raise UserError(f"{path}: is Event Stream {version} of the kind {what}; version 2 of the kind DVS is read.")
        self._width, self._height = int.from_bytes(head[16:18], "little"), int.from_bytes(head[18:20], "little")
        # Of each block: its place in the file, and the time when it begins.
        self._places, self._times = [_HEADER], [0]

    @property
    def info(self) -> RecordingInfo:
        first = next(self.chunks(), None)
        earliest = None if first is None else int(first.t_us[0])
        return RecordingInfo("es", None, self._width or None, self._height or None, earliest)

    def chunks(self) -> Iterator[EventArray]:
        return self._from(0)

    def read_time(self, start_us: int, stop_us: int) -> EventArray:
        """Reads from the last known block that begins before the window to the window's end."""

        def inside() -> Iterator[EventArray]:
            for chunk in self._from(max(0, bisect_left(self._times, start_us) - 1)):
                if chunk.t_us[0] >= stop_us:
                    return
                yield chunk.slice_time(start_us, stop_us)

        return joined(self._bounded(inside()))

    def _from(self, block: int) -> Iterator[EventArray]:
        while self._places[block] < self._file.size:
            place, t_us = self._places[block], self._times[block]
            content = self._file.at(place, _BLOCK)
            rows, passed_us, used = split(content)
            t = np.cumsum(passed_us[:-1] + (rows["t"] >> 1)) + t_us
            if used == 0:
                # Less than an event is left: the file was cut within one.
                return
            block += 1
            if block == len(self._places):
                self._places.append(place + used)
                self._times.append(int(t[-1] if len(t) else t_us) + int(passed_us[-1]))
            if len(rows):
                yield self._events(rows, t)

    def _events(self, rows: npt.NDArray[np.void], t_us: npt.NDArray[np.int64]) -> EventArray:
        x, y = rows["x"].astype(np.uint16), rows["y"].astype(np.uint16)
        check_sensor(x, y, self._width, self._height, self.path)
        return EventArray(x, np.uint16(self._height - 1) - y, t_us, (rows["t"] & 1).astype(np.uint8))


def split(content: bytes) -> tuple[npt.NDArray[np.void], npt.NDArray[np.int64], int]:
    """Tells events from the bytes between them.

    Returns the N whole events, int64 [N + 1] how much time the bytes ahead of each (and after the last) let pass, and
    how many bytes these are. Coordinates may look like such bytes, so that only an event's end tells what follows it.
    """
    values = np.frombuffer(content, np.uint8)
    passing = _between(values)
    last = passing[-1] + 1 if len(passing) else 0
    used = len(content) - (len(content) - last) % 5
    if len(passing) == 0:
        rows = np.frombuffer(content, _EVENT, used // 5)
        return rows, np.zeros(len(rows) + 1, np.int64), used
    is_event = np.ones(used, bool)
    is_event[passing] = False
    rows = values[:used][is_event].view(_EVENT)
    # So many events lie ahead of the k-th of these bytes: what is ahead of it but the k bytes before.
    ahead = (passing - np.arange(len(passing))) // 5
    weights = np.where(values[passing] == _PASSING, _PASSED_US, 0)
    passed_us = np.bincount(ahead, weights, len(rows) + 1).astype(np.int64)
    return rows, passed_us, used


def _between(values: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """The places of bytes that stand between events.

    After one of them the next is the first high byte a multiple of 5 away. Where that would be is found for all high
    bytes at once; only the way from one to the next is walked.
    """
    high = np.flatnonzero(values >= _LOWEST_BETWEEN)
    end = len(high)
    turns = high % _EVENT.itemsize
    following = np.full(end + 1, end)
    first = end
    for turn in range(_EVENT.itemsize):
        members = np.flatnonzero(turns == turn)
        if turn == 0 and len(members):
            first = int(members[0])
        before = np.flatnonzero(turns == (turn - 1) % _EVENT.itemsize)
        found = np.searchsorted(high[members], high[before] + 1)
        following[before] = np.append(members, end)[found]
    ways = following.tolist()
    walked: list[int] = []
    number = first
    while number < end:
        walked.append(number)
        number = ways[number]
    places: npt.NDArray[np.int64] = high[walked]
    return places
