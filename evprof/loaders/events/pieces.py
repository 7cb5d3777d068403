"""Recordings whose files are runs of records with known places: which runs a window needs, and how they are gathered.

It knows no format; a run of records is called a piece.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isqrt

import numpy as np
import numpy.typing as npt

from evprof.core.events import EventArray
from evprof.loaders.events.recording import CHUNK_EVENTS, FileRecording, joined


@dataclass(frozen=True)
class Pieces:
    """Where the events of each piece lie.

    `first_us` int64 [M]: the time of a piece's first event. `counts` int64 [M]: its events, or None where only decoding
    tells. `edges` int64 [M + 1]: the packet that each begins with and the end of the last, where pieces are made of
    packets.
    """

    first_us: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64] | None
    edges: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.first_us)

    @property
    def is_sorted(self) -> bool:
        """Whether no piece begins before the one ahead of it."""
        return bool((self.first_us[1:] >= self.first_us[:-1]).all())

    def in_time(self, start_us: int, stop_us: int) -> range:
        """The pieces that may hold events of start_us <= t < stop_us.

        One piece more on either side: neighbouring events are sometimes out of order by a little. Where whole pieces
        are out of order, all of them.
        """
        if not self.is_sorted:
            return range(len(self))
        limits = np.clip([start_us, stop_us], -(2**62), 2**62)
        first, last = np.searchsorted(self.first_us, limits, side="left")
        return range(max(0, int(first) - 2), min(len(self), int(last) + 1)) if stop_us > start_us else range(0)


class PiecedRecording(FileRecording):
    """A recording that decodes any run of its pieces by themselves."""

    @property
    @abstractmethod
    def _pieces(self) -> Pieces:
        """The index, found when first asked for and kept."""

    @abstractmethod
    def _decoded(self, start: int, stop: int) -> EventArray:
        """The events of pieces start…stop-1 in file order; there may be none."""

    def _limits_us(self) -> tuple[int | None, int | None]:
        """Earliest and latest time, from the ends of a file in time order; None and None where it is not in order."""
        pieces = self._pieces
        if not pieces.is_sorted:
            return None, None
        numbers = range(len(pieces))
        first = next((events for number in numbers if len(events := self._decoded(number, number + 1))), None)
        if first is None:
            return None, None
        last = next(events for number in reversed(numbers) if len(events := self._decoded(number, number + 1)))
        return first.t_min_us, last.t_max_us

    def read_time(self, start_us: int, stop_us: int) -> EventArray:
        """Decodes only the pieces that may hold such events, as far as the file is in time order."""
        inside = self._pieces.in_time(start_us, stop_us)
        return joined(self._bounded(chunk.slice_time(start_us, stop_us) for chunk in self._grouped(inside)))

    def _grouped(self, inside: range) -> Iterator[EventArray]:
        """The events of these pieces in chunks of about CHUNK_EVENTS."""
        counts = self._pieces.counts
        start, gathered = inside.start, 0
        for number in inside:
            gathered += int(counts[number]) if counts is not None else CHUNK_EVENTS
            if gathered >= CHUNK_EVENTS or number == inside.stop - 1:
                events = self._decoded(start, number + 1)
                start, gathered = number + 1, 0
                if len(events):
                    yield events


def sampled(count: int, first_us: Callable[[int], int | None]) -> Pieces:
    """An index of `count` packets whose times only decoding tells: every n-th of them is asked for its first time.

    The pieces are groups of packets that follow one another. n is chosen so that building the index costs about as much
    as a window's two edges do.
    """
    starts = np.arange(0, count, max(1, count // max(1, 2 * isqrt(count))), dtype=np.int64)
    firsts = [first_us(int(start)) for start in starts]
    if len(starts) < count and not any(first is not None for first in firsts):
        starts = np.arange(count, dtype=np.int64)
        firsts = [first_us(int(start)) for start in starts]
    # A group whose first packet holds no events belongs to the one ahead of it.
    known = np.array([first is not None for first in firsts], bool)
    starts = starts[known]
    starts[:1] = 0
    times = np.array([first for first in firsts if first is not None], np.int64)
    return Pieces(times, None, np.append(starts, count))
