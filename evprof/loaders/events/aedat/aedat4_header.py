"""The head of AEDAT4 files (a flatbuffer with the compression and an XML list of streams), and sizes of packed frames.

Every offset is checked, because libraries that trust them read beyond the file. Formats of frames:
"LZ4 Frame Format Description" and RFC 8878.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from xml.etree import ElementTree

_LZ4_MAGIC = 0x184D2204
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK = 1 << 17
_LZ4_RATIO = 255


class UnreadableFrame(Exception):  # noqa: N818 - turned into a sentence where the file's name is known
    """The frames are damaged or of a kind that recordings do not use."""


def most_lz4_bytes(content: bytes) -> int:
    """An upper bound of what these frames hold, one after the other. Raises UnreadableFrame."""
    most = place = 0
    while place < len(content):
        flags, sizes = content[place + 4 : place + 5], content[place + 5 : place + 6]
        if _u32(content, place) != _LZ4_MAGIC or not sizes or sizes[0] >> 4 & 7 < 4:
            raise UnreadableFrame
        block_most = 1 << (8 + 2 * (sizes[0] >> 4 & 7))
        place += 7 + (8 if flags[0] & 8 else 0) + (4 if flags[0] & 1 else 0)
        while size := _u32(content, place):
            # The highest bit says that a block is stored as it is.
            stored, size = size >> 31, size & 0x7FFF_FFFF
            most += size if stored else min(block_most, size * _LZ4_RATIO)
            place += 4 + size + (4 if flags[0] & 16 else 0)
        place += 4 + (4 if flags[0] & 4 else 0)
    if place > len(content):
        raise UnreadableFrame
    return most


def most_zstd_bytes(content: bytes) -> int:
    """As `most_lz4_bytes`."""
    most = place = 0
    while place < len(content):
        if _u32(content, place) != _ZSTD_MAGIC or place + 5 > len(content):
            raise UnreadableFrame
        flags = content[place + 4]
        is_single, size_code = flags >> 5 & 1, flags >> 6
        place += 5 + (0 if is_single else 1) + (0, 1, 2, 4)[flags & 3] + (is_single, 2, 4, 8)[size_code]
        is_last = False
        while not is_last:
            header = int.from_bytes(content[place : place + 3], "little")
            if place + 3 > len(content):
                raise UnreadableFrame
            is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            most += _ZSTD_BLOCK if kind == 2 else size
            place += 3 + (1 if kind == 1 else size)
        place += 4 if flags & 4 else 0
    if place > len(content):
        raise UnreadableFrame
    return most


def _u32(content: bytes, place: int) -> int:
    if place + 4 > len(content):
        raise UnreadableFrame
    return int.from_bytes(content[place : place + 4], "little")


MAGIC = b"#!AER-DAT4.0\r\n"

COMPRESSIONS = ("none", "lz4", "lz4 high", "zstd", "zstd high")
"""By the number that stands for them."""

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


def written_header(compression: int, width: int, height: int) -> bytes:
    """The head of a file with one stream, number 0, of events, and no table of packets."""
    text = (
        '<dv version="2.0"><node name="outInfo" path="/mainloop/Recorder/outInfo/">'
        '<node name="0" path="/mainloop/Recorder/outInfo/0/"><attr key="typeIdentifier" type="string">EVTS</attr>'
        '<node name="info" path="/mainloop/Recorder/outInfo/0/info/">'
        f'<attr key="sizeX" type="int">{width}</attr><attr key="sizeY" type="int">{height}</attr>'
        "</node></node></node></dv>"
    ).encode()
    # The table stands at 24 after its list of fields at 12, and the text at 44.
    fields = struct.pack("<I4sI6H", 24, b"IOHE", 0, 10, 20, 16, 8, 4, 0)
    table = struct.pack("<iIqiI", 12, 16, -1, compression, len(text))
    content = fields + table + text + bytes(4 - len(text) % 4)
    return MAGIC + struct.pack("<I", len(content)) + content


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
