"""The rules by which answers are scored against what a list expects, as told wherever a score stands.

A change of what a rule gives is a new version: scores that were kept under an older one are worked out anew.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.plain import Plain

EXACT, CHOICE, TOKEN_F1, ROUGE_L, RIGHT = "exact_match", "right_choice", "token_f1", "rouge_l", "right"
"""Keys of the rules, which are the figures' too."""


MOST_SHORT = 5
"""Words of a right wording up to which an answer is right or wrong; longer ones are free text."""


@dataclass(frozen=True)
class ScoringRule:
    """`rule` says in full what is done; `source` where the formula comes from, "" of our own."""

    key: str
    version: int
    rule: str
    source: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.key} (version {self.version}): {self.rule}" + (f" [{self.source}]" if self.source else "")


_ALL = (
    ScoringRule(
        RIGHT,
        2,
        "the right choice where a question has choices, else an exact match. Not for free text, where every right "
        f"wording has more than {MOST_SHORT} words, not counting a, an and the: many answers would do there, so "
        "token_f1 and rouge_l tell how near an answer is.",
    ),
    ScoringRule(
        EXACT,
        1,
        "1 where answer and any right wording are the same words in the same order, without case, punctuation and "
        "a, an and the; else 0. Not of questions with choices.",
        "SQuAD, Rajpurkar et al. 2016",
    ),
    ScoringRule(
        CHOICE,
        1,
        "1 where the choice that the answer names is the right one, else 0. It names: 1. the letter it begins with, "
        "alone or followed by one of ) ] . : , or a line's end; 2. else the last letter after 'answer is', 'answer:', "
        "'option' or 'choice', a capital one or one that no word follows; 3. else the only letter in round brackets; "
        "4. else the only choice whose words stand in it in order, of choices inside one another the longest. An "
        "answer that names none is wrong.",
    ),
    ScoringRule(
        TOKEN_F1,
        1,
        "harmonic mean of precision and recall of words, counted with repetitions, without case, punctuation and a, an "
        "and the; of several right wordings the best. Not of questions with choices.",
        "SQuAD, Rajpurkar et al. 2016",
    ),
    ScoringRule(
        ROUGE_L,
        1,
        "longest common subsequence of the first 20,000 words of each, F1; of several right wordings the best. Not of "
        "questions with choices.",
        "Lin 2004, section 3",
    ),
)

SCORING_RULES: dict[str, ScoringRule] = {rule.key: rule for rule in _ALL}
"""Every rule by its key, the one that says right or wrong first."""


LETTERS = string.ascii_uppercase
"""What choices are called, in order; a question has at most as many."""

MOST_ANSWERS = 100
"""Wordings of a right answer that are taken."""

ASKS_FOR_LETTER = "Answer with the letter of the right choice."


@dataclass(frozen=True)
class ExpectedAnswer(Plain):
    """`also`: wordings that are right besides the sample's `reference`; `choices`: what a question lets choose from, in
    order; `right`: the place of the right one, from 0 (None: no choices, or it is not told); `task`: what kind of
    question it is, by which figures are told apart."""

    also: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    right: int | None = None
    task: str = ""

    @property
    def letter(self) -> str:
        """The right choice's letter; "" where it is not told."""
        return "" if self.right is None else LETTERS[self.right]

    @classmethod
    def from_facts(cls, facts: object) -> ExpectedAnswer | None:
        """As a session tells it; None for what is none."""
        found = cls.if_fitting(facts) if isinstance(facts, dict) else None
        if found is None or len(found.choices) > len(LETTERS) or len(found.also) > MOST_ANSWERS:
            return None
        is_told = found.right is None or 0 <= found.right < len(found.choices)
        return found if is_told else None

    def to_facts(self) -> dict[str, Any]:
        return {
            "also": list(self.also),
            "choices": list(self.choices),
            "right": self.right,
            "letter": self.letter or None,
            "task": self.task,
        }


def with_choices(question: str, choices: Sequence[str]) -> str:
    """A question with its choices by letter, and a request for the letter; as it is where it tells all of them itself
    (so that nothing is told twice)."""
    asked = question.casefold()
    if not choices or all(choice.casefold() in asked for choice in choices):
        return question
    listed = (f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False))
    return "\n".join((question, *listed, ASKS_FOR_LETTER))
