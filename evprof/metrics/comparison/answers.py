"""Two answers laid beside each other in words, each with the moment its model had said it.

Words are compared without case and punctuation, so models of different tokenizers compare as well. Moments count from
each run's own zero; a word is said with the last token of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from evprof.core.run_log import RunLog
from evprof.core.texts import is_byte, is_control, join_pieces
from evprof.core.units import ms_from_ns
from evprof.metrics.figures.scores import rouge_words, words

TEXT_DIFF_DEFINITION = "words without case and punctuation, longest common blocks first; ms from each run's zero"

MOST_WORDS = 500
"""This many words of each answer are compared: what longer answers cost grows with the product of their lengths."""

MOST_PARTING = 6
"""Words that are told of each answer where they part."""

_MOST_TOKENS = 3 * MOST_WORDS
"""So many tokens of an answer are looked at, and as many letters of a text without tokens times eight."""

SAME, CHANGED, ONLY_A, ONLY_B, AHEAD = "same", "changed", "only_a", "only_b", "ahead"
"""Kinds of spans. `ahead`: only one side has come so far, and the other may still say the same."""


class SaidWord(NamedTuple):
    """A word as it was written; `t_ns` from the run's zero, None where the file gives no times of tokens.

    `position` is the place of its first token in the answer, -1 where there are no tokens.
    """

    text: str
    t_ns: int | None
    position: int


class AnswerSpan(NamedTuple):
    """Words of A and of B that belong together; one side is empty where only the other says something."""

    kind: str
    a: tuple[SaidWord, ...]
    b: tuple[SaidWord, ...]

    @property
    def lead_ns(self) -> int | None:
        """How much earlier A had said all of it than B; None where they say different things or a time lacks."""
        if self.kind != SAME or self.a[-1].t_ns is None or self.b[-1].t_ns is None:
            return None
        return self.b[-1].t_ns - self.a[-1].t_ns

    def to_json(self) -> dict[str, Any]:
        """An entry of `spans`."""
        lead = self.lead_ns
        return {
            "kind": self.kind,
            "a": _side(self.a),
            "b": _side(self.b),
            "a_lead_ms": None if lead is None else ms_from_ns(lead),
        }


@dataclass(frozen=True)
class AnswerDiff:
    """`is_cut`: only the beginnings were compared."""

    spans: tuple[AnswerSpan, ...]
    is_cut: bool = False

    @property
    def first_difference(self) -> AnswerSpan | None:
        """Where the answers part; None where they say the same."""
        return next((span for span in self.spans if span.kind not in (SAME, AHEAD)), None)

    @property
    def parting(self) -> tuple[tuple[SaidWord, ...], tuple[SaidWord, ...]]:
        """What each goes on to say where the answers part; nothing where they do not, or where one ends."""
        first = self.first_difference
        rest = () if first is None else self.spans[self.spans.index(first) :]
        a = tuple(word for span in rest for word in span.a)
        b = tuple(word for span in rest for word in span.b)
        return a[:MOST_PARTING], b[:MOST_PARTING]

    def differing(self, side: int) -> list[tuple[int, int | None]]:
        """Stretches of token places whose words the other answer does not say there, of A (side 0) or B (1): first and
        stop, None up to the end. What one side merely has not said yet is no difference."""
        listed = [(span.kind not in (SAME, AHEAD), word) for span in self.spans for word in (span.a, span.b)[side]]
        found: list[tuple[int, int | None]] = []
        for place, (is_different, word) in enumerate(listed):
            stop = listed[place + 1][1].position if place + 1 < len(listed) else None
            if not is_different or word.position < 0:
                continue
            if found and found[-1][1] == word.position:
                found[-1] = found[-1][0], stop
            else:
                found.append((word.position, stop))
        return found

    @property
    def common_words(self) -> int:
        first = self.spans[0] if self.spans else None
        return len(first.a) if first is not None and first.kind == SAME else 0

    def to_json(self) -> dict[str, Any]:
        """`text_diff` of the `compare` document."""
        first = self.first_difference
        return {
            "definition": TEXT_DIFF_DEFINITION,
            "common_words": self.common_words,
            "first_difference": None if first is None else first.to_json(),
            "parting": None
            if first is None
            else {side: _side(said) for side, said in zip("ab", self.parting, strict=True)},
            "spans": [span.to_json() for span in self.spans],
            "is_cut": self.is_cut,
        }


def said_words(run: RunLog) -> list[SaidWord]:
    """The first words of a run's answer so far, in order; the last one only when it can grow no more."""
    if run.info.imported is not None or not run.tokens:
        return [SaidWord(word, None, -1) for word in words((run.info.text or "")[: 8 * _MOST_TOKENS])]
    zero_ns = run.tokens[0].t_ns if run.info.start_ns is None else run.info.start_ns
    text, owners = _written(run)
    found, at = [], 0
    for word in words(text):
        start = text.index(word, at)
        at = start + len(word)
        first, last = owners[start], owners[at - 1]
        found.append(SaidWord(word, run.tokens[last].t_ns - zero_ns, run.tokens[first].position))
    return found if run.info.is_over and len(run.tokens) <= _MOST_TOKENS else found[:-1]


