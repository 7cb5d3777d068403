"""The largest value of any stretch of a long column, without looking at the whole stretch.

Every row knows the largest value from it to the end of its block of sixteen, and the one from the block's beginning to
it; of blocks, every run of 1, 2, 4, 8 … knows its largest. A stretch is an end, two runs that overlap, and an end: a
picture of a million rows costs its pixels, not its rows.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.core.rows.distinct import Ints, distinct
from evprof.view.growing import Growing, together

Floats: TypeAlias = "npt.NDArray[np.float64]"
_Steps: TypeAlias = "npt.NDArray[np.int8]"

_BLOCK = 16

_NEAR, _MOST_STRETCHES = 8, 16
"""Changed blocks with fewer others between them are taken together, and all of them where there are many stretches."""


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

    def update(self, values: Floats, changed: Ints | None = None) -> Peaks:
        """Takes in a column that may be longer than before; of its old rows only `changed` ones, in order, differ."""
        before, self.values = len(self.values), values
        blocks = np.arange(before // _BLOCK, -(-len(values) // _BLOCK) if len(values) > before else 0)
        if changed is not None and len(changed):
            blocks = together([distinct(changed // _BLOCK).values, blocks])
        if len(blocks):
            parts = _stretches(blocks)
            self._steps_ahead.reach(len(values))
            self._steps_back.reach(len(values))
            for low, high in parts:
                self._take_blocks(low, high)
            self._update_runs(parts, len(values) // _BLOCK)
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

    def _update_runs(self, parts: list[tuple[int, int]], count: int) -> None:
        """Of `count` whole blocks, those in `parts` are new or other ones."""
        levels = count.bit_length()
        if self._runs.shape[0] < levels or self._runs.shape[1] < count:
            grown = np.zeros((levels, max(count, 2 * self._runs.shape[1])), dtype=np.int64)
            grown[: self._runs.shape[0], : self._runs.shape[1]] = self._runs
            self._runs = grown
        for low, high in parts:
            firsts = np.arange(low, min(high, count)) * _BLOCK
            self._runs[:1, low : min(high, count)] = firsts + self._ahead[firsts]
        for level in range(1, levels):
            half = 1 << level - 1
            below = self._runs[level - 1]
            for part in parts:
                low, high = max(0, part[0] - 2 * half + 1), min(part[1], count - 2 * half + 1)
                if low < high:
                    one, other = below[low:high], below[low + half : high + half]
                    self._runs[level, low:high] = np.where(self.values[other] > self.values[one], other, one)

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


def _stretches(blocks: Ints) -> list[tuple[int, int]]:
    """Blocks in order as stretches, first and one after the last."""
    edges = np.flatnonzero(np.diff(blocks) > _NEAR)
    if len(edges) >= _MOST_STRETCHES:
        edges = edges[:0]
    firsts, lasts = blocks[[0, *(edges + 1)]], blocks[[*edges, -1]]
    return [(first, last + 1) for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]
