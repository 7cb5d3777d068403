"""Where the rows of one run lie in a stream that holds those of all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from evprof.core.recording import Stream, Texts
from evprof.core.records import Record
from evprof.core.rows.distinct import Ints


class RowBlock(NamedTuple):
    """Rows start…stop-1 of a stream."""

    stream: Stream
    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many rows."""
        return self.stop - self.start

    def after(self, count: int) -> RowBlock:
        """The same without the first rows."""
        return RowBlock(self.stream, self.start + count, self.stop)

    def parts(self, size: int) -> Iterator[RowBlock]:
        """The same in parts of `size` rows, the last of what is left."""
        for start in range(self.start, self.stop, size):
            yield RowBlock(self.stream, start, min(start + size, self.stop))

    def column(self, name: str) -> Ints:
        """One column of numbers."""
        found: Ints = self.stream.column(name, self.start, self.stop)
        return found

    def texts(self, name: str) -> Texts:
        """One column of text."""
        return self.stream.texts(name, self.start, self.stop)

    def rows(self) -> list[Record]:
        """The rows as records."""
        return self.stream.rows(self.start, self.stop)


def blocks_by_run(stream: Stream, start: int, stop: int) -> Iterator[tuple[int, RowBlock]]:
    """Rows of a stream by run: they come in blocks, for one run is recorded after the other."""
    numbers = stream.column("run_id", start, stop)
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for first, last in pairwise(edges):
        if last > first:
            yield int(numbers[first]), RowBlock(stream, start + first, start + last)
