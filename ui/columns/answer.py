"""The text of an answer as marks: rejected tokens in their place, byte pieces as characters; and which are selected.

It uses no Qt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_REJECTED, TokenRecord
from evprof.core.run_log import RunLog
from evprof.core.texts import is_byte, is_control, join_pieces
from evprof.view.alignment import round_of_span
from ui.state.selection import Chosen, RoundRef, TimeRange, TokenRef

MOST_TOKENS = 2_000
"""Tokens of an answer that are shown; the window's longest answer has 4,096."""


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
    """The marks of one run in reading order.

    Rejected tokens of a round come after its accepted ones and before the token that replaced them.
    `proposals_only` shows what a draft proposed: accepted and rejected tokens, not the target's own.
    """

    def __init__(self, run: RunLog, *, proposals_only: bool = False) -> None:
        self.run = run
        self.marks: list[TokenMark] = []
        self.proposals_only = proposals_only
        self._known = 0
        self.is_cut = False
        """Whether the run has more tokens than are shown."""

    def update(self) -> int | None:
        """Reads the run again. Returns the index of the first mark that changed, None for no change."""
        count = self.run.count("tokens")
        if count == self._known or self.is_cut:
            return None
        self._known, self.is_cut = count, len(self.run.tokens) > MOST_TOKENS
        before, self.marks = self.marks, list(self._built())
        pairs = enumerate(zip(before, self.marks, strict=False))
        changed = next((place for place, (old, new) in pairs if old != new), min(len(before), len(self.marks)))
        return changed if changed < max(len(before), len(self.marks)) else None

    def plain_text(self) -> str:
        """The answer's own text, also where what is shown is cut."""
        if self.is_cut:
            shown = [one for one in self.run.tokens if not self.proposals_only or one.origin == ORIGIN_ACCEPTED]
            return join_pieces([token.piece for token in shown if not is_control(token.piece)])
        text = "".join(mark.text for mark in self.marks if mark.is_answer)
        # The first mark has lost its space already.
        return text.removeprefix(" ") if self.marks and self.marks[0].is_rejected else text

    def _built(self) -> Iterator[TokenMark]:
        marks = self._grouped()
        first = next(marks, None)
        if first is not None:
            # The space before a first word, which sentencepiece puts there, is no text.
            yield first._replace(text=first.text.removeprefix(" "))
        yield from marks

    def _grouped(self) -> Iterator[TokenMark]:
        """Marks; byte pieces that spell one character are one, and rejections between them come after it."""
        tokens = self.run.tokens[:MOST_TOKENS]
        emitted = [one for one in tokens if not self.proposals_only or one.origin == ORIGIN_ACCEPTED]
        rejected_at = self._rejections(emitted)
        start, held = 0, list(rejected_at[0])
        while start < len(emitted):
            yield from held
            held, stop = [], start + 1
            while stop < len(emitted) and is_byte(emitted[start].piece) and is_byte(emitted[stop].piece):
                held += rejected_at[stop]
                stop += 1
            yield _mark(emitted, start, stop)
            start = stop
            held += rejected_at[stop]
        yield from held

    def _rejections(self, emitted: Sequence[TokenRecord]) -> defaultdict[int, list[TokenMark]]:
        """Marks of rejected tokens by the index of the emitted token that they stand before, rounds in order."""
        after = {one.round_index: place for place, one in enumerate(emitted, 1) if one.origin == ORIGIN_ACCEPTED}
        rounds: dict[int, list[TokenRecord]] = {}
        for token in self.run.rejected:
            if self.is_cut and token.position > emitted[-1].position:
                continue
            rounds.setdefault(token.round_index, []).append(token)
        marks: defaultdict[int, list[TokenMark]] = defaultdict(list)
        for number, tokens in sorted(rounds.items()):
            # Without accepted tokens: before the token at the position of the round's first one.
            first = min(token.position for token in tokens)
            place = after.get(number, bisect_left(emitted, first, key=lambda token: token.position))
            for token in tokens:
                text = _read(token.piece)[0].replace("\n", "↵")
                marks[place].append(TokenMark(text, ORIGIN_REJECTED, place, (token,)))
        return marks


def _mark(emitted: Sequence[TokenRecord], start: int, stop: int) -> TokenMark:
    first = emitted[start]
    latency = first.t_ns - emitted[start - 1].t_ns if start else None
    if stop == start + 1:
        text, steers = _read(first.piece)
        return TokenMark(text, first.origin, start, (first,), latency, steers)
    group = tuple(emitted[start:stop])
    return TokenMark(_text_of([token.piece for token in group]), first.origin, start, group, latency)


def _text_of(pieces: Sequence[str]) -> str:
    # `join_pieces` drops the space before a first word; inside the answer that space is text.
    return join_pieces(["x", *pieces])[1:]


@lru_cache(maxsize=4_096)
def _read(piece: str) -> tuple[str, bool]:
    """The text of a piece that stands alone, and whether it steers: answers say the same again and again."""
    return _text_of([piece]), is_control(piece)


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
