"""Reads event arrays from ROS 1 bags, as the drivers of DVS, DAVIS and Prophesee cameras publish them.

Layout of a message: dvs_msgs/EventArray and prophesee_event_msgs/EventArray, which agree byte for byte.
Container, version 2.0: http://wiki.ros.org/Bags/Format/2.0.
"""

from __future__ import annotations

import bz2
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE, EventArray
from evprof.loaders.events.blocks import PacketRecording
from evprof.loaders.events.recording import NO_EVENTS, Expansion, RecordingInfo, check_sensor

MAGIC = b"#ROSBAG V2.0\n"
KINDS = ("dvs_msgs/EventArray", "prophesee_event_msgs/EventArray")

_MESSAGE, _BAG, _CHUNK, _CHUNK_INFO, _CONNECTION = (bytes([op]) for op in (2, 3, 5, 6, 7))
_EVENT = np.dtype([("x", "<u2"), ("y", "<u2"), ("s", "<u4"), ("ns", "<u4"), ("p", "u1")])
_STAMP = 16
"""Bytes of a message's header up to the text in it: number, seconds, nanoseconds, length of the text."""

Header = dict[bytes, bytes]


@dataclass(frozen=True)
class _Topic:
    """A connection: `kind` is the type of its messages, as in `dvs_msgs/EventArray`."""

    number: int
    topic: str
    kind: str


@dataclass(frozen=True)
class _Chunk:
    """A run of messages: the place of its record, and the number of messages of each connection."""

    place: int
    counts: dict[int, int] = field(default_factory=dict)