def is_answer_told(run: RunLog) -> bool:
    """Whether a run's answer is known: some imported files tell only how long it was."""
    return run.info.imported is None or bool(said_words(run))


def diff_of(a: RunLog, b: RunLog) -> AnswerDiff:
    said = said_words(a), said_words(b)
    is_cut = max(map(len, said)) > MOST_WORDS or max(len(run.tokens) for run in (a, b)) > _MOST_TOKENS
    spans = spans_of(said[0][:MOST_WORDS], said[1][:MOST_WORDS])
    behind = b if spans and spans[-1].kind == ONLY_A else a if spans and spans[-1].kind == ONLY_B else None
    if behind is not None and not behind.info.is_over:
        spans[-1] = spans[-1]._replace(kind=AHEAD)
    return AnswerDiff(tuple(spans), is_cut)


def spans_of(a: Sequence[SaidWord], b: Sequence[SaidWord]) -> list[AnswerSpan]:
    keys = [_key(word.text) for word in a], [_key(word.text) for word in b]
    kinds = {"equal": SAME, "replace": CHANGED, "delete": ONLY_A, "insert": ONLY_B}
    codes = SequenceMatcher(None, *keys, autojunk=False).get_opcodes()
    return [AnswerSpan(kinds[kind], tuple(a[i:j]), tuple(b[m:n])) for kind, i, j, m, n in codes]


def _written(run: RunLog) -> tuple[str, list[int]]:
    """The answer's text, and for each of its characters the index of the token that completes it."""
    parts: list[str] = []
    owners: list[int] = []
    listed, index = [token.piece for token in run.tokens[:_MOST_TOKENS]], 0
    while index < len(listed):
        start = index
        index += 1
        while is_byte(listed[start]) and index < len(listed) and is_byte(listed[index]):
            index += 1
        pieces = listed[start:index]
        # The space before a first word is dropped by join_pieces; inside the answer it divides words.
        text = "" if is_control(pieces[0]) else join_pieces(["x", *pieces])[1:]
        parts.append(text)
        owners += [index - 1] * len(text)
    return "".join(parts), owners


def _key(text: str) -> str:
    return " ".join(rouge_words(text)) or text


def _side(said: Sequence[SaidWord]) -> dict[str, Any]:
    return {
        "text": " ".join(word.text for word in said),
        "start_ms": _ms(said[0].t_ns) if said else None,
        "end_ms": _ms(said[-1].t_ns) if said else None,
    }


def _ms(t_ns: int | None) -> float | None:
    return None if t_ns is None else ms_from_ns(t_ns)
