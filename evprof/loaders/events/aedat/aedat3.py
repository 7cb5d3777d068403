"""Reads AEDAT 3.1 captures: packets of a 28-byte header and events, all little-endian; pixels only.

Format: iniVation's AEDAT 3.1 description and libcaer. y = 0 is the top row there too.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.safe_text import one_line
from evprof.loaders.events.pieces import PiecedRecording, Pieces
from evprof.loaders.events.recording import NO_EVENTS, RecordingInfo, check_sensor

MAGIC = b"#!AER-DAT3"

_HEADER_END = b"#!END-HEADER\r\n"
_LONGEST_HEADER = 1 << 16
_PACKET = struct.Struct("<Hhiiiiii")
_FIRST_TIME = struct.Struct("<i")
_POLARITY = 1
_COMPRESSED = 0x8000
_EVENT = 8
_DECODED_AT_ONCE = 1 << 17
_WALKED_BYTES = 1 << 18
_RUN_BYTES = 4 << 20
_GAP_BYTES = 1 << 14
_MOST_OVERFLOWS = 1 << 29
_SIZES = {
    "128": (128, 128),
    "208": (208, 192),
    "240": (240, 180),
    "346": (346, 260),
    "640": (640, 480),
}


class _Packet(NamedTuple):
    """A packet of pixel events: where they begin, how many, how many of them are valid, and its clock's turn-overs."""

    place: int
    size: int
    valid: int
    overflows: int
    first_us: int
    content: bytes


