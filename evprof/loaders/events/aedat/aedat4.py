"""Reads AEDAT4 captures of iniVation's DV: the first stream of events, by packets.

A file begins with a flatbuffer: the compression, and an XML list of streams. Each packet is a flatbuffer, too. Every
offset is checked against the bytes at hand.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.blocks import BlockIndex, PacketRecording
from evprof.loaders.events.recording import NO_EVENTS, Expansion, RecordingInfo, check_sensor
from evprof.loaders.paths import reason

MAGIC = b"#!AER-DAT4.0\r\n"

COMPRESSIONS = ("none", "lz4", "lz4 high", "zstd", "zstd high")
"""By the number that stands for them."""

KINDS = {"EVTS": "events", "FRME": "frames", "IMUS": "inertial", "TRIG": "triggers"}

LONGEST_HEADER = 1 << 20

_ZSTD = 3
_PACKET_HEADER = 8
_PEEKED_BYTES = 256
_EVENT = np.dtype([("t", "<i8"), ("x", "<u2"), ("y", "<u2"), ("p", "u1"), ("", "V3")])


class Damaged(Exception):  # noqa: N818 - becomes a UserError with the file's name
    """What is wrong, as the end of a sentence about the file."""


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
        """The start of a vector's content and its number of items; (0, 0) without one. The caller checks its end."""
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


def plain_events(packet: bytes) -> tuple[int, int]:
    """The start of the events of an uncompressed packet, and their stated number. Raises Damaged.

    The first bytes of the packet are enough.
    """
    return FlatbufferTable(packet, 4, b"EVTS").vector(0)


@dataclass(frozen=True)
class _Stream:
    """One kind of data of one sensor."""

    number: int
    kind: str
    width: int | None
    height: int | None
    source: str | None


def _streams(text: bytes) -> list[_Stream]:
    if b"<!" in text:
        raise Damaged("its list of streams is no plain XML")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, LookupError):
        raise Damaged("its list of streams cannot be read") from None
    streams: list[_Stream] = []
    for node in root.findall("./node[@name='outInfo']/node"):
        name = node.get("name", "")
        if name.isascii() and name.isdigit() and len(name) < 10:
            kind, info = _texts(node).get("typeIdentifier", ""), node.find("./node[@name='info']")
            facts = {} if info is None else _texts(info)
            width, height = (_side(facts.get(key, "")) for key in ("sizeX", "sizeY"))
            streams.append(
                _Stream(int(name), KINDS.get(kind, kind[:16] or "unknown"), width, height, facts.get("source"))
            )
    return streams


def _texts(node: ElementTree.Element) -> dict[str, str]:
    return {child.get("key", ""): child.text.strip()[:80] for child in node.findall("./attr") if child.text}


def _side(text: str) -> int | None:
    return int(text) or None if text.isascii() and text.isdigit() and len(text) < 6 else None


