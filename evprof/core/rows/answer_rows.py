"""The tokens of an answer as columns: without those that were thrown away, and without an object for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.core.records import ORIGIN_REJECTED
from evprof.core.rows.distinct import Ints
from evprof.core.rows.row_block import RowBlock


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
    """How long the answer is, and from when to when it came."""
    length, edges = 0, list[int]()
    for block, is_answer in _parts(blocks):
        if count := int(np.count_nonzero(is_answer)):
            places = is_answer.argmax(), len(is_answer) - 1 - is_answer[::-1].argmax()
            edges += block.column("t_ns")[list(places)].tolist()
            length += count
    return AnswerExtent(length, edges[0], edges[-1]) if edges else NO_ANSWER


def count_of(blocks: Iterable[RowBlock], origin: str) -> int:
    """How many of its tokens have an origin."""
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
