"""The text of an answer as marks: stretches of one origin, rejected tokens in their place, byte pieces as characters.

It follows a growing run without starting over; it knows no font, colour or widget.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_REJECTED, TokenRecord
from evprof.core.run_log import RunLog
from evprof.core.text import is_byte, is_control, join_pieces


class TokenMark(NamedTuple):
    """One token, or the byte tokens that spell one stretch of text together.

    `anchor` is the index of the emitted token it belongs to or is placed before; `latency_ns` is the time since the
    token before it, None for rejected ones and for the first.
    """

    text: str
    origin: str
    anchor: int
    tokens: tuple[TokenRecord, ...]
    latency_ns: int | None = None
    is_control: bool = False

    @property
    def position(self) -> int:
        """Place of its first token among the generated tokens."""
        return self.tokens[0].position

    @property
    def round_index(self) -> int:
        """The speculative round it came in, -1 outside speculation."""
        return self.tokens[0].round_index

    @property
    def is_rejected(self) -> bool:
        """Whether it was drafted and thrown away."""
        return self.origin == ORIGIN_REJECTED

    @property
    def is_answer(self) -> bool:
        """Whether its text is part of the plain answer."""
        return not (self.is_rejected or self.is_control)


class AnswerFlow:
    """The marks of one run in reading order, the same however the run's tokens came in.

    Rejected tokens of a round come after its accepted ones and before the token that replaced them.
    `proposals_only` shows what a draft proposed: accepted and rejected tokens, not the target's own.
    """

    def __init__(self, run: RunLog, *, proposals_only: bool = False) -> None:
        self.run = run
        self.marks: list[TokenMark] = []
        self.proposals_only = proposals_only
        self._emitted: list[TokenRecord] = []
        self._accepted_end: dict[int, int] = {}  # round -> index after its last accepted token
        self._rejected: dict[int, list[TokenRecord]] = {}
        self._place: dict[int, int] = {}  # round -> index of the emitted token that its rejected ones stand before
        self._rounds_at: dict[int, list[int]] = {}  # the inverse, rounds in order
        self._read_tokens = 0
        self._read_rejected = 0

    @property
    def has_more(self) -> bool:
        """Whether the run has tokens that were not taken in yet."""
        return self.run.count("tokens") > self._read_tokens + self._read_rejected

    def update(self, most: int | None = None) -> int | None:
        """Takes in what the run has gained, at most so many tokens and rejected ones.

        Returns the index of the first mark that changed, None for no change.
        """
        known, rows = self._read_tokens + self._read_rejected, self.run.count("tokens")
        if rows == known:
            return None
        found = self.run.first_tokens(rows if most is None else min(rows, known + most))
        new = zip(found, (self._read_tokens, self._read_rejected), strict=True)
        tokens, rejected = (rows[seen : None if most is None else seen + most] for rows, seen in new)
        if not tokens and not rejected:
            return None
        self._read_tokens += len(tokens)
        self._read_rejected += len(rejected)
        restart = min(len(self._emitted), self._take_in(tokens, rejected))
        # A group of byte pieces may go on in what came.
        while restart and _is_byte(self._emitted[restart - 1]):
            restart -= 1
        keep = len(self.marks)
        while keep and self.marks[keep - 1].anchor >= restart:
            keep -= 1
        del self.marks[keep:]
        self.marks.extend(self._built(restart))
        return keep

    def plain_text(self, start: int = 0, stop: int | None = None) -> str:
        """The answer's own text of marks start…stop-1."""
        text = "".join(mark.text for mark in self.marks[start:stop] if mark.is_answer)
        # The first mark has lost its space already.
        return text.removeprefix(" ") if not start and self.marks and self.marks[0].is_rejected else text

    def _take_in(self, tokens: Sequence[TokenRecord], rejected: Sequence[TokenRecord]) -> int:
        """Adds tokens and places rejected ones. Returns the lowest index whose rejected tokens changed."""
        touched = {token.round_index for token in rejected}
        # Where nothing followed yet, something may now.
        touched.update(self._rounds_at.get(len(self._emitted), ()))
        for token in tokens:
            if token.origin == ORIGIN_ACCEPTED:
                self._accepted_end[token.round_index] = len(self._emitted) + 1
                touched.add(token.round_index)
            elif self.proposals_only:
                continue
            self._emitted.append(token)
        for token in rejected:
            self._rejected.setdefault(token.round_index, []).append(token)
        changed = len(self._emitted)
        for number in touched & self._rejected.keys():
            before, place = self._place.get(number), self._place_of(number)
            if before is not None:
                self._rounds_at[before].remove(number)
                changed = min(changed, before)
            insort(self._rounds_at.setdefault(place, []), number)
            self._place[number] = place
            changed = min(changed, place)
        return changed

    def _place_of(self, number: int) -> int:
        """After the round's accepted tokens; without such before what stands where its first token was drafted for."""
        if number in self._accepted_end:
            return self._accepted_end[number]
        first = min(token.position for token in self._rejected[number])
        return bisect_left(self._emitted, first, key=lambda token: token.position)

    def _built(self, start: int) -> Iterator[TokenMark]:
        is_first = start == 0
        for mark in self._grouped(start):
            # The space before a first word, which sentencepiece puts there, is no text.
            yield mark._replace(text=mark.text.removeprefix(" ")) if is_first else mark
            is_first = False

    def _grouped(self, start: int) -> Iterator[TokenMark]:
        group: list[int] = []
        held: list[TokenMark] = []
        for index in range(start, len(self._emitted)):
            # A character spelled by several bytes is not torn apart by what was rejected between them.
            if index in self._rounds_at:
                held.extend(self._rejections(index))
            if group and not (_is_byte(self._emitted[index]) and _is_byte(self._emitted[group[-1]])):
                yield self._mark(group)
                group = []
            if not group:
                yield from held
                held = []
            group.append(index)
        if group:
            yield self._mark(group)
        yield from held
        yield from self._rejections(len(self._emitted))

    def _rejections(self, anchor: int) -> Iterator[TokenMark]:
        for number in self._rounds_at.get(anchor, ()):
            for token in self._rejected[number]:
                text, _ = _read(token.piece)
                yield TokenMark(text.replace("\n", "↵"), ORIGIN_REJECTED, anchor, (token,))

    def _mark(self, indices: list[int]) -> TokenMark:
        start = indices[0]
        first = self._emitted[start]
        latency = first.t_ns - self._emitted[start - 1].t_ns if start else None
        if len(indices) == 1:
            text, steers = _read(first.piece)
            return TokenMark(text, first.origin, start, (first,), latency, steers)
        group = tuple(self._emitted[index] for index in indices)
        return TokenMark(_text_of([token.piece for token in group]), first.origin, start, group, latency)


def _text_of(pieces: Sequence[str]) -> str:
    # `join_pieces` drops the space before a first word; inside the answer that space is text.
    return join_pieces(["x", *pieces])[1:]


@lru_cache(maxsize=4_096)
def _read(piece: str) -> tuple[str, bool]:
    """The text of a piece that stands alone, and whether it steers: answers say the same again and again."""
    return _text_of([piece]), is_control(piece)


def _is_byte(token: TokenRecord) -> bool:
    return is_byte(token.piece)
