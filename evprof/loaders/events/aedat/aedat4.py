"""Reads AEDAT4 captures of iniVation's DV: the first stream of events, by packets.

A file begins with a flatbuffer: the compression, and an XML list of streams. Each packet is a flatbuffer, too. Every
offset is checked against the bytes at hand.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.pieces import PiecedRecording, Pieces, sampled
from evprof.loaders.events.recording import NO_EVENTS, Expansion, FileBytes, RecordingInfo, check_sensor, joined
from evprof.loaders.paths import reason

MAGIC = b"#!AER-DAT4.0\r\n"

COMPRESSIONS = ("none", "lz4", "lz4 high", "zstd", "zstd high")
"""By the number that stands for them."""

_ZSTD = 3

KINDS = {"EVTS": "events", "FRME": "frames", "IMUS": "inertial", "TRIG": "triggers"}

LONGEST_HEADER = 1 << 20


class Damaged(Exception):  # noqa: N818 - the sentence is made where the file's name is known
    """What is wrong, as the end of a sentence about the file."""


@dataclass(frozen=True)
class Aedat4Stream:
    """One kind of data of one sensor; `width` and `height` are None where there are none."""

    number: int
    kind: str
    width: int | None
    height: int | None
    source: str | None


@dataclass(frozen=True)
class Aedat4Header:
    """`data_start` is the first packet's place, `data_stop` the place after the last, None where the file's end is."""

    compression: int
    streams: tuple[Aedat4Stream, ...]
    data_start: int
    data_stop: int | None


def read_header(head: bytes) -> Aedat4Header:
    """Parses what a file begins with; `head` is all of it up to LONGEST_HEADER and more. Raises Damaged."""
    start = len(MAGIC) + 4
    if len(head) < start + 8:
        raise Damaged("its header is cut short")
    length = int.from_bytes(head[len(MAGIC) : start], "little")
    if length > LONGEST_HEADER or start + length > len(head):
        raise Damaged("its header is damaged or cut short")
    table = FlatbufferTable(head[start : start + length], 0, b"IOHE")
    compression, stop = table.integer(0, "<i", 0), table.integer(1, "<q", -1)
    if not 0 <= compression < len(COMPRESSIONS):
        raise Damaged(f"it is compressed in a way ({compression}) that is not known here")
    place, count = table.vector(2)
    return Aedat4Header(
        compression, _streams(table.content[place : place + count]), start + length, stop if stop > 0 else None
    )


class FlatbufferTable:
    """The root table of a flatbuffer. Reading outside of it raises Damaged."""

    def __init__(self, content: bytes, start: int, identifier: bytes) -> None:
        self.content = content
        if content[start + 4 : start + 8] != identifier:
            raise Damaged("a part of it is not what it should be")
        self._place = start + self._number("<I", start)
        self._fields = self._place - self._number("<i", self._place)
        self._length = self._number("<H", self._fields)

    def integer(self, field: int, form: str, otherwise: int) -> int:
        """A number, or `otherwise` where the file leaves it out."""
        place = self._field(field)
        return otherwise if place is None else self._number(form, place)

    def vector(self, field: int) -> tuple[int, int]:
        """Where a vector's content begins and how many items it has; (0, 0) without one. Its end is the caller's."""
        place = self._field(field)
        if place is None:
            return 0, 0
        place += self._number("<I", place)
        return place + 4, self._number("<I", place)

    def _field(self, field: int) -> int | None:
        at = 4 + 2 * field
        offset = self._number("<H", self._fields + at) if at + 2 <= self._length else 0
        return self._place + offset if offset else None

    def _number(self, form: str, place: int) -> int:
        if place < 0:
            raise Damaged("an offset in it leads nowhere")
        try:
            return int(struct.unpack_from(form, self.content, place)[0])
        except struct.error:
            raise Damaged("an offset in it leads nowhere") from None


def _streams(text: bytes) -> tuple[Aedat4Stream, ...]:
    if b"<!" in text:
        raise Damaged("its list of streams is no plain XML")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, LookupError):
        raise Damaged("its list of streams cannot be read") from None
    found = (_stream(node) for node in root.findall("./node[@name='outInfo']/node"))
    return tuple(stream for stream in found if stream is not None)


def _stream(node: ElementTree.Element) -> Aedat4Stream | None:
    name = node.get("name", "")
    if not (name.isascii() and name.isdigit() and len(name) < 10):
        return None
    kind = _text(node, "typeIdentifier") or ""
    info = node.find("./node[@name='info']")
    sizes = [_text(info, key) if info is not None else None for key in ("sizeX", "sizeY")]
    width, height = (int(size) if size and size.isascii() and size.isdigit() and len(size) < 6 else 0 for size in sizes)
    source = _text(info, "source") if info is not None else None
    return Aedat4Stream(int(name), KINDS.get(kind, kind[:16] or "unknown"), width or None, height or None, source)


def _text(node: ElementTree.Element, key: str) -> str | None:
    found = next((child for child in node.findall("./attr") if child.get("key") == key), None)
    return found.text.strip()[:80] if found is not None and found.text else None


_EVENT = np.dtype([("t", "<i8"), ("x", "<u2"), ("y", "<u2"), ("p", "u1"), ("", "V3")])


class Packets:
    """Decodes packets of one stream of one file; `width` and `height` are the sensor's, where known."""

    def __init__(self, path: str, compression: int, width: int | None, height: int | None) -> None:
        self.path = path
        self._compression = compression
        self._width, self._height = width, height
        self._expansion = Expansion(path)

    def events(self, packets: Sequence[bytes]) -> EventArray:
        rows = [part for packet in packets if len(part := self._rows(packet))]
        if not rows:
            return NO_EVENTS
        x, y, t, p = (np.concatenate([part[name] for part in rows]) for name in ("x", "y", "t", "p"))
        check_sensor(x, y, self._width, self._height, self.path)
        if p.max() > 1 or abs(int(t.min())) >> 61 or abs(int(t.max())) >> 61:
            raise self._damaged("events have impossible times or polarities")
        return EventArray(x, y, t, p)

    def _rows(self, packet: bytes) -> npt.NDArray[Any]:
        content = self._unpacked(packet) if self._compression else packet
        try:
            place, count = plain_events(content)
            return np.frombuffer(content, _EVENT, count, place) if count else np.empty(0, _EVENT)
        except (Damaged, ValueError):
            raise self._damaged("a packet makes no sense") from None

    def _unpacked(self, packet: bytes) -> bytes:
        unpacker = _unpacker(self._compression)
        try:
            # One byte more than the limit shows whether there is more.
            content: bytes = unpacker.decompress(packet, max_length=self._expansion.most(len(packet)) + 1)
        except Exception as error:  # noqa: BLE001 - each library has errors of its own
            raise self._damaged(f"a packet cannot be decompressed ({reason(error)})") from None
        self._expansion.expect(len(packet), len(content))
        self._expansion.count(len(packet), len(content))
        if not unpacker.eof or unpacker.unused_data:
            raise self._damaged("a packet is not whole")
        return content

    def _damaged(self, what: str) -> UserError:
        return UserError(f"{self.path}: {what}; the file is damaged, so copy or export it again.")