class Aedat4(PacketRecording):
    """Packets of uncompressed files are blocks of their own: their first bytes give the first time."""

    def _begin(self) -> None:
        try:
            self._read_header()
        except Damaged as damage:
            raise UserError(f"{self.path}: {damage}; copy or export the file again.") from None
        self._expansion = Expansion(self.path)
        self._is_cut = self._stop > self._file.size

    def _read_header(self) -> None:
        start = len(MAGIC) + 4
        length = int.from_bytes(self._file.at(len(MAGIC), 4), "little")
        head = self._file.at(0, start + min(length, LONGEST_HEADER))
        if len(head) < start + 8:
            raise Damaged("its header is cut short")
        if length > LONGEST_HEADER or start + length > len(head):
            raise Damaged("its header is damaged or cut short")
        table = FlatbufferTable(head[start : start + length], 0, b"IOHE")
        self._compression = table.integer(0, "<i", 0)
        if not 0 <= self._compression < len(COMPRESSIONS):
            raise Damaged(f"it is compressed in a way ({self._compression}) that is not known here")
        place, count = table.vector(2)
        self._streams = _streams(table.content[place : place + count])
        self._data, self._stop = start + length, table.integer(1, "<q", -1)
        stream = next((stream for stream in self._streams if stream.kind == "events"), None)
        if stream is None:
            held = ", ".join(stream.kind for stream in self._streams[:8]) or "no streams"
            raise UserError(f"{self.path}: holds no event stream, only {held}; give a capture with events.")
        self._stream = stream

    @cached_property
    def info(self) -> RecordingInfo:
        """The number of events is known where they are not compressed."""
        stream, counts, limits = self._stream, self._index.counts, self._limits_us
        details: dict[str, str | int | float] = {"compression": COMPRESSIONS[self._compression]}
        if stream.source:
            details["sensor"] = stream.source
        if len(self._streams) > 1:
            details["streams"] = ", ".join(f"{each.number} {each.kind}" for each in self._streams[:16])
        problems: tuple[str, ...] = ()
        if self._is_cut:
            problems = ("The file ends within a packet, which was left out.",)
        elif self._stop <= 0:
            problems = ("The file was not closed by its recorder; its packets were read.",)
        events = None if counts is None else int(counts.sum())
        return RecordingInfo("aedat4", events, stream.width, stream.height, *limits, details, problems)

    @cached_property
    def _index(self) -> BlockIndex:
        return super()._index if self._compression else self._plain_index()

    @property
    def _packet_bytes(self) -> npt.NDArray[np.int64]:
        return self._packets[:, 1]

    def _plain_index(self) -> BlockIndex:
        first_us, counts, numbers = array("q"), array("q"), array("q")
        for number, (place, size) in enumerate(self._packets.tolist()):
            head = self._file.at(place, min(size, _PEEKED_BYTES))
            try:
                start, count = plain_events(head)
            except Damaged:
                raise self._damaged(place) from None
            if start + count * _EVENT.itemsize > size or (count and start + 8 > len(head)):
                raise self._damaged(place)
            if count:
                first_us.append(int.from_bytes(head[start : start + 8], "little", signed=True))
                counts.append(count)
                numbers.append(number)
        edges = np.array([*numbers, len(self._packets)], np.int64)
        return BlockIndex.of_first_times(np.array(first_us, np.int64), np.array(counts, np.int64), edges)

    @cached_property
    def _packets(self) -> npt.NDArray[np.int64]:
        """int64 [M, 2]: place and size of the packets of the stream."""
        return np.array(array("q", chain.from_iterable(self._walk())), np.int64).reshape(-1, 2)

    def _walk(self) -> Iterator[tuple[int, int]]:
        numbers = {stream.number for stream in self._streams}
        place = self._data
        stop = min(self._stop, self._file.size) if self._stop > 0 else self._file.size
        while place < stop:
            header = self._file.at(place, _PACKET_HEADER)
            number, size = int.from_bytes(header[:4], "little"), int.from_bytes(header[4:], "little")
            if len(header) < _PACKET_HEADER or place + _PACKET_HEADER + size > stop:
                # A killed recorder leaves a part of a packet; a wrong place of the table looks the same.
                self._is_cut = True
                return
            if number not in numbers:
                raise self._damaged(place)
            place += _PACKET_HEADER
            if number == self._stream.number:
                yield place, size
            place += size

    def _events(self, start: int, stop: int) -> EventArray:
        rows = [part for place, size in self._packets[start:stop].tolist() if len(part := self._rows(place, size))]
        if not rows:
            return NO_EVENTS
        x, y, t, p = (np.concatenate([part[name] for part in rows]) for name in ("x", "y", "t", "p"))
        check_sensor(x, y, self._stream.width, self._stream.height, self.path)
        if p.max() > 1 or abs(int(t.min())) >> 61 or abs(int(t.max())) >> 61:
            raise UserError(
                f"{self.path}: events have impossible times or polarities; the file is damaged, so copy or export it "
                "again."
            )
        return EventArray(x, y, t, p)

    def _rows(self, place: int, size: int) -> npt.NDArray[Any]:
        content = self._file.at(place, size)
        if self._compression:
            content = self._unpacked(place, content)
        try:
            start, count = plain_events(content)
            return np.frombuffer(content, _EVENT, count, start) if count else np.empty(0, _EVENT)
        except (Damaged, ValueError):
            raise self._damaged(place) from None

    def _unpacked(self, place: int, packet: bytes) -> bytes:
        unpacker = _unpacker(self._compression)
        try:
            # One byte more than the limit shows whether there is more.
            content: bytes = unpacker.decompress(packet, max_length=self._expansion.most(len(packet)) + 1)
        except Exception as error:  # noqa: BLE001 - each library has errors of its own
            raise self._damaged(place, f" ({reason(error)})") from None
        self._expansion.expect(len(packet), len(content))
        self._expansion.count(len(packet), len(content))
        if not unpacker.eof or unpacker.unused_data:
            raise self._damaged(place, " (it is not whole)")
        return content

    def _damaged(self, place: int, why: str = "") -> UserError:
        return UserError(f"{self.path}: the packet at byte {place:,} is damaged{why}; copy or export the file again.")


def _unpacker(compression: int) -> Any:
    if compression < _ZSTD:
        import lz4.frame

        return lz4.frame.LZ4FrameDecompressor()
    from backports import zstd

    return zstd.ZstdDecompressor()
