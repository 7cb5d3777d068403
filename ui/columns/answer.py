"""The text of an answer as marks: stretches of one origin, rejected tokens in their place, byte pieces as characters.

It follows a growing run without starting over; it knows no font, colour or widget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_REJECTED, TokenRecord
from evprof.core.run_log import RunLog
from evprof.core.text import join_pieces

_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>\Z")
_CONTROL = re.compile(r"</?s>\Z|<pad>\Z|<unk>\Z|<\|[^|]*\|>\Z")


@dataclass(frozen=True)
class TokenMark:
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
    """The marks of one run in reading order.

    Rejected tokens of a round come after its accepted ones and before the token that replaced them.
    `proposals_only` shows what a draft proposed: accepted and rejected tokens, not the target's own.
    """

    def __init__(self, run: RunLog, *, proposals_only: bool = False) -> None:
        self.run = run
        self.marks: list[TokenMark] = []
        self.proposals_only = proposals_only
        self._emitted: list[TokenRecord] = []
        self._rejected: dict[int, list[TokenRecord]] = {}
        self._read_tokens = 0
        self._read_rejected = 0

    def update(self) -> int | None:
        """Takes in what the run has gained. Returns the index of the first mark that changed, None for no change."""
        tokens, rejected = self.run.tokens[self._read_tokens :], self.run.rejected[self._read_rejected :]
        if not tokens and not rejected:
            return None
        self._read_tokens += len(tokens)
        self._read_rejected += len(rejected)
        restart = self._restart(rejected)
        self._emitted.extend(token for token in tokens if not self.proposals_only or token.origin == ORIGIN_ACCEPTED)
        for token in rejected:
            self._rejected.setdefault(token.round_index, []).append(token)
        keep = len(self.marks)
        while keep and self.marks[keep - 1].anchor >= restart:
            keep -= 1
        del self.marks[keep:]
        self.marks.extend(self._built(restart))
        return keep

    def plain_text(self, start: int = 0, stop: int | None = None) -> str:
        """The answer's own text of marks start…stop-1."""
        return "".join(mark.text for mark in self.marks[start:stop] if mark.is_answer)

    def _restart(self, rejected: Sequence[TokenRecord]) -> int:
        """Index of the first emitted token whose surroundings may change: the start of the last round touched."""
        if not self._emitted:
            return 0
        lowest = min([self._emitted[-1].round_index, *(token.round_index for token in rejected)])
        index = len(self._emitted)
        while index and (
            (lowest >= 0 and self._emitted[index - 1].round_index >= lowest)
            # A group of byte pieces may go on in the new tokens.
            or _BYTE.match(self._emitted[index - 1].piece)
        ):
            index -= 1
            lowest = min(lowest, self._emitted[index].round_index)
        return index

    def _built(self, start: int) -> Iterator[TokenMark]:
        is_first = start == 0
        for mark in self._grouped(start):
            # The space before a first word, which sentencepiece puts there, is no text.
            yield replace(mark, text=mark.text.removeprefix(" ")) if is_first else mark
            is_first = False

    def _grouped(self, start: int) -> Iterator[TokenMark]:
        group: list[int] = []
        held: list[TokenMark] = []
        for item in self._ordered(start):
            if isinstance(item, TokenMark):
                # A character spelled by several bytes is not torn apart by what was rejected between them.
                held.append(item)
            elif group and not (_is_byte(self._emitted[item]) and _is_byte(self._emitted[group[-1]])):
                yield self._mark(group)
                yield from held
                group, held = [item], []
            else:
                if not group:
                    yield from held
                    held = []
                group.append(item)
        if group:
            yield self._mark(group)
        yield from held

    def _ordered(self, start: int) -> Iterator[int | TokenMark]:
        """Indices of emitted tokens from `start` on, rejected tokens as finished marks, in reading order."""
        floor = self._emitted[start - 1].round_index if start else -1
        pending = sorted(number for number in self._rejected if number > floor)
        index = start
        while index < len(self._emitted):
            number = self._emitted[index].round_index
            while pending and pending[0] < number:
                yield from self._rejections(pending.pop(0), index)
            while self._is_in(index, number) and (number < 0 or self._emitted[index].origin == ORIGIN_ACCEPTED):
                yield index
                index += 1
            if pending and pending[0] == number:
                yield from self._rejections(pending.pop(0), index)
            while self._is_in(index, number):
                yield index
                index += 1
        for number in pending:
            yield from self._rejections(number, len(self._emitted))

    def _is_in(self, index: int, number: int) -> bool:
        return index < len(self._emitted) and self._emitted[index].round_index == number

    def _rejections(self, number: int, anchor: int) -> Iterator[TokenMark]:
        for token in self._rejected[number]:
            text = join_pieces(("x", token.piece))[1:].replace("\n", "↵")
            yield TokenMark(text, ORIGIN_REJECTED, anchor, (token,))

    def _mark(self, indices: list[int]) -> TokenMark:
        group = tuple(self._emitted[index] for index in indices)
        start = indices[0]
        # `join_pieces` drops the space before a first word; inside the answer that space is text.
        text = join_pieces(["x", *(token.piece for token in group)])[1:]
        latency = group[0].t_ns - self._emitted[start - 1].t_ns if start else None
        is_control = len(group) == 1 and bool(_CONTROL.match(group[0].piece))
        return TokenMark(text, group[0].origin, start, group, latency, is_control)


def _is_byte(token: TokenRecord) -> bool:
    return bool(_BYTE.match(token.piece))
