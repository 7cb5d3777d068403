"""How far a conversion is, read by whoever draws it, and the way to stop it between two pieces of work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from evprof.core.errors import Cancelled

Piece = TypeVar("Piece")


class Step:
    """One conversion's progress: `done` of `total` (None: unknown) `unit`s. Written by one thread, read by others."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.done = 0
        self.total: int | None = None
        self.unit = ""
        self._stop = stop or threading.Event()

    def begin(self, unit: str, total: int | None) -> None:
        """Work of so many units begins."""
        self.unit, self.total, self.done = unit, total, 0

    def advance(self, count: int) -> None:
        """So many more are done. Raises Cancelled when a stop was asked for."""
        self.done += count
        if self._stop.is_set():
            raise Cancelled

    def counted(self, pieces: Iterable[Piece], size: Callable[[Piece], int] = lambda _: 1) -> Iterator[Piece]:
        """The pieces, each counted once it has been taken care of."""
        for piece in pieces:
            yield piece
            self.advance(size(piece))
