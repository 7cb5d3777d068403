"""Reads `.es` files (Event Stream 2): events of an event camera as differences of time, 5 bytes each.

Format: neuromorphicsystems/event_stream. An event is a byte of 7 bits of time since the event before and one of
polarity, then x and y as 16-bit numbers; ahead of it, a byte 0xff lets 127 µs pass and 0xfe none. Rows are counted from
the bottom there, and from the top here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.blocks import StatefulRecording
from evprof.loaders.events.recording import NO_EVENTS, RecordingInfo, check_sensor

_KINDS = {0: "generic", 1: "DVS", 2: "ATIS", 4: "colour"}
_DVS = 1
_HEADER = 20
_EVENT = np.dtype([("t", "u1"), ("x", "<u2"), ("y", "<u2")])
_LOWEST_BETWEEN = 0xFE
_PASSING = 0xFF
_PASSED_US = 127
_BLOCK = _EVENT.itemsize << 17


class EventStream(StatefulRecording[int]):
    """The state of a block is the time in µs at which it begins."""

    def _begin(self) -> None:
        path, head = self.path, self._file.at(0, _HEADER)
        if len(head) < _HEADER:
            raise UserError(f"{path}: is cut short within its header; copy or export the file again.")
        version, kind = ".".join(map(str, head[12:15])), head[15]
        if head[12] != 2 or kind != _DVS:
            what = _KINDS.get(kind, f"unknown ({kind})")
            raise UserError(f"{path}: is Event Stream {version} of the kind {what}; version 2 of the kind DVS is read.")
        self._width, self._height = int.from_bytes(head[16:18], "little"), int.from_bytes(head[18:20], "little")
        self._begin_at(_HEADER, 0, self._file.size)

    @property
    def info(self) -> RecordingInfo:
        return RecordingInfo("es", None, self._width or None, self._height or None, *self._limits_us)

    def _block(self, place: int, state: int) -> tuple[EventArray, int, int]:
        rows, passed_us, used = split(self._file.at(place, _BLOCK))
        t_us = np.cumsum(passed_us[:-1] + (rows["t"] >> 1)) + state
        after_us = int(t_us[-1] if len(t_us) else state) + int(passed_us[-1])
        if not len(rows):
            return NO_EVENTS, place + used, after_us
        x, y = rows["x"].astype(np.uint16), rows["y"].astype(np.uint16)
        check_sensor(x, y, self._width, self._height, self.path)
        events = EventArray(x, np.uint16(self._height - 1) - y, t_us, (rows["t"] & 1).astype(np.uint8))
        return events, place + used, after_us


def split(content: bytes) -> tuple[npt.NDArray[np.void], npt.NDArray[np.int64], int]:
    """Separates events from the bytes between them.

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
