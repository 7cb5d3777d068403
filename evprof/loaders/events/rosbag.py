"""Reads event arrays from ROS 1 bags, as the drivers of DVS, DAVIS and Prophesee cameras publish them.

Layout of a message: dvs_msgs/EventArray and prophesee_event_msgs/EventArray, which agree byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE, EventArray
from evprof.loaders.events.pieces import PiecedRecording, Pieces, sampled
from evprof.loaders.events.recording import NO_EVENTS, RecordingInfo, check_sensor, joined
from evprof.loaders.events.rosbag_file import BagFile, Chunk, Connection

KINDS = ("dvs_msgs/EventArray", "prophesee_event_msgs/EventArray")

_EVENT = np.dtype([("x", "<u2"), ("y", "<u2"), ("s", "<u4"), ("ns", "<u4"), ("p", "u1")])
_STAMP = 16
"""Bytes of a message's header up to the text in it: number, seconds, nanoseconds, length of the text."""


class Rosbag(PiecedRecording):
    """Packets are the bag's chunks that hold messages of the topic; times are the events' own, not the recorder's."""

    def _begin(self) -> None:
        self._bag = BagFile(self._file)
        self._topic, self._numbers = self._chosen()
        self._chunks = [chunk for chunk in self._bag.chunks if self._numbers & chunk.counts.keys()]
        self._width: int | None = None
        self._height: int | None = None

    @cached_property
    def info(self) -> RecordingInfo:
        """The number of events stands in the messages themselves, and so is left open."""
        earliest, latest = self._limits_us()
        others = sorted({each.topic for each in self._bag.connections} - {self._topic})
        details: dict[str, str | int | float] = {"topic": self._topic}
        if others:
            details["other topics"] = ", ".join(others[:12]) + (" …" if len(others) > 12 else "")
        return RecordingInfo("rosbag1", None, self._width, self._height, earliest, latest, details)

    def chunks(self) -> Iterator[EventArray]:
        """A bag's chunk after the other; by default they have some 60,000 events."""
        for chunk in self._chunks:
            events = self._events(chunk)
            if len(events):
                yield events

    def _first_share(self) -> float:
        messages = [sum(chunk.counts.get(number, 0) for number in self._numbers) for chunk in self._chunks]
        return messages[0] / max(1, sum(messages)) if messages else 1.0

    @cached_property
    def _pieces(self) -> Pieces:
        return sampled(len(self._chunks), self._first_us)

    def _first_us(self, number: int) -> int | None:
        events = self._events(self._chunks[number])
        return int(events.t_us[0]) if len(events) else None

    def _decoded(self, start: int, stop: int) -> EventArray:
        edges = self._pieces.edges
        return joined(self._bounded(self._events(chunk) for chunk in self._chunks[edges[start] : edges[stop]]))

    def _chosen(self) -> tuple[str, frozenset[int]]:
        """The event topic with the most messages, the first of several, and its connections."""
        found = [each for each in self._bag.connections if each.kind in KINDS]
        if not found:
            held = sorted({f"{each.topic} ({each.kind})" for each in self._bag.connections})
            listed = ", ".join(held[:4]) + (" …" if len(held) > 4 else "") or "nothing"
            raise UserError(
                f"{self.path}: no topic with {' or '.join(KINDS)} messages; it holds {listed[:300]}. Give a bag with "
                "events."
            )

        def messages(connection: Connection) -> int:
            numbers = {each.number for each in found if each.topic == connection.topic}
            return sum(count for chunk in self._bag.chunks for n, count in chunk.counts.items() if n in numbers)

        topic = max(found, key=messages).topic
        return topic, frozenset(each.number for each in found if each.topic == topic)

    def _events(self, chunk: Chunk) -> EventArray:
        parts = [self._content(message) for message in self._bag.messages(chunk, self._numbers)]
        rows = np.frombuffer(b"".join(parts), _EVENT)
        if len(rows) == 0:
            return NO_EVENTS
        x, y = rows["x"].astype(np.uint16), rows["y"].astype(np.uint16)
        check_sensor(x, y, self._width, self._height, self.path)
        below_s: npt.NDArray[np.int64] = (rows["ns"] // np.uint32(1_000)).astype(np.int64)
        t_us = rows["s"].astype(np.int64) * 1_000_000 + below_s
        return EventArray(x, y, t_us, (rows["p"] != 0).astype(np.uint8))

    def _content(self, message: memoryview) -> memoryview:
        """The bytes of a message's events; notes the sensor's size."""
        try:
            start = _STAMP + struct.unpack_from("<I", message, _STAMP - 4)[0]
            height, width, count = struct.unpack_from("<III", message, start)
        except struct.error:
            raise self._damaged() from None
        content = message[start + 12 :]
        if len(content) != count * _EVENT.itemsize:
            raise self._damaged()
        if 0 < width <= MAX_COORDINATE + 1 and 0 < height <= MAX_COORDINATE + 1:
            self._width, self._height = width, height
        return content

    def _damaged(self) -> UserError:
        return UserError(f"{self.path}: a message of {self._topic} is damaged; copy the bag again or repair it.")
