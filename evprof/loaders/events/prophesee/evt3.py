"""EVT3: 16-bit words, each of which changes a state or makes events of it.

Type in bits 12-15, content below: 0 row; 2 event at a column (11 bits) with polarity (bit 11); 3 base column and
polarity of the vectors that follow; 4 and 5 vectors of 12 and 8 neighbouring pixels, lowest bit first, that move the
base on; 6 lower and 8 upper 12 bits of the time. Type 1 is a row of something else than contrast: its events are
skipped, and so are triggers (10), others (14) and their continuations (7, 15).

An upper part of the time that changes sets the lower to 0. One that falls by half of its range or more is a roll-over
(each 16.8 s); a smaller fall is time running backwards and kept, as OpenEB's decoder keeps it. Events before the first
upper part, the first row or (vectors) the first base are left out, and so are columns above 2047.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.core.events import EventArray
from evprof.loaders.events.blocks import NO_TIMES
from evprof.loaders.events.prophesee.evt2 import (
    Counter,
    Decoded,
    WordDecoder,
    Words,
    keep_columns,
    mask_table,
    unwrapped,
)
from evprof.loaders.events.recording import NO_EVENTS

_BITS = 12
"""Of the upper and of the lower part of a time."""

_NO_ROW = 0xFFFF
_FAR_COLUMN = 4096
_TAIL_WORDS = 1024

# By kind, 2 (one event), 3 (base of vectors), 4 and 5 (vectors): which pixels, and how far the base moves.
_MASK_AND = np.array([0, 0, 0xFFF, 0xFF], np.uint16)
_MASK_OR = np.array([1, 0, 0, 0], np.uint16)
_STEPS = np.array([0, 0, 12, 8], np.int32)

_Ints = npt.NDArray[np.int64]


class Evt3State(NamedTuple):
    """What the words before a block left: time, row (0xFFFF: none that counts), vectors' base column and polarity.

    Without a base `base` is _FAR_COLUMN: what lies there is left out.
    """

    time: Counter = Counter()
    low_us: int = 0
    row: int = _NO_ROW
    base: int = _FAR_COLUMN
    polarity: int = 0


class Evt3(WordDecoder[Evt3State]):
    name, word = "evt3", np.dtype("<u2")
    start = Evt3State()

    def decode(self, words: Words, state: Evt3State) -> Decoded[Evt3State]:
        first = _first_timed(words, state)
        words, skipped = words[first:], _count(words[:first])
        if len(words) == 0:
            return Decoded(NO_EVENTS, state, skipped)
        kinds = (words >> 12).astype(np.uint8)
        times_at, times, clock, low_us = _times(words, kinds, state)
        rows_at = np.flatnonzero(kinds < 2)
        rows = words[rows_at]
        rows = np.where(rows < 0x1000, rows & 0x7FF, _NO_ROW).astype(np.uint16)

        makes = (kinds - 2) < 4  # kinds 2 to 5; the others wrap around or lie above
        at = np.flatnonzero(makes)
        made_before = np.cumsum(makes, dtype=np.int32)
        rows_from, times_from = made_before[rows_at], made_before[times_at]
        made, content = kinds[at] - 2, words[at] & 0xFFF
        masks = (content & _MASK_AND[made]) | _MASK_OR[made]
        column, polarity, base = _columns(made, content, state)
        dropped = skipped + _leave_out_rows(masks, rows, rows_from, state) + keep_columns(masks, column, 12)

        counts = np.bitwise_count(masks)
        events_before = np.zeros(len(masks) + 1, np.int64)
        np.cumsum(counts, out=events_before[1:])
        count = int(events_before[-1])
        # The pixels of all masks lie one after the other in a table; an event's place is its number plus its word's.
        pixels, pixels_at = mask_table(12)
        place = np.repeat(pixels_at[masks] - events_before[:-1], counts)
        place += np.arange(count)
        x = np.repeat(column.astype(np.uint16), counts) + pixels.take(place)
        y = _in_force(rows, events_before[rows_from], count, state.row)
        t_us = _in_force(times, events_before[times_from], count, _now_us(state) or 0) + self._offset_us
        events = EventArray(x, y, t_us, np.repeat(polarity, counts))
        last_row = int(rows[-1]) if len(rows) else state.row
        return Decoded(events, Evt3State(clock, low_us, last_row, *base), dropped)

    def scan(self, words: Words, state: Evt3State) -> tuple[int, int, Evt3State]:
        words = words[_first_timed(words, state) :]
        if len(words) == 0:
            now = _now_us(state)
            return *(NO_TIMES if now is None else (now + self._offset_us,) * 2), state
        highs_at = np.flatnonzero((words & 0xF000) == 0x8000)
        highs, clock = np.empty(0, np.int64), state.time
        if len(highs_at):
            highs, clock = unwrapped(words[highs_at] & 0xFFF, state.time, _BITS)
        before = state.time.total(_BITS)
        if before is not None:
            highs_at, highs = np.append(-1, highs_at), np.append(before, highs)
        low, high = int(highs.min()) << _BITS, (int(highs.max()) << _BITS) + 4095
        changes_at = highs_at[1:][highs[1:] != highs[:-1]]
        changed = int(changes_at[-1]) if len(changes_at) else -1 if before is not None else 0
        return low + self._offset_us, high + self._offset_us, _left(words, state, clock, changed)


def _left(words: Words, state: Evt3State, clock: Counter, changed: int) -> Evt3State:
    """The state after words whose upper time last changed at word `changed` (-1: not)."""
    low_us = state.low_us if changed < 0 else 0
    if (last := _last(words, 0x6000)) is not None and last > changed:
        low_us = int(words[last]) & 0xFFF
    row = state.row
    if (last_row := _last(words, 0x0000, 0xE000)) is not None:
        row = _NO_ROW if words[last_row] & 0x1000 else int(words[last_row]) & 0x7FF
    base, polarity, first = state.base, state.polarity, 0
    if (last_base := _last(words, 0x3000)) is not None:
        base, polarity, first = int(words[last_base]) & 0x7FF, int(words[last_base]) >> 11 & 1, last_base
    moved = words[first:] & 0xF000
    base += 12 * int(np.count_nonzero(moved == 0x4000)) + 8 * int(np.count_nonzero(moved == 0x5000))
    return Evt3State(clock, low_us, row, min(base, _FAR_COLUMN), polarity)


def _now_us(state: Evt3State) -> int | None:
    high = state.time.total(_BITS)
    return None if high is None else (high << _BITS) + state.low_us


def _first_timed(words: Words, state: Evt3State) -> int:
    """The number of words at the start that have no time."""
    if state.time.value is not None:
        return 0
    is_high = (words >> 12) == 8
    return int(is_high.argmax()) if is_high.any() else len(words)


def _count(words: Words) -> int:
    kinds = (words >> 12).astype(np.uint8) - 2
    makes = kinds < 4
    kinds, content = kinds[makes], words[makes] & 0xFFF
    return int(np.bitwise_count((content & _MASK_AND[kinds]) | _MASK_OR[kinds]).sum(dtype=np.int64))


def _times(words: Words, kinds: Words, state: Evt3State) -> tuple[_Ints, _Ints, Counter, int]:
    """Where the time changes, to what in µs, and what the last words leave. There is a time before, or words[0] is."""
    at = np.flatnonzero((kinds == 6) | (kinds == 8))
    found = words[at]
    is_high = found >= 0x8000
    highs, clock = np.empty(0, np.int64), state.time
    before = state.time.total(_BITS)
    if is_high.any():
        highs, clock = unwrapped(found[is_high] & 0xFFF, state.time, _BITS)
    in_force = np.concatenate(([-1 if before is None else before], highs))
    is_repeated = in_force[1:] == in_force[:-1]
    times = in_force[np.cumsum(is_high)] << _BITS
    lows = (found & 0xFFF).astype(np.int64)
    lows[is_high] = 0
    times += lows
    if is_repeated.any():
        # Said again, as sensors do: nothing changes, and the lower part stays.
        changes = ~is_high
        changes[is_high] = ~is_repeated
        at, times = at[changes], times[changes]
    low_us = int(times[-1]) & 0xFFF if len(times) else state.low_us
    return at, times, clock, low_us


def _columns(made: Words, content: Words, state: Evt3State) -> tuple[Words, Words, tuple[int, int]]:
    """Column of each word's lowest pixel, its polarity, and the base (column, polarity) that the words leave."""
    moved = np.cumsum(_STEPS[made], dtype=np.int32)
    is_base = made == 1
    bases_at = np.flatnonzero(is_base)
    bases = content[bases_at]
    origins = (bases & 0x7FF) - moved[bases_at]
    firsts = np.concatenate(([0], bases_at))
    lengths = np.diff(firsts, append=len(made))
    column = np.repeat(np.concatenate(([state.base], origins)).astype(np.int32), lengths)
    column += moved
    column -= _STEPS[made]
    polarity = np.repeat(np.concatenate(([state.polarity], bases >> 11)).astype(np.uint8), lengths)
    after = int(origins[-1] if len(origins) else state.base) + (int(moved[-1]) if len(moved) else 0)
    base = min(after, _FAR_COLUMN), int(bases[-1] >> 11) if len(bases) else state.polarity
    single = made == 0
    np.copyto(column, content & 0x7FF, where=single)
    np.copyto(polarity, content >> 11, where=single, casting="unsafe")
    return column, polarity, base


def _in_force(values: npt.NDArray[Any], firsts: npt.NDArray[Any], count: int, before: int) -> npt.NDArray[Any]:
    """For each of `count` things the last of `values` before it; value i applies from thing firsts[i] on."""
    lengths = np.diff(np.concatenate(([0], firsts)), append=count)
    return np.repeat(np.concatenate((np.array([before], values.dtype), values)), lengths)


def _leave_out_rows(masks: Words, rows: Words, rows_from: Words, state: Evt3State) -> int:
    """Takes pixels of words without a row out of `masks`; how many."""
    if state.row != _NO_ROW and not (rows == _NO_ROW).any():
        return 0
    without = _in_force(rows, rows_from, len(masks), state.row) == _NO_ROW
    dropped = int(np.bitwise_count(masks[without]).sum(dtype=np.int64))
    masks[without] = 0
    return dropped


def _last(words: Words, kind: int, mask: int = 0xF000) -> int | None:
    """The last word of a kind (its bits in their place); looked for at the end first, where it mostly is."""
    for start in (max(0, len(words) - _TAIL_WORDS), 0):
        found = np.flatnonzero((words[start:] & mask) == kind)
        if len(found):
            return start + int(found[-1])
    return None
