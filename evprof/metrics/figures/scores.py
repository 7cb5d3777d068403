"""How right an answer is: against the wordings, or the choices, that its sample expects (`vocabulary/scoring`).

A score is None where nothing is expected, or its rule is not for such a question; an answer that says nothing scores 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.expected_answer import LETTERS
from evprof.core.vocabulary.scoring import CHOICE, EXACT, MOST_SHORT, RIGHT, ROUGE_L, SCORING_RULES, TOKEN_F1
from evprof.metrics.figures.decoding import answer_text
from evprof.metrics.figures.kept import kept
from evprof.metrics.figures.texts import rouge_l, squad_words, token_f1

_BEGINS = re.compile(r"[\s*(\[]*([A-Za-z])[*]*(?:[)\].:,]|[ \t]*(?:\n|\Z))")
_NAMED = re.compile(
    r"(?:(?i:answer\s+is)|(?i:answer)\s*:|(?i:option)|(?i:choice))[\s:*(\[]*"
    r"([A-Z](?![A-Za-z'])|[a-z](?=[*)\].:,]|\s*\Z))"
)
_IN_BRACKETS = re.compile(r"\(([A-Za-z])\)")

MOST_READ = 100_000
"""Characters of an answer that a choice is looked for in."""


def named_choice(answer: str, choices: Sequence[str]) -> int | None:
    """The place of the choice that an answer names, by the rule CHOICE; None where it names none, or several."""
    text = answer[:MOST_READ]
    begins = _BEGINS.match(text)
    if begins and (found := _place(begins[1], choices)) is not None:
        return found
    named = [place for letter in _NAMED.findall(text) if (place := _place(letter, choices)) is not None]
    if named:
        return named[-1]
    bracketed = {place for letter in _IN_BRACKETS.findall(text) if (place := _place(letter, choices)) is not None}
    if bracketed:
        return bracketed.pop() if len(bracketed) == 1 else None
    return _said_choice(text, choices)


def _place(letter: str, choices: Sequence[str]) -> int | None:
    place = LETTERS.index(letter.upper())
    return place if place < len(choices) else None


def _said_choice(text: str, choices: Sequence[str]) -> int | None:
    """The only choice whose words stand in the answer, leaving out those inside a longer one that does, too."""
    said = f" {' '.join(squad_words(text))} "
    worded = [f" {' '.join(squad_words(choice))} " for choice in choices]
    found = [place for place, words in enumerate(worded) if words.strip() and words in said]
    longest = [
        place
        for place in found
        if not any(worded[place] != worded[other] and worded[place] in worded[other] for other in found)
    ]
    return longest[0] if len(longest) == 1 else None


def score_of(key: str, answer: str, sample: Sample) -> float | None:
    """The score of an answer by one rule, 0…1; None where that rule is not for this question."""
    expected = sample.expected
    if expected is not None and expected.choices:
        if key not in (CHOICE, RIGHT) or expected.right is None:
            return None
        return float(named_choice(answer, expected.choices) == expected.right)
    if key == RIGHT and is_free_text(sample):
        return None
    scored = [_SCORES[key](answer, wanted) for wanted in sample.answers] if key in _SCORES else []
    return max((value for value in scored if value is not None), default=None)


def is_free_text(sample: Sample) -> bool:
    """Whether an answer to it is near or far, and neither right nor wrong, by the rule RIGHT."""
    has_choices = sample.expected is not None and bool(sample.expected.choices)
    return not has_choices and all(len(squad_words(wanted)) > MOST_SHORT for wanted in sample.answers)


def _exact(answer: str, wanted: str) -> float | None:
    words = squad_words(wanted)
    return float(squad_words(answer) == words) if words else None


def _f1(answer: str, wanted: str) -> float | None:
    found = token_f1(answer, wanted)
    return None if found is None else found.f1


def _rouge(answer: str, wanted: str) -> float | None:
    found = rouge_l(answer, wanted)
    return None if found is None else found.f1


_SCORES: dict[str, Callable[[str, str], float | None]] = {
    RIGHT: _exact,
    EXACT: _exact,
    TOKEN_F1: _f1,
    ROUGE_L: _rouge,
}


def score(run: RunLog, key: str) -> float | None:
    """The score of a run's answer by one rule; None of a run that has not ended, or expects nothing."""
    return _score(run, key, str(SCORING_RULES[key].version))


@kept(*((key, str(rule.version)) for key, rule in SCORING_RULES.items()))
def _score(run: RunLog, key: str, _version: str) -> float | None:
    sample = run.info.sample
    return score_of(key, answer_text(run), sample) if run.info.is_over and sample.is_scored else None


def scores_document(run: RunLog) -> dict[str, Any] | None:
    """`accuracy` of a run: its scores, the choice that its answer names, and the rules; None where nothing is expected.

    `named` is the letter of the choice, None where the answer names none or the question has no choices.
    """
    scored = {key: value for key in SCORING_RULES if (value := score(run, key)) is not None}
    if not scored:
        return None
    return {
        "scores": scored,
        "named": named_letter(run),
        "rules": {key: SCORING_RULES[key].sentence for key in scored},
    }


def named_letter(run: RunLog) -> str | None:
    """The letter of the choice that a run's answer names; None where it names none, or there are no choices."""
    expected = run.info.sample.expected
    place = named_choice(answer_text(run), expected.choices) if expected else None
    return None if place is None else LETTERS[place]