class Aedat3(PiecedRecording):
    """Packets are the pieces; their headers are walked once when a window is first asked for."""

    def _begin(self) -> None:
        path = self.path
        head = self._file.at(0, _LONGEST_HEADER)
        end = head.find(_HEADER_END)
        text = head[: max(end, 0)].decode("latin-1")
        form = re.search(r"#Format:\s*(\S+)", text)
        if end < 0:
            raise UserError(f"{path}: its AEDAT 3 header has no end; copy or export the file again.")
        if not head.startswith(MAGIC + b".1"):
            raise UserError(
                f"{path}: is AEDAT {one_line(text[9:12])}; of this family 2.0, 3.1 and 4 are read, so export it."
            )
        if form and form.group(1).upper() not in ("RAW", "PNGFRAMES"):
            raise UserError(f"{path}: its events are stored as {form.group(1)[:40]}; only RAW is read, so export it.")
        self._start = end + len(_HEADER_END)
        source = re.search(r"#Source \d+:\s*([^\r\n]+)", text)
        self._sensor = source.group(1).strip()[:80] if source else None
        size = re.search(r"(?i)(?:davis|dvs)[a-z]{0,8}_?(\d{3})", self._sensor or "")
        sides: tuple[int | None, int | None] | None = _SIZES.get(size.group(1)) if size else None
        self._width, self._height = sides or (None, None)
        self._is_cut = False

    @cached_property
    def info(self) -> RecordingInfo:
        """Counts and times from the packets' headers and the file's ends."""
        earliest, latest = self._limits_us()
        events = int(self._packets[:, 2].sum())
        details: dict[str, str | int | float] = {"sensor": self._sensor} if self._sensor else {}
        problems = ("The file ends within a packet; what is there of it was read.",) if self._is_cut else ()
        return RecordingInfo("aedat3.1", events, self._width, self._height, earliest, latest, details, problems)

    def chunks(self) -> Iterator[EventArray]:
        """In one pass, 131,072 events or more at once."""
        gathered: list[_Packet] = []
        count = 0
        for packet in self._walk(with_content=True):
            gathered.append(packet)
            count += packet.size
            if count >= _DECODED_AT_ONCE:
                yield from self._events(gathered)
                gathered, count = [], 0
        yield from self._events(gathered)

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces(self._packets[:, 4], self._packets[:, 2])

    @cached_property
    def _packets(self) -> npt.NDArray[np.int64]:
        """The fields of all packets but their content, int64 [M, 5]."""
        fields = array("q")
        for packet in self._walk(with_content=False):
            fields.extend(packet[:-1])
        return np.array(fields, np.int64).reshape(-1, 5)

    def _decoded(self, start: int, stop: int) -> EventArray:
        """Reads neighbouring packets together, and not what large packets of another kind lie between."""
        found = [_Packet._make((*fields, b"")) for fields in self._packets[start:stop].tolist()]
        filled: list[_Packet] = []
        first = 0
        for number, packet in enumerate(found):
            end = packet.place + packet.size * _EVENT
            after = found[number + 1] if number + 1 < len(found) else None
            if after and after.place - end < _GAP_BYTES and end - found[first].place < _RUN_BYTES:
                continue
            begin = found[first].place
            run = self._file.at(begin, end - begin)
            for member in found[first : number + 1]:
                at = member.place - begin
                filled.append(member._replace(content=run[at : at + member.size * _EVENT]))
            first = number + 1
        return next(self._events(filled), NO_EVENTS)

    def _walk(self, *, with_content: bool) -> Iterator[_Packet]:
        """The packets of pixel events that hold any, from the file's start."""
        place, begin, block, step = self._start, 0, b"", 0
        while place < self._file.size:
            need = _PACKET.size + _EVENT
            if place + need > begin + len(block):
                # From one large packet to the next only headers are read, small packets come many at a time.
                begin, block = place, self._file.at(place, _WALKED_BYTES if with_content or step < _GAP_BYTES else need)
            if len(block) - (place - begin) < _PACKET.size:
                self._is_cut = True
                return
            kind, _, size, _, overflows, capacity, count, valid = _PACKET.unpack_from(block, place - begin)
            if not (0 < size <= 1 << 28 and 0 <= valid <= count <= capacity and 0 <= overflows < _MOST_OVERFLOWS):
                raise UserError(f"{self.path}: the packet at byte {place:,} is damaged; copy or export the file again.")
            place += _PACKET.size
            step = capacity * size
            end = place + step
            if kind & ~_COMPRESSED == _POLARITY:
                if kind & _COMPRESSED or size != _EVENT:
                    raise UserError(f"{self.path}: its events are compressed in a way not read here; export it as RAW.")
                if end > self._file.size:
                    self._is_cut = True
                    count = min(count, (self._file.size - place) // _EVENT)
                    there = np.frombuffer(self._file.at(place, count * _EVENT), "<u4")
                    valid = int((there[::2] & 1).sum())
                if count:
                    if with_content and place + count * _EVENT > begin + len(block):
                        begin, block = place, self._file.at(place, max(_WALKED_BYTES, count * _EVENT))
                    at = place - begin
                    first_us = _FIRST_TIME.unpack_from(block, at + 4)[0] + (overflows << 31)
                    content = block[at : at + count * _EVENT] if with_content else b""
                    yield _Packet(place, count, valid, overflows, first_us, content)
            self._is_cut = self._is_cut or end > self._file.size
            place = end

    def _events(self, packets: list[_Packet]) -> Iterator[EventArray]:
        """The packets' events as one array, if there are any."""
        words = np.frombuffer(b"".join([packet.content for packet in packets]), "<u4").reshape(-1, 2)
        if len(words) == 0:
            return
        flags = words[:, 0].copy()
        t_us = words[:, 1].view("<i4").astype(np.int64)
        if any(packet.overflows for packet in packets):
            overflows = np.array([packet.overflows for packet in packets], np.int64)
            t_us += np.repeat(overflows << 31, [packet.size for packet in packets])
        valid = (flags & np.uint32(1)).astype(bool)
        if not valid.all():
            flags, t_us = flags[valid], t_us[valid]
        claimed = sum(packet.valid for packet in packets)
        if len(flags) != claimed:
            raise UserError(
                f"{self.path}: packets from byte {packets[0].place:,} on should hold {claimed:,} events but hold "
                f"{len(flags):,}; the file is damaged, so copy or export it again."
            )
        x = (flags >> np.uint32(17)).astype(np.uint16)
        y = ((flags >> np.uint32(2)) & np.uint32(0x7FFF)).astype(np.uint16)
        p = ((flags >> np.uint32(1)) & np.uint32(1)).astype(np.uint8)
        if len(flags) == 0:
            return
        check_sensor(x, y, self._width, self._height, self.path)
        yield EventArray(x, y, t_us, p)
