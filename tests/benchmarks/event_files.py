"""Writes the camera formats that no library writes, packed by their specifications, to measure readers on.

It knows no reader: an encoder that shared a decoder's mistake would hide it.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evprof.core.events import EventArray

AEDAT3_PACKET_EVENTS = 4096
"""Events of a packet, as libcaer sends them at most by default."""


def write_aedat2(path: Path, events: EventArray, *, chip: str = "eu.seebetter.ini.chips.davis.Davis346blue") -> None:
    """AEDAT 2.0 of a DAVIS346 (346x260; other DAVIS chips have the same layout but other sizes to mirror by).

    Times modulo 2^32 µs, as the format has them.
    """
    words = np.empty((len(events), 2), ">u4")
    words[:, 0] = (
        ((259 - events.y).astype(np.uint32) << np.uint32(22))
        | ((345 - events.x).astype(np.uint32) << np.uint32(12))
        | (events.p.astype(np.uint32) << np.uint32(11))
    )
    words[:, 1] = (events.t_us & 0xFFFF_FFFF).astype(np.uint32)
    header = f"#!AER-DAT2.0\r\n# AEChip: {chip}\r\n#End Of ASCII Header\r\n".encode()
    _write(path, header, words)


def write_aedat3(path: Path, events: EventArray, *, packet_events: int = AEDAT3_PACKET_EVENTS) -> None:
    """AEDAT 3.1 (RAW) with packets of `packet_events`; a packet also ends where the 31-bit clock turns over."""
    header = b"#!AER-DAT3.1\r\n#Format: RAW\r\n#Source 1: DAVIS346\r\n#!END-HEADER\r\n"
    words = np.empty((len(events), 2), "<u4")
    words[:, 0] = (
        (events.x.astype(np.uint32) << np.uint32(17))
        | (events.y.astype(np.uint32) << np.uint32(2))
        | (events.p.astype(np.uint32) << np.uint32(1))
        | np.uint32(1)
    )
    words[:, 1] = (events.t_us & 0x7FFF_FFFF).astype(np.uint32)
    turns = events.t_us >> 31
    edges = (np.flatnonzero(turns[1:] != turns[:-1]) + 1).tolist()
    limits = sorted({*range(0, len(events), packet_events), *edges, len(events)})
    with path.open("wb") as file:
        file.write(header)
        for start, stop in pairwise(limits):
            count = stop - start
            file.write(struct.pack("<hhiiiiii", 1, 1, 8, 4, int(turns[start]), count, count, count))
            file.write(words[start:stop].tobytes())


def write_ncaltech(path: Path, events: EventArray) -> None:
    """N-Caltech101's records of 5 bytes; x below 240, y below 180, times below 2^23 µs."""
    t_us = events.t_us
    rows = np.empty((len(events), 5), np.uint8)
    rows[:, 0], rows[:, 1] = events.x, events.y
    rows[:, 2] = (events.p << 7) | ((t_us >> 16) & 0x7F).astype(np.uint8)
    rows[:, 3], rows[:, 4] = (t_us >> 8) & 0xFF, t_us & 0xFF
    _write(path, b"", rows)


def write_evt21(path: Path, events: EventArray, *, width: int, height: int, is_legacy: bool = False) -> None:
    """EVT2.1, events of one time, row and polarity within 32 neighbours in a word; in time order, below 2^34 µs.

    `is_legacy` swaps the halves of each word, as IMX636 does.
    """
    cell = events.x >> 5
    columns = (events.t_us, events.y, events.p, cell)
    is_new = np.ones(len(events), bool)
    is_new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0) | (events.x[1:] <= events.x[:-1])
    first = np.flatnonzero(is_new)
    masks = np.add.reduceat(np.int64(1) << (events.x & 31).astype(np.int64), first)
    t_us, y, p = events.t_us[first], events.y[first].astype(np.int64), events.p[first].astype(np.int64)
    heads = p << 28 | (t_us & 63) << 22 | cell[first].astype(np.int64) << 16 | y
    highs = t_us >> 6
    has_high = np.ones(len(first), bool)
    has_high[1:] = highs[1:] != highs[:-1]
    halves = np.zeros((len(first) + int(has_high.sum()), 2), "<u4")
    places = np.arange(len(first)) + np.cumsum(has_high)
    one, other = (0, 1) if is_legacy else (1, 0)
    halves[places, one], halves[places, other] = heads, masks
    halves[places[has_high] - 1, one] = 0x8000_0000 | highs[has_high]
    order = "legacy" if is_legacy else "little"
    _write(path, f"% format EVT21;endianness={order};height={height};width={width}\n% end\n".encode(), halves)


def _write(path: Path, header: bytes, rows: npt.NDArray[np.generic]) -> None:
    with path.open("wb") as file:
        file.write(header)
        file.write(rows.tobytes())
