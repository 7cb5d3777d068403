"""The text of an answer as marks: rejected tokens in their place, byte pieces as characters; and which are selected.

It follows a growing run without starting over, and uses no Qt.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_REJECTED, TokenRecord
from evprof.core.run_log import RunLog
from evprof.core.text import is_byte, is_control, join_pieces
from evprof.view.token_places import round_of_span
from ui.state.chosen import Chosen, RoundRef, TimeRange, TokenRef


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

    def update(self) -> int | None:
        """Reads the new tokens of the run. Returns the index of the first mark that changed, None for no change."""
        if self.run.count("tokens") == self._read_tokens + self._read_rejected:
            return None
        tokens, rejected = self.run.tokens[self._read_tokens :], self.run.rejected[self._read_rejected :]
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


def marks_of(flow: AnswerFlow | None, chosen: Chosen | None) -> list[int]:
    """Indices of the marks of a run that belong to the selection."""
    if flow is None or chosen is None:
        return []
    run = flow.run
    if isinstance(chosen, TimeRange):
        return _within(flow, chosen)
    if chosen.run_id != run.run_id:
        return []
    if isinstance(chosen, TokenRef):
        return _at(flow, chosen.position)
    if isinstance(chosen, RoundRef):
        return _of_round(flow, chosen.round_index, chosen.drafted)
    span = run.span(chosen.span_id)
    number = None if span is None else round_of_span(run, span)
    return [] if number is None else _of_round(flow, number)


def chosen_of(run_id: int, mark: TokenMark) -> Chosen:
    """What a click on a mark selects: the token, or for a rejected token its round, since its position is another's."""
    if mark.is_rejected and mark.round_index >= 0:
        return RoundRef(run_id, mark.round_index, mark.position)
    return TokenRef(run_id, mark.position)


def _at(flow: AnswerFlow, position: int) -> list[int]:
    """The emitted token at a position; where only proposals are shown, the tokens proposed for it in its round."""
    here = [(i, mark) for i, mark in enumerate(flow.marks) if any(token.position == position for token in mark.tokens)]
    standing = [index for index, mark in here if not mark.is_rejected]
    if standing or not flow.proposals_only:
        return standing[:1]
    emitted = next((token for token in flow.run.tokens if token.position == position), None)
    return [index for index, mark in here if emitted is None or mark.round_index == emitted.round_index]


def _within(flow: AnswerFlow, chosen: TimeRange) -> list[int]:
    """Marks emitted in a time range; most imported runs have no token times."""
    zero = flow.run.info.start_ns
    if zero is None or not flow.run.info.has_token_times:
        return []
    times = np.array([mark.tokens[0].t_ns for mark in flow.marks], dtype=np.int64) - zero
    inside: list[int] = np.flatnonzero((times >= chosen.start_ns) & (times <= chosen.end_ns)).tolist()
    return inside


def _of_round(flow: AnswerFlow, number: int, drafted: int | None = None) -> list[int]:
    """Marks of a round, or only the ones that were drafted for a position and rejected."""
    of_round = [index for index, mark in enumerate(flow.marks) if mark.round_index == number]
    if drafted is None:
        return of_round
    rejected = [index for index in of_round if flow.marks[index].is_rejected]
    return [i for i in rejected if any(token.position == drafted for token in flow.marks[i].tokens)] or of_round
