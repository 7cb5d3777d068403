"""EVT2 and EVT2.1.

EVT2: 32-bit words, an event each, with the upper 28 bits of a 34-bit time in words of their own.

Word: type in bits 28-31 (0 and 1 are events of that polarity, 8 is TIME_HIGH), then for events 6 bits of time, 11 of x
and 11 of y. A TIME_HIGH that falls by half of its range or more is a roll-over (each 4.77 h); a smaller fall is time
running backwards and kept, as OpenEB's decoder keeps it. Events before the first TIME_HIGH have no time: left out.

EVT2.1: 64-bit words; one half is as in EVT2, the other says which of 32 neighbouring pixels had the event. Sensors
write the word either as a little-endian number, whose upper half is the one of EVT2, or with the halves swapped, which
headers call `legacy`. Where the header does not say, the first words decide.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.core.events import EventArray
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

    def decode(self, words: Words, state: HighTime) -> Decoded[HighTime]:
        at = np.flatnonzero((words >> 28) == TIME_HIGH)
        is_event = words < 0x2000_0000
        events = words[is_event]
        if len(events) + len(at) == len(words):
            firsts = at - np.arange(len(at))
        else:
            firsts = np.searchsorted(np.flatnonzero(is_event), at)
        base, dropped, state = base_times(words[at] & 0x0FFF_FFFF, firsts, len(events), state, self._offset_us)
        events = events[dropped:]
        x, y = ((events >> 11) & 0x7FF).astype(np.uint16), (events & 0x7FF).astype(np.uint16)
        t_us, p = base + ((events >> 22) & 63), (events >> 28).astype(np.uint8)
        return Decoded(EventArray(x, y, t_us, p), state, dropped)

    def scan(self, words: Words, state: HighTime) -> tuple[BlockScan, HighTime]:
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


_KNOWN_TYPES = np.isin(np.arange(16), (0, 1, 8, 10, 14, 15))


class Evt21:
    """The decoder, of words as pairs of halves; `is_legacy`: the half as in EVT2 comes first."""

    name = "evt2.1"
    word = np.dtype("<u8")
    start = HighTime()

    def __init__(self, is_legacy: bool, offset_us: int = 0) -> None:
        self._half = 0 if is_legacy else 1
        self._offset_us = offset_us

    def decode(self, words: Words, state: HighTime) -> Decoded[HighTime]:
        head, mask = self._halves(words)
        at = np.flatnonzero((head >> 28) == TIME_HIGH)
        is_event = head < 0x2000_0000
        vectors, masks = head[is_event], mask[is_event]
        firsts = np.searchsorted(np.flatnonzero(is_event), at)
        base, lost, state = base_times(head[at] & 0x0FFF_FFFF, firsts, len(vectors), state, self._offset_us)
        dropped = int(np.bitwise_count(masks[:lost]).sum(dtype=np.int64))
        vectors, masks = vectors[lost:], masks[lost:]
        if len(vectors) and int(((vectors >> 11) & 0x7FF).max()) > 0x7FF - 31:
            dropped += _cut(vectors, masks)
        # The pixels of a half mask stand one after the other in a table; see EVT3, whose masks are shorter.
        pixels, pixels_at = _half_masks()
        halves = masks.view("<u2")
        of_halves = np.bitwise_count(halves)
        before = np.cumsum(of_halves, dtype=np.int64)
        counts = of_halves[::2] + of_halves[1::2]
        place = np.repeat(pixels_at[halves] - before + of_halves, of_halves)
        place += np.arange(len(place))
        columns_of = np.repeat(((vectors >> 11) & 0x7FF).astype(np.uint16), 2)
        columns_of[1::2] += 16
        x = np.repeat(columns_of, of_halves) + pixels.take(place)
        y = np.repeat((vectors & 0x7FF).astype(np.uint16), counts)
        t_us = np.repeat(base + ((vectors >> 22) & 63), counts)
        p = np.repeat((vectors >> 28).astype(np.uint8), counts)
        return Decoded(EventArray(x, y, t_us, p), state, dropped)

    def scan(self, words: Words, state: HighTime) -> tuple[BlockScan, HighTime]:
        head, _ = self._halves(words)
        is_high = (head >> 28) == TIME_HIGH
        return scan_highs(head[is_high] & 0x0FFF_FFFF, state, self._offset_us)

    def _halves(self, words: Words) -> tuple[Words, Words]:
        halves = words.view("<u4").reshape(-1, 2)
        return np.ascontiguousarray(halves[:, self._half]), np.ascontiguousarray(halves[:, 1 - self._half])


@lru_cache(1)
def _half_masks() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The set bits of every number of 16 bits, one after the other, and where each number's begin."""
    numbers = np.arange(1 << 16, dtype=np.uint16)
    counts = np.bitwise_count(numbers)
    bits = np.flatnonzero(np.unpackbits(numbers.astype("<u2").view(np.uint8), bitorder="little")) & 15
    return bits.astype(np.uint8), np.cumsum(counts, dtype=np.int64) - counts


def _cut(vectors: Words, masks: Words) -> int:
    """Takes pixels beyond the 2048 there can be out of `masks`; how many."""
    room = 2048 - ((vectors >> 11) & 0x7FF).astype(np.int64)
    allowed = ((np.int64(1) << np.minimum(room, 32)) - 1).astype(np.uint32)
    lost = int(np.bitwise_count(masks & ~allowed).sum(dtype=np.int64))
    masks &= allowed
    return lost


def looks_legacy(words: Words) -> bool:
    """Whether the first of each word's halves rather holds a type that exists, with times among them."""
    halves = words.view("<u4").reshape(-1, 2)

    def score(half: int) -> tuple[float, float, float]:
        kinds = halves[:, half] >> 28
        highs = (halves[:, half][kinds == TIME_HIGH] & 0x0FFF_FFFF).astype(np.int64)
        forward = float((np.diff(highs) >= 0).mean()) if len(highs) > 1 else 0.0
        return float(_KNOWN_TYPES[kinds].mean()), forward, len(highs) / len(kinds)

    return len(halves) > 0 and score(0) > score(1)
