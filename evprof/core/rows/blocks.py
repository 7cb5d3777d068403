"""Which different values a column holds. Like `numpy.unique`, which loads 14 ms of masked arrays at its first call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.core.recording import Stream, Texts
from evprof.core.records import ORIGIN_REJECTED, Record

Ints: TypeAlias = "npt.NDArray[np.int64]"


class Distinct(NamedTuple):
    """The values in order, where each comes first, and of every row which of the values it has."""

    values: Ints
    firsts: Ints
    which: Ints


def distinct(column: Ints) -> Distinct:
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    is_first = np.ones(len(column), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    which = np.empty(len(column), dtype=np.int64)
    which[order] = np.cumsum(is_first) - 1
    return Distinct(ordered[is_first], order[is_first], which)


class RowBlock(NamedTuple):
    """Rows start…stop-1 of a stream."""

    stream: Stream
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def after(self, count: int) -> RowBlock:
        return RowBlock(self.stream, self.start + count, self.stop)

    def parts(self, size: int) -> Iterator[RowBlock]:
        """The same in parts of `size` rows, the last of what is left."""
        for start in range(self.start, self.stop, size):
            yield RowBlock(self.stream, start, min(start + size, self.stop))

    def column(self, name: str) -> Ints:
        found: Ints = self.stream.column(name, self.start, self.stop)
        return found

    def texts(self, name: str) -> Texts:
        return self.stream.texts(name, self.start, self.stop)

    def rows(self) -> list[Record]:
        return self.stream.rows(self.start, self.stop)


def blocks_by_run(stream: Stream, start: int, stop: int) -> Iterator[tuple[int, RowBlock]]:
    """Rows of a stream by run: they come in blocks, for one run is recorded after the other."""
    numbers = stream.column("run_id", start, stop)
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for first, last in pairwise(edges):
        if last > first:
            yield int(numbers[first]), RowBlock(stream, start + first, start + last)


class AnswerExtent(NamedTuple):
    """Tokens of an answer, and when the first and the last were known, in ns on the clock; None where there is none."""

    length: int
    first_ns: int | None
    last_ns: int | None

    @property
    def passed_ns(self) -> int | None:
        """From the first to the last; None below two tokens."""
        if self.first_ns is None or self.last_ns is None or self.length < 2:
            return None
        return self.last_ns - self.first_ns


NO_ANSWER = AnswerExtent(0, None, None)


def column_of(blocks: Iterable[RowBlock], name: str) -> Ints:
    """One column of numbers, in the order of the rows."""
    found = [block.column(name)[is_answer] for block, is_answer in _parts(blocks)]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def extent_of(blocks: Iterable[RowBlock]) -> AnswerExtent:
    length, edges = 0, list[int]()
    for block, is_answer in _parts(blocks):
        if count := int(np.count_nonzero(is_answer)):
            places = is_answer.argmax(), len(is_answer) - 1 - is_answer[::-1].argmax()
            edges += block.column("t_ns")[list(places)].tolist()
            length += count
    return AnswerExtent(length, edges[0], edges[-1]) if edges else NO_ANSWER


def count_of(blocks: Iterable[RowBlock], origin: str) -> int:
    counts = [0]
    for block, is_answer in _parts(blocks):
        texts = block.texts("origin")
        if origin in texts.words:
            counts.append(int(np.count_nonzero((texts.codes == texts.words.index(origin)) & is_answer)))
    return sum(counts)


def _parts(blocks: Iterable[RowBlock]) -> Iterator[tuple[RowBlock, npt.NDArray[np.bool_]]]:
    """The blocks, and which of their rows are of the answer."""
    for block in blocks:
        texts = block.texts("origin")
        rejected = texts.words.index(ORIGIN_REJECTED) if ORIGIN_REJECTED in texts.words else -1
        yield block, texts.codes != rejected
