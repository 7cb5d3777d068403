"""Recordings whose files are runs of records: an index of the times of blocks, and windows read through it.

This module knows no format. A block is what a format decodes at once: a piece of a table, packets, or a run of words.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import isqrt
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from evprof.core.events import EventArray
from evprof.loaders.events.recording import FileRecording, joined

_EVER = 2**62
_GROUP_EVENTS = 1 << 17
"""Events decoded at once: intermediate arrays stay in the cache of the processor."""

_BATCH_BYTES_LOG2 = 20

Ints = npt.NDArray[np.int64]
State = TypeVar("State")


@dataclass(frozen=True)
class BlockIndex:
    """Bounds of the times of each block, in µs.

    `lows`, `highs`: int64 [M]; no event of a block lies outside, and lows > highs in a block without events. `counts`:
    int64 [M], or None where only decoding gives the number of events. `edges`: int64 [M + 1], the first packet of each
    block and the end of the last, in formats of packets.
    """

    lows: Ints
    highs: Ints
    counts: Ints | None = None
    edges: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of_first_times(cls, first_us: Ints, counts: Ints | None = None, edges: Ints | None = None) -> BlockIndex:
        """From the time of the first event of each block.

        Neighboring events are sometimes slightly out of order, so a block can reach into its neighbors. If whole blocks
        are out of order, nothing bounds their times.
        """
        ever = np.full(2, _EVER)
        if (first_us[1:] < first_us[:-1]).any():
            lows, highs = np.full(len(first_us), -_EVER), np.full(len(first_us), _EVER)
        else:
            lows, highs = np.concatenate((-ever[:1], first_us[:-1])), np.concatenate((first_us[2:], ever))
        return cls(
            lows[: len(first_us)], highs[: len(first_us)], counts, np.empty(0, np.int64) if edges is None else edges
        )

    def __len__(self) -> int:
        return len(self.lows)

    @property
    def is_bounded(self) -> bool:
        """Whether blocks are in order of time, or have exact bounds."""
        return len(self) < 2 or bool((self.lows > -_EVER).any())

    def within(self, start_us: int, stop_us: int) -> list[int]:
        """The blocks that can hold events of start_us <= t < stop_us."""
        if stop_us <= start_us:
            return []
        start, stop = np.clip([start_us, stop_us], -_EVER, _EVER)
        found: list[int] = np.flatnonzero(
            (self.lows < stop) & (self.highs >= start) & (self.lows <= self.highs)
        ).tolist()
        return found


class BlockRecording(FileRecording):
    """A recording that decodes any run of its blocks."""

    @property
    @abstractmethod
    def _index(self) -> BlockIndex:
        """The index, built on first use."""

    @abstractmethod
    def _decoded(self, start: int, stop: int) -> EventArray:
        """The events of blocks start…stop-1 in file order; may be empty."""

    def chunks(self) -> Iterator[EventArray]:
        return self._grouped(range(len(self._index)))

    def read_time(self, start_us: int, stop_us: int) -> EventArray:
        inside = self._index.within(start_us, stop_us)
        return joined(self._bounded(chunk.slice_time(start_us, stop_us) for chunk in self._grouped(inside)))

    @cached_property
    def _limits_us(self) -> tuple[int | None, int | None]:
        """Earliest and latest time, from the blocks whose bounds allow them; None without events or bounds."""
        index = self._index
        low: int | None = None
        high: int | None = None
        if not index.is_bounded:
            return None, None
        for number in np.argsort(index.lows, kind="stable").tolist():
            if low is not None and index.lows[number] >= low:
                break
            if len(events := self._some_of(number)):
                low = min(int(events.t_us.min()), _EVER if low is None else low)
        for number in np.argsort(index.highs, kind="stable")[::-1].tolist():
            if high is not None and index.highs[number] <= high:
                break
            if len(events := self._some_of(number)):
                high = max(int(events.t_us.max()), -_EVER if high is None else high)
        return low, high

    def _some_of(self, number: int) -> EventArray:
        return self._decoded(number, number + 1)

    def _grouped(self, numbers: Iterable[int]) -> Iterator[EventArray]:
        """The events of these blocks in chunks of about _GROUP_EVENTS."""
        counts = self._index.counts
        first = after = gathered = 0
        for number in numbers:
            if gathered >= _GROUP_EVENTS or number != after:
                if gathered and len(events := self._decoded(first, after)):
                    yield events
                first, gathered = number, 0
            gathered += _GROUP_EVENTS if counts is None else int(counts[number])
            after = number + 1
        if gathered and len(events := self._decoded(first, after)):
            yield events


class Scan(NamedTuple, Generic[State]):
    """Bounds of the times of a block (low_us > high_us: no events), the next block, and its state."""

    low_us: int
    high_us: int
    place: int
    state: State


NO_TIMES = _EVER, -_EVER
"""The bounds of a block without events."""


class StatefulRecording(BlockRecording, Generic[State]):
    """A recording in which decoding a block needs the state that the block before leaves.

    `_starts` holds the place and the state of each block known so far. `_end` is the end of the last whole record.
    """

    _starts: list[tuple[int, State]]
    _end: int

    @abstractmethod
    def _block(self, place: int, state: State) -> tuple[EventArray, int, State]:
        """The events of the block at `place`, where the next one begins, and the state there."""

    def _scan(self, place: int, state: State) -> Scan[State]:
        """What the index needs of a block. Formats override this if a scan is faster than decoding."""
        events, after, left = self._block(place, state)
        bounds = (int(events.t_us.min()), int(events.t_us.max())) if len(events) else NO_TIMES
        return Scan(*bounds, after, left)

    def _begin_at(self, place: int, state: State, end: int) -> None:
        self._starts, self._end = [(place, state)] if place < end else [], end

    def chunks(self) -> Iterator[EventArray]:
        number = 0
        while number < len(self._starts):
            events = self._decoded(number, number + 1)
            if len(events):
                yield events
            number += 1

    @cached_property
    def _index(self) -> BlockIndex:
        bounds: list[tuple[int, int]] = []
        while len(bounds) < len(self._starts):
            found = self._scan(*self._starts[len(bounds)])
            bounds.append(found[:2])
            self._note(len(bounds), found.place, found.state)
        columns = np.array(bounds, np.int64).reshape(-1, 2)
        return BlockIndex(columns[:, 0], columns[:, 1])

    def _decoded(self, start: int, stop: int) -> EventArray:
        parts: list[EventArray] = []
        for number in range(start, stop):
            events, place, state = self._block(*self._starts[number])
            self._note(number + 1, place, state)
            parts.append(events)
        return joined(parts)

    def _note(self, number: int, place: int, state: State) -> None:
        """Keeps the start of a block; a block that does not advance is the last one."""
        if number == len(self._starts) and self._starts[-1][0] < place < self._end:
            self._starts.append((place, state))


class PacketRecording(BlockRecording):
    """A recording of packets. Blocks are groups of packets, because only decoding gives the times of a packet."""

    @property
    @abstractmethod
    def _packet_bytes(self) -> Ints:
        """int64 [N]: the size of each packet."""

    @abstractmethod
    def _events(self, start: int, stop: int) -> EventArray:
        """The events of packets start…stop-1; may be empty."""

    @cached_property
    def _index(self) -> BlockIndex:
        return sampled(len(self._packet_bytes), self._first_us)

    def _first_us(self, number: int) -> int | None:
        events = self._events(number, number + 1)
        return int(events.t_us[0]) if len(events) else None

    def chunks(self) -> Iterator[EventArray]:
        return self._batches(0, len(self._packet_bytes))

    def _decoded(self, start: int, stop: int) -> EventArray:
        edges = self._index.edges
        return joined(self._bounded(self._batches(int(edges[start]), int(edges[stop]))))

    def _batches(self, start: int, stop: int) -> Iterator[EventArray]:
        """The events of packets, about a MiB of packets at a time."""
        marks = np.cumsum(self._packet_bytes[start:stop]) >> _BATCH_BYTES_LOG2
        cuts = (np.flatnonzero(np.diff(marks)) + start + 1).tolist()
        for first, after in pairwise([start, *cuts, stop]):
            if after > first and len(events := self._events(first, after)):
                yield events


def sampled(count: int, first_us: Callable[[int], int | None]) -> BlockIndex:
    """An index of `count` packets whose times only decoding gives. It decodes every n-th packet.

    The blocks are groups of consecutive packets. Building the index costs about as much as the two edges of a window.
    """
    starts = np.arange(0, count, max(1, count // max(1, 2 * isqrt(count))), dtype=np.int64)
    firsts = [first_us(int(start)) for start in starts]
    if len(starts) < count and not any(first is not None for first in firsts):
        starts = np.arange(count, dtype=np.int64)
        firsts = [first_us(int(start)) for start in starts]
    # A group whose first packet holds no events belongs to the group before it.
    starts = starts[np.array([first is not None for first in firsts], bool)]
    starts[:1] = 0
    times = np.array([first for first in firsts if first is not None], np.int64)
    return BlockIndex.of_first_times(times, edges=np.append(starts, count))
