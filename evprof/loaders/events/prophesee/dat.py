"""DAT: records of 8 bytes, a 32-bit time in µs and a word of column, row and polarity.

Version 2 has 14 bits of column and of row, then the polarity in bit 28; version 1 has 9 and 8 bits, then the polarity
in bit 17. The time rolls over each 71.6 minutes: it has when it falls by half of that or more; a smaller fall is time
running backwards and kept.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.prophesee.evt2 import HighTime, current, unwrapped
from evprof.loaders.events.prophesee.word_recording import (
    BLOCK_WORDS,
    LONGEST_HEADER,
    BlockScan,
    Decoded,
    PropheseeHeader,
    WordRecording,
    Words,
    read_header,
)
from evprof.loaders.events.recording import NO_EVENTS, EventRecording
from evprof.loaders.paths import first_bytes

TIME_BITS = 32
RECORD_BYTES = 8
CHANGES = (0x00, 0x0C)
"""Types of records that are changes of contrast."""

_LAYOUTS = {1: (0x1FF, 9, 0xFF, 17), 2: (0x3FFF, 14, 0x3FFF, 28)}


class Dat:
    """The decoder of one version; `offset_us` is added to every time."""

    name = "dat"
    word = np.dtype("<u8")
    start = HighTime()

    def __init__(self, version: int, offset_us: int = 0) -> None:
        self._layout = _LAYOUTS[version]
        self._offset_us = offset_us

    def decode(self, words: Words, state: HighTime) -> Decoded[HighTime]:
        halves = words.view("<u4").reshape(-1, 2)
        if not len(halves):
            return Decoded(NO_EVENTS, state, 0)
        t_us, state = unwrapped(halves[:, 0], state, TIME_BITS)
        x_mask, y_shift, y_mask, p_shift = self._layout
        address = np.ascontiguousarray(halves[:, 1])
        x, y = (address & x_mask).astype(np.uint16), ((address >> y_shift) & y_mask).astype(np.uint16)
        p = ((address >> p_shift) & 1).astype(np.uint8)
        return Decoded(EventArray(x, y, t_us + self._offset_us, p), state, 0)

    def scan(self, words: Words, state: HighTime) -> tuple[BlockScan, HighTime]:
        raw = words.view("<u4")[::2]
        if len(raw) == 0:
            return BlockScan(None, None, False), state
        before = current(state, TIME_BITS)
        times, state = unwrapped(raw, state, TIME_BITS)
        is_backwards = bool((times[1:] < times[:-1]).any()) or (before is not None and times[0] < before)
        return BlockScan(int(times.min()) + self._offset_us, int(times.max()) + self._offset_us, is_backwards), state


def open_recording(path: str | Path, block_words: int = BLOCK_WORDS) -> EventRecording:
    header = read_header(first_bytes(path, LONGEST_HEADER))
    kind, size = _record(path, header)
    if size != RECORD_BYTES:
        raise UserError(
            f"{path}: its records are {size} bytes long, where DAT has {RECORD_BYTES}; the file is damaged."
        )
    if kind not in CHANGES:
        raise UserError(
            f"{path}: holds records of type 0x{kind:02X} (triggers are 0x0E), not pixel changes; give the CD file."
        )
    text = header.lines.get("version", "2")
    if text not in ("1", "1.0", "2", "2.0"):
        raise UserError(f"{path}: is DAT of version '{text[:20]}'; versions 1 and 2 are read.")
    return WordRecording(path, header, header.length + 2, Dat(int(text[0]), header.offset_us), block_words)


def _record(path: str | Path, header: PropheseeHeader) -> tuple[int, int]:
    """Type and size of a record, the two bytes after the header lines."""
    found = first_bytes(path, 2, header.length)
    if len(found) < 2:
        raise UserError(f"{path}: ends within its header; copy or record it again.")
    return found[0], found[1]
