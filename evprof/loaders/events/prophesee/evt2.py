"""EVT2: 32-bit words, an event each, with the upper 28 bits of a 34-bit time in words of their own.

Word: type in bits 28-31 (0 and 1 are events of that polarity, 8 is TIME_HIGH), then for events 6 bits of time, 11 of x
and 11 of y. A TIME_HIGH that falls by half of its range or more is a roll-over (each 4.77 h); a smaller fall is time
running backwards and kept, as OpenEB's decoder keeps it. Events before the first TIME_HIGH have no time: left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.loaders.events.prophesee.columns import GrowingColumns
from evprof.loaders.events.prophesee.word_recording import BlockScan, Decoded, Words

TIME_HIGH = 8
TIME_BITS = 28
LOW_BITS = 6


class HighTime(NamedTuple):
    """The last TIME_HIGH and the roll-overs before it; `high` None: none yet."""

    high: int | None = None
    loops: int = 0


def unwrapped(highs: npt.NDArray[Any], state: HighTime, bits: int) -> tuple[npt.NDArray[np.int64], HighTime]:
    """TIME_HIGH values of `bits` bits, in order, with the roll-overs added. Not for none."""
    raw = highs.astype(np.int64)
    falls = np.empty_like(raw)
    falls[0] = 0 if state.high is None else state.high - raw[0]
    np.subtract(raw[:-1], raw[1:], out=falls[1:])
    after = HighTime(int(raw[-1]), state.loops)
    if falls.max() >= 1 << (bits - 1):
        loops = np.cumsum(falls >= 1 << (bits - 1)) + state.loops
        after = HighTime(int(raw[-1]), int(loops[-1]))
        raw += loops << bits
    elif state.loops:
        raw += state.loops << bits
    return raw, after


def current(state: HighTime, bits: int) -> int | None:
    """The unwrapped TIME_HIGH in force, or None."""
    return None if state.high is None else (state.loops << bits) + state.high


def scan_highs(highs: npt.NDArray[Any], state: HighTime, offset_us: int) -> tuple[BlockScan, HighTime]:
    """Bounds of the times that go with these TIME_HIGH values and the one in force before them."""
    before = current(state, TIME_BITS)
    if len(highs) == 0:
        times = np.array([] if before is None else [before], np.int64)
    else:
        times, state = unwrapped(highs, state, TIME_BITS)
        if before is not None:
            times = np.concatenate(([before], times))
    if len(times) == 0:
        return BlockScan(None, None, False), state
    low, high = (int(times.min()) << LOW_BITS) + offset_us, (int(times.max()) << LOW_BITS) + 63 + offset_us
    return BlockScan(low, high, bool((times[1:] < times[:-1]).any())), state


class Evt2:
    """The decoder; `offset_us` is added to every time."""

    name = "evt2"
    word = np.dtype("<u4")
    start = HighTime()

    def __init__(self, offset_us: int = 0) -> None:
        self._offset_us = offset_us

    def decode(self, words: Words, state: HighTime, columns: GrowingColumns) -> Decoded[HighTime]:
        """See `WordDecoder`."""
        at = np.flatnonzero((words >> 28) == TIME_HIGH)
        is_event = words < 0x2000_0000
        events = words[is_event]
        if len(events) + len(at) == len(words):
            firsts = at - np.arange(len(at))
        else:
            firsts = np.searchsorted(np.flatnonzero(is_event), at)
        base, dropped, state = base_times(words[at] & 0x0FFF_FFFF, firsts, len(events), state, self._offset_us)
        events = events[dropped:]
        x, y, t_us, p = columns.next(len(events))
        np.add(base, (events >> 22) & 63, out=t_us, casting="unsafe")
        x[:] = (events >> 11) & 0x7FF
        y[:] = events & 0x7FF
        p[:] = events >> 28
        return Decoded(state, dropped)

    def count(self, words: Words) -> int:
        """See `WordDecoder`; words that are no events are few."""
        return len(words)

    def scan(self, words: Words, state: HighTime) -> tuple[BlockScan, HighTime]:
        """See `WordDecoder`."""
        is_high = (words >> 28) == TIME_HIGH
        return scan_highs(words[is_high] & 0x0FFF_FFFF, state, self._offset_us)


def base_times(
    highs: Words, firsts: npt.NDArray[np.int64], count: int, state: HighTime, offset_us: int
) -> tuple[npt.NDArray[np.int64], int, HighTime]:
    """Upper part of the time of `count` events in µs, without those at the start that have none; their number.

    `firsts`: for each of `highs`, the number of the first event that it applies to.
    """
    before = current(state, TIME_BITS)
    dropped = 0
    times = np.empty(0, np.int64)
    if len(highs):
        times, state = unwrapped(highs, state, TIME_BITS)
    if before is None:
        dropped = int(firsts[0]) if len(firsts) else count
    else:
        times = np.concatenate(([before], times))
        firsts = np.concatenate(([0], firsts))
    lengths = np.diff(firsts, append=count) if len(firsts) else firsts
    return np.repeat((times << LOW_BITS) + offset_us, lengths), dropped, state
