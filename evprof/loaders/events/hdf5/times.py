"""The time column of an HDF5 recording: in microseconds, and searched without reading it all."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.loaders.events.hdf5.stored import StoredColumn

_MOST_US = 2**61
_LONGEST_S = 86_400.0 * 365


class TimeColumn:
    """Event times on the column's own clock, before `t_offset`; int64 µs whatever the file keeps.

    `problems` collects what is found on the way.
    """

    def __init__(self, column: StoredColumn) -> None:
        self._column = column
        self._stored = column.stored
        self._edges: dict[int, tuple[int, int]] = {}
        self.is_sorted = True
        self.problems: list[str] = []
        self.in_seconds = self._counts_seconds()

    def __len__(self) -> int:
        return len(self._stored)

    def microseconds(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Times of rows of the array, int64 µs. Raises UserError for what is no time."""
        t = self._column.of(rows)
        if t.dtype.kind == "f":
            if not np.isfinite(t).all():
                raise UserError(f"{self._stored.name}: times are not finite numbers; the file is damaged.")
            t = t.astype(np.float64) * 1e6 if self.in_seconds else t
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
        rows = self._stored.block_rows
        low, high = 0, -(-len(self) // rows)
        while low < high:
            middle = (low + high) // 2
            if self._edge(middle)[1] < t_us:
                low = middle + 1
            else:
                high = middle
        start, stop = min(low * rows, len(self)), min((low + 1) * rows, len(self))
        return start + int(np.searchsorted(self.between(start, stop), t_us, side="left")) if start < stop else start

    def note_disorder(self) -> None:
        """Called by whoever sees time running backwards."""
        if self.is_sorted:
            self.is_sorted = False
            self.problems.append(
                "Time runs backwards in the recording; windows of a long one may lack events that are out of order."
            )

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
