"""Reads AEDAT 3.1 captures: packets of a 28-byte header and events, all little-endian; pixels only.

Format: iniVation's AEDAT 3.1 description and libcaer. y = 0 is the top row there too.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterator
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.texts import one_line
from evprof.loaders.events.blocks import BlockIndex, PacketRecording
from evprof.loaders.events.recording import NO_EVENTS, RecordingInfo, check_sensor

MAGIC = b"#!AER-DAT3"

_HEADER_END = b"#!END-HEADER\r\n"
_LONGEST_HEADER = 1 << 16
_PACKET = struct.Struct("<Hhiiiiii")
_FIRST_TIME = struct.Struct("<i")
_POLARITY = 1
_COMPRESSED = 0x8000
_EVENT = 8
_MOST_OVERFLOWS = 1 << 29
_SIZES = {"128": (128, 128), "208": (208, 192), "240": (240, 180), "346": (346, 260), "640": (640, 480)}


class Aedat3(PacketRecording):
    """The headers of the packets give the index."""

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
        earliest, latest = self._limits_us
        events = int(self._packets[:, 2].sum())
        details: dict[str, str | int | float] = {"sensor": self._sensor} if self._sensor else {}
        problems = ("The file ends within a packet; what is there of it was read.",) if self._is_cut else ()
        return RecordingInfo("aedat3.1", events, self._width, self._height, earliest, latest, details, problems)

    @cached_property
    def _index(self) -> BlockIndex:
        return BlockIndex.of_first_times(
            self._packets[:, 4], self._packets[:, 2], np.arange(len(self._packets) + 1, dtype=np.int64)
        )

    @property
    def _packet_bytes(self) -> npt.NDArray[np.int64]:
        size: npt.NDArray[np.int64] = self._packets[:, 1] * _EVENT
        return size

    @cached_property
    def _packets(self) -> npt.NDArray[np.int64]:
        """int64 [M, 5]: place, events, valid events, turn-overs of the clock, first time; of the packets of events."""
        return np.array(array("q", chain.from_iterable(self._walk())), np.int64).reshape(-1, 5)

    def _walk(self) -> Iterator[tuple[int, int, int, int, int]]:
        """The packets of pixel events that hold any, from the file's start."""
        place = self._start
        while place < self._file.size:
            head = self._file.at(place, _PACKET.size + _EVENT)
            if len(head) < _PACKET.size:
                self._is_cut = True
                return
            kind, _, size, _, overflows, capacity, count, valid = _PACKET.unpack_from(head)
            if not (0 < size <= 1 << 28 and 0 <= valid <= count <= capacity and 0 <= overflows < _MOST_OVERFLOWS):
                raise UserError(f"{self.path}: the packet at byte {place:,} is damaged; copy or export the file again.")
            place += _PACKET.size
            end = place + capacity * size
            if kind & ~_COMPRESSED == _POLARITY:
                if kind & _COMPRESSED or size != _EVENT:
                    raise UserError(f"{self.path}: its events are compressed in a way not read here; export it as RAW.")
                if end > self._file.size:
                    count = min(count, (self._file.size - place) // _EVENT)
                    there = np.frombuffer(self._file.at(place, count * _EVENT), "<u4")
                    valid = int((there[::2] & 1).sum())
                if count:
                    first_us = _FIRST_TIME.unpack_from(head, _PACKET.size + 4)[0] + (overflows << 31)
                    yield place, count, valid, overflows, first_us
            self._is_cut = self._is_cut or end > self._file.size
            place = end

    def _events(self, start: int, stop: int) -> EventArray:
        packets = self._packets[start:stop]
        sizes, overflows = packets[:, 1], packets[:, 3]
        content = b"".join([self._file.at(place, size * _EVENT) for place, size, *_ in packets.tolist()])
        words = np.frombuffer(content, "<u4").reshape(-1, 2)
        if len(words) == 0:
            return NO_EVENTS
        flags = words[:, 0].copy()
        t_us = words[:, 1].view("<i4").astype(np.int64)
        if overflows.any():
            t_us += np.repeat(overflows << 31, sizes)
        valid = (flags & np.uint32(1)).astype(bool)
        if not valid.all():
            flags, t_us = flags[valid], t_us[valid]
        claimed = int(packets[:, 2].sum())
        if len(flags) != claimed:
            raise UserError(
                f"{self.path}: packets from byte {packets[0, 0]:,} on should hold {claimed:,} events but hold "
                f"{len(flags):,}; the file is damaged, so copy or export it again."
            )
        x = (flags >> np.uint32(17)).astype(np.uint16)
        y = ((flags >> np.uint32(2)) & np.uint32(0x7FFF)).astype(np.uint16)
        p = ((flags >> np.uint32(1)) & np.uint32(1)).astype(np.uint8)
        if len(flags) == 0:
            return NO_EVENTS
        check_sensor(x, y, self._width, self._height, self.path)
        return EventArray(x, y, t_us, p)
