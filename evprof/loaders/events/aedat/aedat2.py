"""Reads AEDAT 2.0 captures as jAER writes them: DAVIS and DVS128 cameras, pixels only.

A text header, then big-endian records of a 32-bit address and a 32-bit time in µs. The cameras count columns from the
right and rows from the bottom, which jAER and libcaer turn round; so does this reader: y = 0 is the top row, as it is
everywhere. Layouts: jAER's DavisChip and DVS128, libcaer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.blocks import BlockIndex, BlockRecording
from evprof.loaders.events.recording import RecordingInfo, joined

_LONGEST_HEADER = 1 << 18
_HEADER_END = b"#End Of ASCII Header"
_RECORD = 8
_PIECE = 1 << 17
_HALF_TURN = 1 << 31


@dataclass(frozen=True)
class _Chip:
    """How a camera packs a pixel into 32 bits. `other` marks words that are no pixel; `is_inverted`: a set bit is 0."""

    name: str
    width: int
    height: int
    x: tuple[int, int]
    y: tuple[int, int]
    p: int
    other: int
    is_inverted: bool


_DAVIS_SIZES = {128: (128, 128), 208: (208, 192), 240: (240, 180), 346: (346, 260), 640: (640, 480)}


def _chip(family: str, number: int) -> _Chip | None:
    if family == "davis" and number in _DAVIS_SIZES:
        # Bit 31: picture or inertial samples; bit 10: what an external pin did.
        size = _DAVIS_SIZES[number]
        return _Chip(f"DAVIS{number}", *size, (12, 0x3FF), (22, 0x1FF), 11, 0x8000_0400, False)
    if family in ("dvs", "tmpdiff") and number == 128:
        return _Chip("DVS128", 128, 128, (1, 0x7F), (8, 0x7F), 0, 0xFFFF_8000, True)
    return None


class Aedat2(BlockRecording):
    """Blocks are runs of records. The index reads one time in 131,072."""

    def _begin(self) -> None:
        header = _header(self._file.at(0, _LONGEST_HEADER))
        self._chip = _chip_of(header, self.path)
        self._start = len(header)
        self._records, self._rest = divmod(self._file.size - self._start, _RECORD)

    @cached_property
    def info(self) -> RecordingInfo:
        """The number of events is left open: pictures and inertial samples lie between them."""
        chip = self._chip
        problems = ("The file ends within a record; that one was left out.",) if self._rest else ()
        return RecordingInfo("aedat2", None, chip.width, chip.height, *self._limits_us, {"sensor": chip.name}, problems)

    @cached_property
    def _first_us(self) -> npt.NDArray[np.int64]:
        """The time of the first record of each block."""
        places = range(self._start, self._start + self._records * _RECORD, _PIECE * _RECORD)
        return unwrapped(
            np.array([int.from_bytes(self._file.at(place + 4, 4), "big") for place in places], np.int64), 0
        )

    @cached_property
    def _index(self) -> BlockIndex:
        return BlockIndex.of_first_times(self._first_us)

    def _decoded(self, start: int, stop: int) -> EventArray:
        # The number of turn-overs of the 32-bit clock when each block begins.
        turns = self._first_us >> 32
        return joined(self._block(number, int(turns[number])) for number in range(start, stop))

    def _block(self, number: int, turns: int) -> EventArray:
        count = min(_PIECE, self._records - number * _PIECE)
        content = self._file.at(self._start + number * _PIECE * _RECORD, count * _RECORD)
        words = np.frombuffer(content, ">u4", len(content) // _RECORD * 2).reshape(-1, 2)
        address = words[:, 0].astype(np.uint32)
        t_us = unwrapped(words[:, 1].astype(np.int64), turns)
        chip = self._chip
        other = (address & np.uint32(chip.other)) != 0
        if other.any():
            address, t_us = address[~other], t_us[~other]
        x = self._flipped(address, chip.x, chip.width, "x")
        y = self._flipped(address, chip.y, chip.height, "y")
        p = ((address >> np.uint32(chip.p)) & np.uint32(1)).astype(np.uint8)
        return EventArray(x, y, t_us, p ^ np.uint8(1) if chip.is_inverted else p)

    def _flipped(
        self, address: npt.NDArray[np.uint32], bits: tuple[int, int], size: int, name: str
    ) -> npt.NDArray[np.uint16]:
        shift, mask = bits
        place = ((address >> np.uint32(shift)) & np.uint32(mask)).astype(np.uint16)
        if mask >= size and len(place) and place.max() >= size:
            raise UserError(
                f"{self.path}: an event has {name} = {place.max()}, outside the {self._chip.width}x{self._chip.height} "
                f"pixels of the {self._chip.name} its header names; the file is damaged or of another camera."
            )
        return np.uint16(size - 1) - place


def unwrapped(raw: npt.NDArray[np.int64], turns: int) -> npt.NDArray[np.int64]:
    """Times of a 32-bit clock made continuous, after it has turned over `turns` times.

    A fall by more than half its range is a turn-over; a rise by as much undoes one, because events around a turn-over
    may be out of order, but not below none.
    """
    if len(raw) == 0 or raw.max() - raw.min() <= _HALF_TURN:
        return raw + (turns << 32)
    steps = np.diff(raw, prepend=raw[:1])
    walked = turns + np.cumsum((steps < -_HALF_TURN).astype(np.int64) - (steps > _HALF_TURN))
    epochs = walked - np.minimum(np.minimum.accumulate(walked), 0)
    return raw + (epochs << 32)


def _header(head: bytes) -> bytes:
    """The leading lines that begin with '#'. Events may begin with that byte too, but are no text."""
    end = 0
    while head.startswith(b"#", end):
        stop = head.find(b"\n", end)
        line = head[end : stop + 1]
        if stop < 0 or any(byte < 32 and byte not in b"\t\r\n" for byte in line):
            break
        end = stop + 1
        if line.startswith(_HEADER_END):
            break
    return head[:end]


def _chip_of(header: bytes, path: str) -> _Chip:
    text = header.decode("latin-1")
    named = re.search(r"AEChip:\s*([\w.$]+)", text)
    # Class names end in the chip's, as in eu.seebetter.ini.chips.davis.Davis346blue.
    where = named.group(1).rpartition(".")[2] if named else text
    for family, number in re.findall(r"(?i)(davis|dvs|tmpdiff)[a-z]{0,8}_?(\d{3})", where):
        chip = _chip(family.lower(), int(number))
        if chip is not None:
            return chip
    said = f"is of the chip {where[:60]}" if named else "does not say which chip it is of"
    sizes = ", ".join(f"DAVIS{number}" for number in _DAVIS_SIZES)
    raise UserError(
        f"{path}: {said}, whose addresses cannot be told apart; read are {sizes} and DVS128, so export it "
        "from jAER in another format."
    )
