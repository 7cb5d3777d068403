"""Writes events as Prophesee RAW (EVT2, EVT3) and DAT, as a stream; it knows nothing of where the events come from.

Times are kept exactly. What a format cannot hold is refused: coordinates too large, times that are negative, that run
backwards, or that lie so far apart that a reader could not count the roll-overs between them. Headers and the order of
words are such that OpenEB and faery read the files: roll-overs are written as the largest upper time followed by 0.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.files.whole_file import whole_binary

_CHUNK_EVENTS = 1 << 17
_MOST_CLIMBED = 1 << 18
_SIZE_TEXT = 24

Words = npt.NDArray[Any]


class _Encoder(ABC):
    most_coordinate: ClassVar[int]
    title: ClassVar[str]

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def header(self, width: int, height: int) -> bytes:
        """As long whatever the size is."""

    @abstractmethod
    def encode(self, events: EventArray) -> Iterator[Words]:
        """Words of a chunk that was checked. Raises UserError."""

    def too_far(self, t_us: int) -> UserError:
        """For a time that cannot be reached from the one before."""
        return UserError(
            f"{self.name}: the time {t_us:,} µs lies too long after the one before it, or after 0, for {self.title}, "
            "whose clock rolls over; write .npy or HDF5 instead."
        )


def _write(
    path: Path, chunks: Iterable[EventArray], *, form: type[_Encoder], width: int | None, height: int | None
) -> int:
    """Writes events; returns how many. `width` and `height` None, or too small: as large as the events need.

    Raises OSError, and UserError for what the format cannot hold and for no events. Then what was at `path` stays.
    """
    encoder = form(str(path))
    count, columns, rows, last_us = 0, width or 1, height or 1, 0
    with whole_binary(path) as stream:
        stream.write(encoder.header(columns, rows))
        for chunk in chunks:
            for start in range(0, len(chunk), _CHUNK_EVENTS):
                events = chunk.slice_count(start, start + _CHUNK_EVENTS)
                last_us = _checked(events, encoder, last_us, count)
                for words in encoder.encode(events):
                    stream.write(words.data)
                columns, rows = max(columns, events.width), max(rows, events.height)
                count += len(events)
        if count == 0:
            raise UserError(f"{path}: there are no events to write; nothing was written.")
        stream.seek(0)
        stream.write(encoder.header(columns, rows))
    return count


def _checked(events: EventArray, encoder: _Encoder, last_us: int, count: int) -> int:
    """The last time. Raises UserError for what no such file can hold."""
    largest = max(int(events.x.max()), int(events.y.max()))
    if largest > encoder.most_coordinate:
        raise UserError(
            f"{encoder.name}: holds an event at pixel {largest:,}; {encoder.title} ends at {encoder.most_coordinate:,}."
        )
    t_us = events.t_us
    if int(t_us.min()) < 0:
        raise UserError(f"{encoder.name}: {encoder.title} holds no negative times ({int(t_us.min()):,} µs).")
    if t_us[0] < last_us or (t_us[1:] < t_us[:-1]).any():
        backwards = 0 if t_us[0] < last_us else int((t_us[1:] < t_us[:-1]).argmax()) + 1
        raise UserError(
            f"{encoder.name}: time runs backwards at event {count + backwards:,}, which {encoder.title} cannot say; "
            "sort the events by time first (--sort)."
        )
    return int(t_us[-1])


def _raw_header(version: str, form: str, width: int, height: int) -> bytes:
    # Spaces at a line's end leave room for the size to change, and mean nothing to readers.
    lines = (
        f"% evt {version}",
        f"% format {form};height={height};width={width}".ljust(len("% format EVT2") + _SIZE_TEXT),
        f"% geometry {width}x{height}".ljust(len("% geometry ") + _SIZE_TEXT // 2),
        "% integrator_name evprof",
        "% end",
    )
    return "".join(f"{line}\n" for line in lines).encode("ascii")


class _Evt2(_Encoder):
    """32-bit words, an event each; the upper time before the first event that needs it."""

    most_coordinate = 2047
    title = "EVT2"
    _bits = 28

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._high: int | None = None

    def header(self, width: int, height: int) -> bytes:
        return _raw_header("2.0", "EVT2", width, height)

    def encode(self, events: EventArray) -> Iterator[Words]:
        highs = events.t_us >> 6
        for start, stop in _without_roll_over(highs >> self._bits):
            yield self._climb(int(highs[start]))
            yield self._words(events.slice_count(start, stop), highs[start:stop])

    def _climb(self, high: int) -> Words:
        """Roll-overs up to that of `high`."""
        now = self._high or 0
        loops = (high >> self._bits) - (now >> self._bits)
        if loops > _MOST_CLIMBED:
            raise self.too_far(high << 6)
        if loops:
            self._high = high >> self._bits << self._bits
        return np.tile(np.array([0x8FFF_FFFF, 0x8000_0000], "<u4"), loops)

    def _words(self, events: EventArray, highs: npt.NDArray[np.int64]) -> Words:
        is_new = np.empty(len(highs), bool)
        is_new[0] = self._high is None or highs[0] != self._high
        np.not_equal(highs[1:], highs[:-1], out=is_new[1:])
        self._high = int(highs[-1])
        words = np.empty(len(highs) + int(is_new.sum()), "<u4")
        places = np.arange(len(highs)) + np.cumsum(is_new)
        words[places[is_new] - 1] = 0x8000_0000 | (highs[is_new] & 0x0FFF_FFFF)
        low = (events.t_us & 63).astype(np.uint32)
        words[places] = (
            events.p.astype(np.uint32) << 28 | low << 22 | events.x.astype(np.uint32) << 11 | events.y.astype(np.uint32)
        )
        return words


class _Evt3(_Encoder):
    """16-bit words: time and row, each only when it changes, and a column for each event."""

    most_coordinate = 2047
    title = "EVT3"
    _bits = 12

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._high: int | None = None
        self._t_us = -1
        self._row = -1

    def header(self, width: int, height: int) -> bytes:
        return _raw_header("3.0", "EVT3", width, height)

    def encode(self, events: EventArray) -> Iterator[Words]:
        highs = events.t_us >> 12
        # faery believes steps of the upper time only while they are well below its range.
        for start, stop in _without_roll_over(highs >> 11):
            yield self._climb(int(highs[start]))
            yield self._words(events.slice_count(start, stop))

    def _climb(self, high: int) -> Words:
        """Upper times that lead to the half range of `high`, two for each."""
        steps = []
        if self._high is None:
            self._high = 0
            steps = [0]
        first, last = self._high >> 11, high >> 11
        if last - first > 2 * _MOST_CLIMBED:
            raise self.too_far(high << 12)
        for half in range(first + 1, last + 1):
            steps += [(half << 11) - 1, half << 11]
        if last > first:
            self._high = last << 11
        return (0x8000 | np.array(steps, np.int64) & 0xFFF).astype("<u2")

    def _words(self, events: EventArray) -> Words:
        t_us, row = events.t_us, events.y.astype(np.int64)
        high = t_us >> 12
        # A climb has moved the upper time already, and has taken the lower to 0.
        has_high = high != np.concatenate(([self._high if self._high is not None else -1], high[:-1]))
        has_low = t_us != np.concatenate(([self._t_us], t_us[:-1]))
        has_row = row != np.concatenate(([self._row], row[:-1]))
        at = np.cumsum(has_high * 1 + has_low + has_row + 1) - 1
        words = np.empty(int(at[-1]) + 1, "<u2")
        words[at] = 0x2000 | events.p.astype(np.uint16) << 11 | events.x
        words[at[has_row] - 1] = row[has_row]
        at -= has_row
        words[at[has_low] - 1] = 0x6000 | (t_us[has_low] & 0xFFF)
        at -= has_low
        words[at[has_high] - 1] = 0x8000 | (high[has_high] & 0xFFF)
        self._high, self._t_us, self._row = int(high[-1]), int(t_us[-1]), int(row[-1])
        return words


class _Dat(_Encoder):
    most_coordinate = 16_383
    title = "DAT"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._last_us = 0

    def header(self, width: int, height: int) -> bytes:
        lines = ("% Data file containing CD events.", "% Version 2", f"% Height {height:<5}", f"% Width {width:<5}")
        return "".join(f"{line}\n" for line in lines).encode("ascii") + b"\x0c\x08"

    def encode(self, events: EventArray) -> Iterator[Words]:
        t_us = events.t_us
        times = np.concatenate(([self._last_us], t_us))
        loops, raw = np.diff(times >> 32), times & 0xFFFF_FFFF
        # Readers see a roll-over where the time falls by more than half of its range.
        is_lost = (loops > 1) | ((loops == 1) & (raw[:-1] - raw[1:] <= 1 << 31))
        if is_lost.any():
            raise self.too_far(int(t_us[is_lost.argmax()]))
        self._last_us = int(t_us[-1])
        words = np.empty((len(t_us), 2), "<u4")
        words[:, 0] = t_us & 0xFFFF_FFFF
        words[:, 1] = events.x.astype(np.uint32) | events.y.astype(np.uint32) << 14 | events.p.astype(np.uint32) << 28
        yield words


def _without_roll_over(loops: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of events in which `loops` stays the same."""
    borders = [0, *(np.flatnonzero(loops[1:] != loops[:-1]) + 1).tolist(), len(loops)]
    yield from itertools.pairwise(borders)


write_evt2, write_evt3, write_dat = (partial(_write, form=form) for form in (_Evt2, _Evt3, _Dat))
"""RAW in EVT2; in EVT3, an event a word, without vectors; DAT of version 2."""
