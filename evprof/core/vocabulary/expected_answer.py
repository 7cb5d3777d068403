"""What a list says of the right answer beside its first wording: other wordings, choices, which is right, the task."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.plain import Plain

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
