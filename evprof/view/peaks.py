"""The largest value of any stretch of a long column, without looking at the whole stretch.

Every row knows the largest value from it to the end of its block of sixteen, and the one from the block's beginning to
it; of blocks, every run of 1, 2, 4, 8 … knows its largest. A stretch is an end, two runs that overlap, and an end: a
picture of a million rows costs its pixels, not its rows.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.core.rows.distinct import Ints
from evprof.view.growing import Growing

Floats: TypeAlias = "npt.NDArray[np.float64]"
_Steps: TypeAlias = "npt.NDArray[np.int8]"

_BLOCK = 16


class Peaks:
    """Peaks of one column that grows; `update` before asking."""

    def __init__(self) -> None:
        self.values: Floats = np.empty(0)
        self._steps_ahead = Growing(np.int8)
        """Rows from each one to the largest of the rest of its block."""

        self._steps_back = Growing(np.int8)
        """Rows from each one back to the largest of its block so far."""

        self._runs: Ints = np.empty((0, 0), dtype=np.int64)
        """The row of the largest value of 2 ** i blocks from j on."""

    def update(self, values: Floats) -> Peaks:
        """Takes in a column whose old rows are as they were."""
        before, self.values = len(self.values), values
        if len(values) > before:
            low, high = before // _BLOCK, -(-len(values) // _BLOCK)
            self._steps_ahead.reach(len(values))
            self._steps_back.reach(len(values))
            self._take_blocks(low, high)
            self._update_runs(low, len(values) // _BLOCK)
        return self

    @property
    def _ahead(self) -> _Steps:
        return self._steps_ahead.view

    @property
    def _back(self) -> _Steps:
        return self._steps_back.view

    def _take_blocks(self, low: int, high: int) -> None:
        rest = self.values[low * _BLOCK : high * _BLOCK]
        padded = np.full((high - low) * _BLOCK, -np.inf)
        padded[: len(rest)] = rest
        blocks, place = padded.reshape(-1, _BLOCK), slice(low * _BLOCK, low * _BLOCK + len(rest))
        self._ahead[place] = _steps_back(blocks[:, ::-1], takes_equal=True)[:, ::-1].ravel()[: len(rest)]
        self._back[place] = _steps_back(blocks, takes_equal=False).ravel()[: len(rest)]

    def _update_runs(self, low: int, count: int) -> None:
        """Of `count` whole blocks, those from `low` on are new."""
        levels = count.bit_length()
        if self._runs.shape[0] < levels or self._runs.shape[1] < count:
            grown = np.zeros((levels, max(count, 2 * self._runs.shape[1])), dtype=np.int64)
            grown[: self._runs.shape[0], : self._runs.shape[1]] = self._runs
            self._runs = grown
        firsts = np.arange(low, count) * _BLOCK
        self._runs[:1, low:count] = firsts + self._ahead[firsts]
        for level in range(1, levels):
            half = 1 << level - 1
            below = self._runs[level - 1]
            first, last = max(0, low - 2 * half + 1), count - 2 * half + 1
            if first < last:
                one, other = below[first:last], below[first + half : last + half]
                self._runs[level, first:last] = np.where(self.values[other] > self.values[one], other, one)

    def rows(self, firsts: Ints, counts: Ints) -> Ints:
        """Of each stretch (`counts` rows from `firsts` on, at least one), the first row with its largest value."""
        lasts = firsts + counts - 1
        head, tail = firsts + self._ahead[firsts], lasts - self._back[lasts]
        low, high = firsts // _BLOCK + 1, lasts // _BLOCK
        whole = high - low
        left = right = head
        if len(self._runs) and (is_long := whole > 0).any():
            low = np.where(is_long, low, 0)
            level = np.where(is_long, np.frexp(whole)[1] - 1, 0)
            at = level * self._runs.shape[1] + low
            left = np.where(is_long, self._runs.take(at), head)
            right = np.where(is_long, self._runs.take(at + whole - (1 << level), mode="clip"), head)
        # In order of their rows: of equal values the first counts.
        best, value = head, self.values[head]
        for other in (left, right, tail) if left is not head else (tail,):
            found = self.values[other]
            best = np.where(found > value, other, best)
            value = np.maximum(value, found)
        if (is_short := whole < 0).any():
            best = np.where(is_short, np.where(head <= lasts, head, tail), best)
            rest = np.flatnonzero((head > lasts) & (tail < firsts))
            best[rest] = self._looked_up(firsts[rest], lasts[rest])
        return np.asarray(best, dtype=np.int64)

    def _looked_up(self, firsts: Ints, lasts: Ints) -> Ints:
        """The same of stretches within one block, row by row."""
        rows = np.minimum(firsts[:, None] + np.arange(_BLOCK), lasts[:, None])
        return np.asarray(rows[np.arange(len(rows)), np.argmax(self.values[rows], axis=1)], dtype=np.int64)


def _steps_back(blocks: Floats, *, takes_equal: bool) -> _Steps:
    """From each place of a block back to the largest value so far; of equal ones the first, or the last."""
    so_far = np.maximum.accumulate(blocks, axis=1)
    is_new = np.ones(blocks.shape, dtype=bool)
    is_new[:, 1:] = blocks[:, 1:] >= so_far[:, :-1] if takes_equal else blocks[:, 1:] > so_far[:, :-1]
    places = np.arange(_BLOCK, dtype=np.int8)
    steps: _Steps = places - np.maximum.accumulate(np.where(is_new, places, 0), axis=1, dtype=np.int8)
    return steps
