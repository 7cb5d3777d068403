"""Decodes EVT2, EVT2.1 and DAT, whose times are one counter that rolls over.

EVT2: 32-bit words. The type is in bits 28-31: 0 and 1 are events of that polarity, with 6 bits of time, 11 of x and 11
of y; 8 is TIME_HIGH, the upper 28 bits of a 34-bit time. Events before the first TIME_HIGH have no time and are left
out.

EVT2.1: 64-bit words. One half is as in EVT2, the other is a mask of 32 neighboring pixels. The halves of a
little-endian word are swapped in the variant that headers call `legacy`.

DAT: records of a 32-bit time in µs and an address. Version 2 has 14 bits of x and of y and the polarity in bit 28;
version 1 has 9 and 8 bits, and the polarity in bit 17.

A counter that falls by half of its range or more rolled over. A smaller fall is time that runs backwards, and is kept,
as in OpenEB.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from evprof.core.events import EventArray
from evprof.loaders.events.blocks import NO_TIMES
from evprof.loaders.events.recording import NO_EVENTS

TIME_HIGH = 8
_HIGH_BITS, _LOW_BITS, _DAT_BITS = 28, 6, 32

Words = npt.NDArray[Any]
State = TypeVar("State")


class Decoded(NamedTuple, Generic[State]):
    """The events of a block, the state after it, and the number of events left out without a time or an address."""

    events: EventArray
    state: State
    dropped: int


class WordDecoder(ABC, Generic[State]):
    """Decodes blocks of words. A state is immutable. `offset_us` is added to every time."""

    name: ClassVar[str]
    word: ClassVar[np.dtype[Any]]
    start: State

    def __init__(self, offset_us: int = 0) -> None:
        self._offset_us = offset_us

    @abstractmethod
    def decode(self, words: Words, state: State) -> Decoded[State]:
        """The events of a block."""

    def scan(self, words: Words, state: State) -> tuple[int, int, State]:
        """Bounds of the times of a block (see `NO_TIMES`), and the state after it."""
        events, after, _ = self.decode(words, state)
        return (int(events.t_us.min()), int(events.t_us.max()), after) if len(events) else (*NO_TIMES, after)


class Counter(NamedTuple):
    """The last value of a counter (None: none yet), and the number of roll-overs before it."""

    value: int | None = None
    loops: int = 0

    def total(self, bits: int) -> int | None:
        return None if self.value is None else (self.loops << bits) + self.value


def unwrapped(values: npt.NDArray[Any], state: Counter, bits: int) -> tuple[npt.NDArray[np.int64], Counter]:
    """One or more values of a counter of `bits` bits, with the roll-overs added."""
    raw = values.astype(np.int64)
    falls = -np.diff(raw, prepend=raw[0] if state.value is None else state.value)
    loops = np.cumsum(falls >= 1 << (bits - 1)) + state.loops
    return raw + (loops << bits), Counter(int(raw[-1]), int(loops[-1]))


def _base_times(
    highs: Words, firsts: npt.NDArray[np.int64], count: int, state: Counter
) -> tuple[npt.NDArray[np.int64], int, Counter]:
    """The upper part of the time of `count` events in µs, how many at the start have none, and the state after.

    `firsts`: for each TIME_HIGH of `highs`, the number of the first event that it applies to.
    """
    before = state.total(_HIGH_BITS)
    times = np.empty(0, np.int64)
    if len(highs):
        times, state = unwrapped(highs, state, _HIGH_BITS)
    if before is None:
        dropped = int(firsts[0]) if len(firsts) else count
    else:
        dropped, times, firsts = 0, np.concatenate(([before], times)), np.concatenate(([0], firsts))
    lengths = np.diff(firsts, append=count) if len(firsts) else firsts
    return np.repeat(times << _LOW_BITS, lengths), dropped, state


class _HighTimes(WordDecoder[Counter]):
    start = Counter()

    @abstractmethod
    def _heads(self, words: Words) -> Words:
        """uint32: the words, or the halves of them that are as in EVT2."""

    def scan(self, words: Words, state: Counter) -> tuple[int, int, Counter]:
        heads = self._heads(words)
        before = state.total(_HIGH_BITS)
        highs = heads[(heads >> 28) == TIME_HIGH] & 0x0FFF_FFFF
        times = np.empty(0, np.int64)
        if len(highs):
            times, state = unwrapped(highs, state, _HIGH_BITS)
        if before is not None:
            times = np.append(times, before)
        if not len(times):
            return *NO_TIMES, state
        low, high = int(times.min()) << _LOW_BITS, (int(times.max()) << _LOW_BITS) + 63
        return low + self._offset_us, high + self._offset_us, state


class Evt2(_HighTimes):
    name, word = "evt2", np.dtype("<u4")

    def _heads(self, words: Words) -> Words:
        return words

    def decode(self, words: Words, state: Counter) -> Decoded[Counter]:
        at = np.flatnonzero((words >> 28) == TIME_HIGH)
        is_event = words < 0x2000_0000
        events = words[is_event]
        if len(events) + len(at) == len(words):
            firsts = at - np.arange(len(at))
        else:
            firsts = np.searchsorted(np.flatnonzero(is_event), at)
        base, dropped, state = _base_times(words[at] & 0x0FFF_FFFF, firsts, len(events), state)
        events = events[dropped:]
        x, y = ((events >> 11) & 0x7FF).astype(np.uint16), (events & 0x7FF).astype(np.uint16)
        t_us, p = base + ((events >> 22) & 63) + self._offset_us, (events >> 28).astype(np.uint8)
        return Decoded(EventArray(x, y, t_us, p), state, dropped)


class Evt21(_HighTimes):
    """`is_legacy`: the half as in EVT2 comes first."""

    name, word = "evt2.1", np.dtype("<u8")

    def __init__(self, offset_us: int = 0, *, is_legacy: bool = False) -> None:
        super().__init__(offset_us)
        self._half = 0 if is_legacy else 1

    def _heads(self, words: Words) -> Words:
        return np.ascontiguousarray(words.view("<u4").reshape(-1, 2)[:, self._half])

    def decode(self, words: Words, state: Counter) -> Decoded[Counter]:
        head, mask = self._heads(words), words.view("<u4").reshape(-1, 2)[:, 1 - self._half]
        at = np.flatnonzero((head >> 28) == TIME_HIGH)
        is_event = head < 0x2000_0000
        vectors, masks = head[is_event], mask[is_event]
        firsts = np.searchsorted(np.flatnonzero(is_event), at)
        base, lost, state = _base_times(head[at] & 0x0FFF_FFFF, firsts, len(vectors), state)
        dropped = int(np.bitwise_count(masks[:lost]).sum(dtype=np.int64))
        vectors, masks = vectors[lost:], masks[lost:]
        dropped += keep_columns(masks, ((vectors >> 11) & 0x7FF).astype(np.int64), 32)
        # The pixels of a half mask stand one after the other in a table; see EVT3, whose masks are shorter.
        pixels, pixels_at = mask_table(16)
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
        t_us = np.repeat(base + ((vectors >> 22) & 63) + self._offset_us, counts)
        p = np.repeat((vectors >> 28).astype(np.uint8), counts)
        return Decoded(EventArray(x, y, t_us, p), state, dropped)


class Dat(WordDecoder[Counter]):
    name, word = "dat", np.dtype("<u8")
    start = Counter()

    def __init__(self, offset_us: int = 0, *, version: int = 2) -> None:
        super().__init__(offset_us)
        self._layout = {1: (0x1FF, 9, 0xFF, 17), 2: (0x3FFF, 14, 0x3FFF, 28)}[version]

    def decode(self, words: Words, state: Counter) -> Decoded[Counter]:
        halves = words.view("<u4").reshape(-1, 2)
        if not len(halves):
            return Decoded(NO_EVENTS, state, 0)
        t_us, state = unwrapped(halves[:, 0], state, _DAT_BITS)
        x_mask, y_shift, y_mask, p_shift = self._layout
        address = np.ascontiguousarray(halves[:, 1])
        x, y = (address & x_mask).astype(np.uint16), ((address >> y_shift) & y_mask).astype(np.uint16)
        p = ((address >> p_shift) & 1).astype(np.uint8)
        return Decoded(EventArray(x, y, t_us + self._offset_us, p), state, 0)


@lru_cache(2)
def mask_table(bits: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The set bits of every number of `bits` bits, one after the other, and where those of each number begin."""
    numbers = np.arange(1 << bits, dtype="<u2")
    counts = np.bitwise_count(numbers)
    found = np.flatnonzero(np.unpackbits(numbers.view(np.uint8), bitorder="little")) & 15
    return found.astype(np.uint8), np.cumsum(counts, dtype=np.int64) - counts


def keep_columns(masks: Words, columns: Words, size: int) -> int:
    """Removes pixels beyond column 2047 from `masks` of `size` bits that begin at `columns`; how many."""
    if not len(masks) or int(columns.max()) <= 2048 - size:
        return 0
    allowed = ((np.int64(1) << np.clip(2048 - columns, 0, size)) - 1).astype(masks.dtype)
    lost = int(np.bitwise_count(masks & ~allowed).sum(dtype=np.int64))
    masks &= allowed
    return lost


_KNOWN_TYPES = np.isin(np.arange(16), (0, 1, 8, 10, 14, 15))


def looks_legacy(words: Words) -> bool:
    """Whether the first half of each word rather holds a known type, with times among them."""
    halves = words.view("<u4").reshape(-1, 2)

    def score(half: int) -> tuple[float, float, float]:
        kinds = halves[:, half] >> 28
        highs = (halves[:, half][kinds == TIME_HIGH] & 0x0FFF_FFFF).astype(np.int64)
        forward = float((np.diff(highs) >= 0).mean()) if len(highs) > 1 else 0.0
        return float(_KNOWN_TYPES[kinds].mean()), forward, len(highs) / len(kinds)

    return len(halves) > 0 and score(0) > score(1)