class Rosbag(PacketRecording):
    """Packets are chunks of the bag with messages of the topic. Times are those of the events, not of the recorder."""

    def _begin(self) -> None:
        self._expansion = Expansion(self.path)
        self._width: int | None = None
        self._height: int | None = None
        if self._file.at(0, len(MAGIC)) != MAGIC:
            raise UserError(f"{self.path}: is a bag of another version than 2.0; convert it (rosbag fix).")
        bag, _, _ = self._record(len(MAGIC), _BAG)
        if bag.get(b"encryptor"):
            raise UserError(f"{self.path}: the bag is encrypted; decrypt it first (rosbag decrypt).")
        start = self._number(bag, b"index_pos", 8)
        if start == 0:
            raise UserError(f"{self.path}: the bag was not closed by its recorder; repair it first (rosbag reindex).")
        topics, chunks = self._read_index(start)
        self._topic, self._numbers = self._chosen(topics, chunks)
        self._others = sorted({each.topic for each in topics} - {self._topic})
        self._chunks = [chunk for chunk in chunks if self._numbers & chunk.counts.keys()]

    def _read_index(self, start: int) -> tuple[list[_Topic], list[_Chunk]]:
        content = memoryview(self._file.at(start, self._file.size - start))
        topics: list[_Topic] = []
        chunks: dict[int, _Chunk] = {}
        for header, data in self._records(content):
            if header.get(b"op") == _CONNECTION:
                kind = self._fields(data).get(b"type", b"")
                number = self._number(header, b"conn", 4)
                topics.append(_Topic(number, _text(header.get(b"topic", b"")), _text(kind)))
            elif header.get(b"op") == _CHUNK_INFO:
                numbers = np.frombuffer(data, "<u4", len(data) // 8 * 2).tolist()
                place = self._number(header, b"chunk_pos", 8)
                if place in chunks:
                    raise self._damaged()
                chunks[place] = _Chunk(place, dict(zip(numbers[::2], numbers[1::2], strict=True)))
        return topics, list(chunks.values())

    def _chosen(self, topics: list[_Topic], chunks: list[_Chunk]) -> tuple[str, frozenset[int]]:
        """The event topic with the most messages, the first of several, and its connections."""
        numbers: dict[str, frozenset[int]] = {}
        for each in topics:
            if each.kind in KINDS:
                numbers[each.topic] = numbers.get(each.topic, frozenset()) | {each.number}
        if not numbers:
            held = sorted({f"{each.topic} ({each.kind})" for each in topics})
            listed = ", ".join(held[:4]) + (" …" if len(held) > 4 else "") or "nothing"
            raise UserError(
                f"{self.path}: no topic with {' or '.join(KINDS)} messages; it holds {listed[:300]}. Give a bag with "
                "events."
            )

        def messages(topic: str) -> int:
            return sum(count for chunk in chunks for n, count in chunk.counts.items() if n in numbers[topic])

        topic = max(numbers, key=messages)
        return topic, numbers[topic]

    @cached_property
    def info(self) -> RecordingInfo:
        """The number of events is in the messages, so it is unknown."""
        limits = self._limits_us
        details: dict[str, str | int | float] = {"topic": self._topic}
        if self._others:
            details["other topics"] = ", ".join(self._others[:12]) + (" …" if len(self._others) > 12 else "")
        return RecordingInfo("rosbag1", None, self._width, self._height, *limits, details)

    @cached_property
    def _packet_bytes(self) -> npt.NDArray[np.int64]:
        """A chunk at a time: by default chunks have about 60,000 events."""
        return np.full(len(self._chunks), 1 << 20, np.int64)

    def _events(self, start: int, stop: int) -> EventArray:
        rows = np.frombuffer(b"".join(map(self._content, self._messages(self._chunks[start:stop]))), _EVENT)
        if len(rows) == 0:
            return NO_EVENTS
        x, y = rows["x"].astype(np.uint16), rows["y"].astype(np.uint16)
        check_sensor(x, y, self._width, self._height, self.path)
        below_s: npt.NDArray[np.int64] = (rows["ns"] // np.uint32(1_000)).astype(np.int64)
        t_us = rows["s"].astype(np.int64) * 1_000_000 + below_s
        return EventArray(x, y, t_us, (rows["p"] != 0).astype(np.uint8))

    def _messages(self, chunks: list[_Chunk]) -> Iterator[memoryview]:
        for chunk in chunks:
            for header, data in self._records(memoryview(self._unpacked(chunk.place))):
                if header.get(b"op") == _MESSAGE and self._number(header, b"conn", 4) in self._numbers:
                    yield data

    def _content(self, message: memoryview) -> memoryview:
        """The bytes of a message's events. Sets the size of the sensor."""
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

    def _unpacked(self, place: int) -> bytes:
        header, start, stop = self._record(place, _CHUNK)
        packed = self._file.at(start, stop - start)
        compression, size = header.get(b"compression", b""), self._number(header, b"size", 4)
        if compression == b"none":
            return packed
        self._expansion.expect(len(packed), size)
        content: bytes
        try:
            # One byte more than stated shows whether there is more.
            content = self._decompressor(compression).decompress(packed, max_length=size + 1)
        except (OSError, EOFError, ValueError, RuntimeError, MemoryError):
            raise self._damaged(place) from None
        if len(content) != size:
            raise self._damaged(place)
        self._expansion.count(len(packed), size)
        return content

    def _decompressor(self, compression: bytes) -> Any:
        if compression == b"bz2":
            return bz2.BZ2Decompressor()
        if compression != b"lz4":
            raise UserError(f"{self.path}: its chunks are compressed in an unknown way ({_text(compression)}).")
        import lz4.frame

        return lz4.frame.LZ4FrameDecompressor()

    def _record(self, place: int, op: bytes) -> tuple[Header, int, int]:
        """The header of the record at this place in the file, and the start and the end of its data."""
        length = int.from_bytes(self._file.at(place, 4), "little")
        head = self._file.at(place, min(length, 1 << 20) + 8)
        if length + 8 > len(head):
            raise self._damaged(place)
        start = place + 8 + length
        stop = start + int.from_bytes(head[4 + length :], "little")
        header = self._fields(memoryview(head)[4 : 4 + length])
        if header.get(b"op") != op or stop > self._file.size:
            raise self._damaged(place)
        return header, start, stop

    def _records(self, content: memoryview) -> Iterator[tuple[Header, memoryview]]:
        """The header and the data of each record in `content`."""
        place = 0
        while place < len(content):
            start = place + 8 + int.from_bytes(content[place : place + 4], "little")
            stop = start + int.from_bytes(content[start - 4 : start], "little")
            if stop > len(content):
                raise self._damaged()
            yield self._fields(content[place + 4 : start - 4]), content[start:stop]
            place = stop

    def _fields(self, content: memoryview) -> Header:
        """`name=value`, each after its length."""
        fields: Header = {}
        whole = bytes(content)
        place = 0
        while place < len(whole):
            stop = place + 4 + int.from_bytes(whole[place : place + 4], "little")
            name, mark, value = whole[place + 4 : stop].partition(b"=")
            if not mark or stop > len(whole):
                raise self._damaged()
            fields[name] = value
            place = stop
        return fields

    def _number(self, header: Header, name: bytes, size: int) -> int:
        value = header.get(name, b"")
        if len(value) != size:
            raise self._damaged()
        return int.from_bytes(value, "little")

    def _damaged(self, place: int | None = None) -> UserError:
        where = "a record of the bag is damaged" if place is None else f"the bag is damaged at byte {place:,}"
        return UserError(f"{self.path}: {where}; copy it again or repair it (rosbag reindex).")


def _text(value: bytes) -> str:
    return "".join(c if c.isprintable() else "?" for c in value.decode("utf-8", "replace"))[:200]
