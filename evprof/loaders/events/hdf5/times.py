"""The time column of an HDF5 recording: in microseconds, and searched without reading it all."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.loaders.events.hdf5.stored import StoredArray, StoredColumn

_MOST_US = 2**61
_LONGEST_S = 86_400.0 * 365


class TimeColumn:
    """Event times on the column's own clock, before `t_offset`; int64 µs whatever the file keeps.

    `index` gives for each millisecond the first event not before it. It is believed only where the events around the
    place it leads to agree; once they do not, it is left alone. `problems` collects what was found on the way.
    """

    def __init__(self, column: StoredColumn, index: StoredArray | None) -> None:
        self._column = column
        self._stored = column.stored
        self._index = index
        self._edges: dict[int, tuple[int, int]] = {}
        self.is_sorted = True
        self.problems: list[str] = []
        self._in_seconds = self._counts_seconds()

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def in_seconds(self) -> bool:
        """Whether the file keeps fractional seconds."""
        return self._in_seconds

    def microseconds(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Times of rows of the array, int64 µs. Raises UserError for what is no time."""
        t = self._column.of(rows)
        if t.dtype.kind == "f":
            if not np.isfinite(t).all():
                raise UserError(f"{self._stored.name}: times are not finite numbers; the file is damaged.")
            t = t.astype(np.float64) * 1e6 if self._in_seconds else t
            t = np.rint(t)
        if len(t) and not -_MOST_US <= min(t.min(), t.max()) <= max(t.min(), t.max()) <= _MOST_US:
            raise UserError(f"{self._stored.name}: times run from {t.min()} to {t.max()} µs; the file is damaged.")
        return t.astype(np.int64)

    def between(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Times of the events start…stop-1."""
        return self.microseconds(self._stored.rows(start, stop))

    def ends(self) -> tuple[int, int] | None:
        """The first and the last event's time; None without events."""
        if not len(self):
            return None
        last = len(self) - 1
        return self._edge(0)[0], self._edge(last // self._stored.block_rows)[1]

    def first_not_before(self, t_us: int) -> int:
        """The number of the first event with time >= t_us, as a sorted column has it; its length if there is none."""
        if self._index is not None:
            found = self._by_index(self._index, t_us)
            if found is not None:
                return found
            self._index = None
            self.problems.append(
                "The millisecond index does not fit the event times; windows are found by bisection instead."
            )
        return self._search(t_us, 0, len(self))

    def note_disorder(self) -> None:
        """Called by whoever sees time running backwards."""
        if self.is_sorted:
            self.is_sorted = False
            self.problems.append(
                "Time runs backwards in the recording; windows of a long one may lack events that are out of order."
            )

    def _by_index(self, index: StoredArray, t_us: int) -> int | None:
        """The place the index leads to; None where it cannot be right."""
        if t_us <= 0:
            # Nothing says that times begin at 0, so only the events can tell.
            return self._search(t_us, 0, len(self))
        first_ms = min(t_us // 1000, len(index) - 1)
        entries = [int(value) for value in index.rows(first_ms, min(first_ms + 2, len(index)))]
        low, high = entries[0], entries[1] if len(entries) > 1 else len(self)
        if not 0 <= low <= high <= len(self):
            return None
        found = self._search(t_us, low, high)
        around = self.between(max(0, found - 1), min(len(self), found + 1)).tolist()
        before = found == 0 or around[0] < t_us
        after = found == len(self) or around[-1] >= t_us
        return found if before and after else None

    def _search(self, t_us: int, low: int, high: int) -> int:
        """The first event not before t_us among low…high, reading few blocks.

        Guesses where the time lies if events come evenly, and halves when that was a bad guess.
        """
        rows = self._stored.block_rows
        halve = False
        low_us: int | None = None
        high_us: int | None = None
        while high - low > rows:
            middle = (low + high) // 2
            if not halve and low_us is not None and high_us is not None and high_us > low_us:
                middle = low + (high - low) * min(max(t_us - low_us, 0), high_us - low_us) // (high_us - low_us)
            elif low == 0 and high == len(self) and low_us is None:
                low_us, high_us = self.ends() or (0, 0)
                continue
            block = min(middle, high - 1) // rows
            first, last = self._edge(block)
            size = high - low
            if first >= t_us:
                high, high_us = max(low, block * rows), first
            elif last < t_us:
                low, low_us = min(high, (block + 1) * rows), last
            else:
                low, high = max(low, block * rows), min(high, (block + 1) * rows)
            halve = high - low > size // 2
        if high <= low:
            return low
        return low + int(np.searchsorted(self.between(low, high), t_us, side="left"))

    def _edge(self, block: int) -> tuple[int, int]:
        """The first and last time of a block; where that unpacks it, its order is looked at too."""
        known = self._edges.get(block)
        if known is None:
            start = block * self._stored.block_rows
            stop = min(start + self._stored.block_rows, len(self))
            if self._stored.in_blocks:
                t = self.between(start, stop)
                if (t[1:] < t[:-1]).any():
                    self.note_disorder()
                known = int(t[0]), int(t[-1])
            else:
                known = int(self.between(start, start + 1)[0]), int(self.between(stop - 1, stop)[0])
            self._edges[block] = known
        return known

    def _counts_seconds(self) -> bool:
        """Fractions are seconds, the convention of float recordings; whole numbers are microseconds."""
        if self._column.dtype.kind != "f" or not len(self):
            return False
        some = min(len(self), self._stored.block_rows)
        for start in (0, len(self) - some):
            t = self._column.of(self._stored.rows(start, start + some))
            if np.isfinite(t).all() and (t != np.floor(t)).any():
                span = float(np.abs(t).max())
                if span > 1e13 or float(t.max()) - float(t.min()) > _LONGEST_S:
                    raise UserError(
                        f"{self._stored.name}: times are fractions up to {span:g}; seconds or whole microseconds are "
                        "expected."
                    )
                return True
        return False
