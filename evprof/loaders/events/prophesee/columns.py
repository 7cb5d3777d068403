"""Columns of events that grow while a decoder fills them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evprof.core.events import EventArray

Columns = tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16], npt.NDArray[np.int64], npt.NDArray[np.uint8]]
"""x, y, t in µs and p, equally long."""


class GrowingColumns:
    """Events written one after the other, without a copy at the end when the room was guessed well."""

    def __init__(self, room: int = 0) -> None:
        self._filled = 0
        self._columns = _empty(room)

    def __len__(self) -> int:
        return self._filled

    def next(self, count: int) -> Columns:
        """Room for `count` events behind those there are, to be written by the caller at once."""
        start, stop = self._filled, self._filled + count
        if stop > len(self._columns[0]):
            old = self._columns
            self._columns = _empty(max(stop, start + start // 2))
            x, y, t_us, p = self._columns
            x[:start], y[:start], t_us[:start], p[:start] = (column[:start] for column in old)
        self._filled = stop
        x, y, t_us, p = self._columns
        return x[start:stop], y[start:stop], t_us[start:stop], p[start:stop]

    def since(self, start: int) -> EventArray:
        """A view of the events from number `start` on."""
        x, y, t_us, p = self._columns
        stop = self._filled
        return EventArray(x[start:stop], y[start:stop], t_us[start:stop], p[start:stop])


def _empty(room: int) -> Columns:
    return np.empty(room, np.uint16), np.empty(room, np.uint16), np.empty(room, np.int64), np.empty(room, np.uint8)
