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
from evprof.loaders.events.pieces import PiecedRecording, Pieces, sampled
from evprof.loaders.events.recording import NO_EVENTS, Expansion, FileBytes, RecordingInfo, check_sensor, joined

MAGIC = b"#ROSBAG V2.0\n"

_MESSAGE, _BAG, _CHUNK, _CHUNK_INFO, _CONNECTION = 2, 3, 5, 6, 7


@dataclass(frozen=True)
class Connection:
    """Who publishes what: `topic` is a name, `kind` the type of its messages, as in `dvs_msgs/EventArray`."""

    number: int
    topic: str
    kind: str


@dataclass(frozen=True)
class Chunk:
    """A run of messages: where its record begins, and how many messages of each connection it holds."""

    place: int
    counts: dict[int, int] = field(default_factory=dict)


class BagFile:
    """The index of a bag, read when opened, and its chunks. Raises UserError."""

    def __init__(self, file: FileBytes) -> None:
        self._file = file
        self._expansion = Expansion(file.path)
        if file.at(0, len(MAGIC)) != MAGIC:
            raise UserError(f"{file.path}: is a bag of another version than 2.0; convert it (rosbag fix).")
        bag, _, _ = self._record(len(MAGIC), _BAG)
        if bag.get(b"encryptor"):
            raise UserError(f"{file.path}: the bag is encrypted; decrypt it first (rosbag decrypt).")
        start = self._number(bag, b"index_pos", 8)
        if start == 0:
            raise UserError(f"{file.path}: the bag was not closed by its recorder; repair it first (rosbag reindex).")
        self.connections: list[Connection] = []
        self.chunks: list[Chunk] = []
        self._index(start)

    def messages(self, chunk: Chunk, numbers: frozenset[int]) -> Iterator[memoryview]:
        """The contents of the chunk's messages of these connections, in its order."""
        content = memoryview(self._content(chunk))
        place = 0
        while place < len(content):
            header, start, stop = _parsed(content, place, self._file.path)
            op = header.get(b"op")
            if op == bytes([_MESSAGE]) and self._number(header, b"conn", 4) in numbers:
                yield content[start:stop]
            place = stop

    def _index(self, start: int) -> None:
        content = memoryview(self._file.at(start, self._file.size - start))
        place = 0
        known: set[int] = set()
        while place < len(content):
            header, begin, stop = _parsed(content, place, self._file.path)
            data = content[begin:stop]
            if header.get(b"op") == bytes([_CONNECTION]):
                named = _fields(data, self._file.path)
                topic, kind = (header.get(b"topic", b""), named.get(b"type", b""))
                number = self._number(header, b"conn", 4)
                self.connections.append(Connection(number, _text(topic), _text(kind)))
            elif header.get(b"op") == bytes([_CHUNK_INFO]):
                numbers = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data) // 8 * 8, 4)]
                counts = dict(zip(numbers[::2], numbers[1::2], strict=True))
                chunk = Chunk(self._number(header, b"chunk_pos", 8), counts)
                if chunk.place in known:
                    raise _damage(self._file.path)
                known.add(chunk.place)
                self.chunks.append(chunk)
            place = stop

    def _content(self, chunk: Chunk) -> bytes:
        header, start, stop = self._record(chunk.place, _CHUNK)
        packed = self._file.at(start, stop - start)
        compression, size = header.get(b"compression", b""), self._number(header, b"size", 4)
        if compression == b"none":
            return packed
        self._expansion.expect(len(packed), size)
        content: bytes
        try:
            # One byte more than there should be shows whether there is more.
            content = self._decompressor(compression).decompress(packed, max_length=size + 1)
        except (OSError, EOFError, ValueError, RuntimeError, MemoryError):
            raise self._damaged(chunk.place) from None
        if len(content) != size:
            raise self._damaged(chunk.place)
        self._expansion.count(len(packed), size)
        return content

    def _decompressor(self, compression: bytes) -> Any:
        if compression == b"bz2":
            return bz2.BZ2Decompressor()
        if compression != b"lz4":
            raise UserError(f"{self._file.path}: its chunks are compressed in an unknown way ({_text(compression)}).")
        import lz4.frame

        return lz4.frame.LZ4FrameDecompressor()

    def _record(self, place: int, op: int) -> tuple[dict[bytes, bytes], int, int]:
        """The header of the record at this place in the file, and where its data begins and ends."""
        length = int.from_bytes(self._file.at(place, 4), "little")
        head = self._file.at(place, min(length, 1 << 20) + 8)
        if length + 8 > len(head):
            raise self._damaged(place)
        size = int.from_bytes(head[4 + length :], "little")
        header = _fields(memoryview(head)[4 : 4 + length], self._file.path)
        start = place + 8 + length
        if header.get(b"op") != bytes([op]) or start + size > self._file.size:
            raise self._damaged(place)
        return header, start, start + size

    def _number(self, header: dict[bytes, bytes], name: bytes, size: int) -> int:
        value = header.get(name, b"")
        if len(value) != size:
            raise _damage(self._file.path)
        return int.from_bytes(value, "little")

    def _damaged(self, place: int) -> UserError:
        return UserError(f"{self._file.path}: the bag is damaged at byte {place:,}; copy it again or repair it.")


def _parsed(content: memoryview, place: int, path: str) -> tuple[dict[bytes, bytes], int, int]:
    """As `BagFile._record`, within bytes that are at hand."""
    length = int.from_bytes(content[place : place + 4], "little")
    start = place + 8 + length
    if start > len(content):
        raise _damage(path)
    stop = start + int.from_bytes(content[start - 4 : start], "little")
    if stop > len(content):
        raise _damage(path)
    return _fields(content[place + 4 : start - 4], path), start, stop


def _fields(content: memoryview, path: str) -> dict[bytes, bytes]:
    """`name=value` after their lengths."""
    found: dict[bytes, bytes] = {}
    whole = bytes(content)
    place = 0
    while place < len(whole):
        stop = place + 4 + int.from_bytes(whole[place : place + 4], "little")
        name, mark, value = whole[place + 4 : stop].partition(b"=")
        if not mark or stop > len(whole):
            raise _damage(path)
        found[name] = value
        place = stop
    return found


def _damage(path: str) -> UserError:
    return UserError(f"{path}: a record of the bag is damaged; copy it again or repair it (rosbag reindex).")


def _text(value: bytes) -> str:
    return "".join(c if c.isprintable() else "?" for c in value.decode("utf-8", "replace"))[:200]


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
