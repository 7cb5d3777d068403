"""Columns that grow with a run and whose rows may still change: what is worked out of them is worked out row by row."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.core.rows.distinct import Ints, distinct

Array: TypeAlias = "npt.NDArray[Any]"


class Growing:
    """One column of any kind, or so many beside each other; new rows are 0. Views stay valid, and see changes until the
    column has to move."""

    def __init__(self, kind: npt.DTypeLike, *beside: int) -> None:
        self._data: Array = np.zeros((64, *beside), dtype=kind)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def reach(self, length: int) -> Array:
        """All rows, after growing to so many."""
        if length > len(self._data):
            grown = np.zeros((max(length, 2 * len(self._data)), *self._data.shape[1:]), dtype=self._data.dtype)
            grown[: self._length] = self._data[: self._length]
            self._data = grown
        self._length = max(length, self._length)
        return self.view

    @property
    def view(self) -> Array:
        """All rows, without copying."""
        return self._data[: self._length]


class Derived:
    """A column worked out of the rows of another one, which only gets longer."""

    def __init__(self, kind: npt.DTypeLike) -> None:
        self._column = Growing(kind)
        self._kind = kind
        self._key: Hashable = None
        self._seen = 0

    def of(self, count: int, key: Hashable, work: Callable[[int], Array]) -> Array:
        """What is worked out of `count` rows: `work` tells it of those from a number on. Another `key`: of all anew."""
        if key != self._key:
            self._column, self._key, self._seen = Growing(self._kind), key, 0
        if count > self._seen:
            new = work(self._seen)
            before, self._seen = len(self._column), count
            self._column.reach(before + len(new))[before:] = new
        return self._column.view


def together(rows: list[Ints]) -> Ints:
    """Rows named in several lists, each once and in order."""
    return rows[0] if len(rows) == 1 else distinct(np.concatenate(rows)).values


def as_slice(rows: Ints) -> Ints | slice:
    """Rows in order, as a slice where they lie one after another: much faster to read and to write."""
    is_whole = len(rows) > 0 and int(rows[-1]) - int(rows[0]) + 1 == len(rows)
    return slice(int(rows[0]), int(rows[-1]) + 1) if is_whole else rows
