"""The largest value of any stretch of a long column, without looking at the whole stretch.

Blocks of sixteen rows know the row of their largest value, pairs of blocks that of theirs, and so on: a stretch is at
most two blocks of each size and thirty rows at its ends. A picture of a million rows costs its pixels, not its rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evprof.core.rows.distinct import Ints

Floats = npt.NDArray[np.float64]

_BLOCK = 16


class Peaks:
    """Peaks of one column that grows; `update` before asking."""

    def __init__(self) -> None:
        self.values: Floats = np.empty(0)
        self._levels: list[Ints] = []

    def update(self, values: Floats, changed_from: int | None = None) -> Peaks:
        """Takes in a longer column, whose rows before `changed_from` (None: before its old end) are as they were."""
        since = len(self.values) if changed_from is None else min(changed_from, len(self.values))
        self.values = values
        size, level = _BLOCK, 0
        while size <= len(values):
            kept, count = since // size, len(values) // size
            below = self._below(level, kept, count)
            taller = below[np.arange(len(below)), np.argmax(values[below], axis=1)] if len(below) else below[:, 0]
            if level == len(self._levels):
                self._levels.append(np.empty(0, dtype=np.int64))
            self._levels[level] = np.concatenate([self._levels[level][:kept], taller])
            size, level = 2 * size, level + 1
        del self._levels[level:]
        return self

    def _below(self, level: int, first: int, last: int) -> Ints:
        """The candidates of blocks first…last-1 of a level, a row for each."""
        if level == 0:
            return np.arange(first * _BLOCK, last * _BLOCK, dtype=np.int64).reshape(-1, _BLOCK)
        return self._levels[level - 1][2 * first : 2 * last].reshape(-1, 2)

    def rows(self, firsts: Ints, counts: Ints) -> Ints:
        """Of each stretch (`counts` rows from `firsts` on, at least one), the first row with its largest value."""
        ends = firsts + counts
        low, high = -(-firsts // _BLOCK), ends // _BLOCK
        is_short = low >= high
        best = self._at_ends(firsts, np.where(is_short, ends, low * _BLOCK))
        low, high = np.where(is_short, 0, low), np.where(is_short, 0, high)
        for level in self._levels:
            odd = np.flatnonzero((low < high) & (low & 1 == 1))
            best[odd] = self._better(best[odd], level[low[odd]])
            odd = np.flatnonzero((low < high) & (high & 1 == 1))
            best[odd] = self._better(best[odd], level[high[odd] - 1])
            low, high = (low + 1) >> 1, high >> 1
            if not (low < high).any():
                break
        rest = np.flatnonzero(~is_short & (ends % _BLOCK > 0))
        best[rest] = self._better(best[rest], self._at_ends(ends[rest] // _BLOCK * _BLOCK, ends[rest]))
        return best

    def _at_ends(self, firsts: Ints, ends: Ints) -> Ints:
        """The same of stretches of at most 2 * _BLOCK rows; of empty ones the row they would begin with."""
        width = int((ends - firsts).max(initial=1))
        rows = np.minimum(firsts[:, None] + np.arange(max(width, 1)), np.maximum(ends - 1, firsts)[:, None])
        rows = np.minimum(rows, len(self.values) - 1)
        # A row that stands for the rest is the last one, and the first of equal values counts.
        return np.asarray(rows[np.arange(len(rows)), np.argmax(self.values[rows], axis=1)])

    def _better(self, one: Ints, other: Ints) -> Ints:
        ahead, behind = self.values[one], self.values[other]
        is_other = (behind > ahead) | ((behind == ahead) & (other < one))
        return np.where(is_other, other, one)