def _unpacker(compression: int) -> Any:
    if compression < _ZSTD:
        import lz4.frame

        return lz4.frame.LZ4FrameDecompressor()
    from backports import zstd

    return zstd.ZstdDecompressor()


def plain_events(packet: bytes) -> tuple[int, int]:
    """Where the events of an uncompressed packet begin, and how many it says there are. Raises Damaged.

    The packet's first bytes are enough.
    """
    return FlatbufferTable(packet, 4, b"EVTS").vector(0)


_PACKET_HEADER = 8
_BATCH_BYTES = 1 << 20
_PEEKED_BYTES = 256
_EVENT_BYTES = 16


class Aedat4(PiecedRecording):
    """Pieces are packets; of compressed files groups of them, because a packet's times show only when it is decoded."""

    def _begin(self) -> None:
        self._header = _header(self._file)
        self._stream = _event_stream(self._header, self.path)
        self._is_plain = self._header.compression == 0
        self._decoder = Packets(self.path, self._header.compression, self._stream.width, self._stream.height)
        self._is_cut = False
        self._found: npt.NDArray[np.int64] | None = None

    @cached_property
    def info(self) -> RecordingInfo:
        """The number of events is known where they are not compressed."""
        stream, streams = self._stream, self._header.streams
        earliest, latest = self._limits_us()
        counts = self._pieces.counts
        events = None if counts is None else int(counts.sum())
        details: dict[str, str | int | float] = {"compression": COMPRESSIONS[self._header.compression]}
        if stream.source:
            details["sensor"] = stream.source
        if len(streams) > 1:
            details["streams"] = ", ".join(f"{each.number} {each.kind}" for each in streams[:16])
        size = stream.width, stream.height
        return RecordingInfo("aedat4", events, *size, earliest, latest, details, self._problems())

    def chunks(self) -> Iterator[EventArray]:
        return self._batches(self._walk() if self._found is None else self._found.tolist())

    def _problems(self) -> tuple[str, ...]:
        if self._is_cut:
            return ("The file ends within a packet, which was left out.",)
        return () if self._header.data_stop else ("The file was not closed by its recorder; its packets were read.",)

    @cached_property
    def _pieces(self) -> Pieces:
        return self._plain_pieces(self._packets) if self._is_plain else sampled(len(self._packets), self._first_us)

    def _plain_pieces(self, packets: npt.NDArray[np.int64]) -> Pieces:
        first_us, counts, numbers = array("q"), array("q"), array("q")
        for number, (place, size) in enumerate(packets.tolist()):
            head = self._file.at(place, min(size, _PEEKED_BYTES))
            try:
                start, count = plain_events(head)
            except Damaged:
                raise self._damaged(place) from None
            if start + count * _EVENT_BYTES > size or (count and start + 8 > len(head)):
                raise self._damaged(place)
            if count:
                first_us.append(int.from_bytes(head[start : start + 8], "little", signed=True))
                counts.append(count)
                numbers.append(number)
        edges = np.array([*numbers, len(packets)], np.int64)
        return Pieces(np.array(first_us, np.int64), np.array(counts, np.int64), edges)

    def _first_us(self, number: int) -> int | None:
        place, size = self._packets[number].tolist()
        events = self._decoder.events([self._file.at(place, size)])
        return int(events.t_us[0]) if len(events) else None

    def _decoded(self, start: int, stop: int) -> EventArray:
        edges = self._pieces.edges
        packets: list[tuple[int, int]] = self._packets[edges[start] : edges[stop]].tolist()
        return joined(self._bounded(self._batches(packets)))

    def _batches(self, packets: Iterable[tuple[int, int]]) -> Iterator[EventArray]:
        """The events of packets at these places and of these sizes, decoded some at a time."""
        batch: list[bytes] = []
        gathered = 0
        for place, size in packets:
            batch.append(self._file.at(place, size))
            gathered += size
            if gathered >= _BATCH_BYTES:
                events = self._decoder.events(batch)
                batch, gathered = [], 0
                if len(events):
                    yield events
        events = self._decoder.events(batch)
        if len(events):
            yield events

    @property
    def _packets(self) -> npt.NDArray[np.int64]:
        """Place and size of the stream's packets, int64 [M, 2]."""
        if self._found is None:
            fields = array("q")
            for packet in self._walk():
                fields.extend(packet)
            self._found = np.array(fields, np.int64).reshape(-1, 2)
        return self._found

    def _walk(self) -> Iterator[tuple[int, int]]:
        """Place and size of each packet of the stream, in the file's order."""
        numbers = {stream.number for stream in self._header.streams}
        place = self._header.data_start
        stop = min(self._header.data_stop or self._file.size, self._file.size)
        self._is_cut = self._is_cut or (self._header.data_stop or 0) > self._file.size
        while place < stop:
            header = self._file.at(place, _PACKET_HEADER)
            number, size = int.from_bytes(header[:4], "little"), int.from_bytes(header[4:], "little")
            if len(header) < _PACKET_HEADER or place + _PACKET_HEADER + size > stop:
                # A recorder that was killed leaves half a packet; a table's wrong place looks the same.
                self._is_cut = True
                return
            if number not in numbers:
                raise self._damaged(place)
            place += _PACKET_HEADER
            if number == self._stream.number:
                yield place, size
            place += size

    def _damaged(self, place: int) -> UserError:
        return UserError(f"{self.path}: the packet at byte {place:,} is damaged; copy or export the file again.")


def _header(file: FileBytes) -> Aedat4Header:
    start = file.at(0, len(MAGIC) + 4)
    length = int.from_bytes(start[len(MAGIC) :], "little")
    try:
        return read_header(start + file.at(len(start), min(length, LONGEST_HEADER)))
    except Damaged as damage:
        raise UserError(f"{file.path}: {damage}; copy or export the file again.") from None


def _event_stream(header: Aedat4Header, path: str) -> Aedat4Stream:
    for stream in header.streams:
        if stream.kind == "events":
            return stream
    held = ", ".join(stream.kind for stream in header.streams[:8]) or "no streams"
    raise UserError(f"{path}: holds no event stream, only {held}; give a capture with events.")
