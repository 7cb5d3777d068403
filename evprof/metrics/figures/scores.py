"""How right an answer is: against the wordings, or the choices, that its sample expects (`vocabulary/scoring`).

A score is None where nothing is expected, or its rule is not for such a question; an answer that says nothing scores 0.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.scoring import CHOICE, EXACT, LETTERS, MOST_SHORT, RIGHT, ROUGE_L, SCORING_RULES, TOKEN_F1
from evprof.metrics.figures.decoding import answer_text
from evprof.metrics.figures.kept import kept

ROUGE_MOST_WORDS = 20_000
"""ROUGE-L looks at this many words of each text: its cost grows with the product of the lengths."""

OVERLAP_DEFINITION = "distinct lower-cased words of the first text that the second has too, of all it has"
JACCARD_DEFINITION = "distinct lower-cased words in both texts, of those in either"

_IDEOGRAPHS = (
    (0x3005, 0x3007),
    (0x3041, 0x3096),
    (0x309D, 0x309F),
    (0x30A1, 0x30FA),
    (0x30FC, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
"""Code points of scripts written without blanks between words: Chinese characters and Japanese kana."""


def words(text: str) -> list[str]:
    """Words as blanks divide them, punctuation and case kept: how long a text is, and what overlap is counted over."""
    return text.translate(_SPACED).split()


def squad_words(text: str) -> list[str]:
    """Words as SQuAD's evaluation normalises them: lower case, punctuation dropped, without a, an and the."""
    return _ARTICLES.sub(" ", text.lower().translate(_UNPUNCTUATED)).split()


def rouge_words(text: str) -> list[str]:
    """Lower-cased runs of letters and digits, in ASCII those of the rouge-score package, which drops other scripts."""
    return text.lower().translate(_LETTERS).split()


def word_count(text: str | None) -> int | None:
    """Words of a text; None where there is no text, 0 of an empty one."""
    return None if text is None else len(words(text))


def word_overlap(text: str | None, other: str | None) -> float | None:
    """Share of `text`'s distinct lower-cased words that `other` has too; None when `text` has none.

    The word overlap of the five documents' result files, with EventGPT's answer as `text`.
    """
    if text is None or other is None:
        return None
    own = set(words(text.lower()))
    return len(own & set(words(other.lower()))) / len(own) if own else None


def jaccard(text: str | None, other: str | None) -> float | None:
    """Distinct lower-cased words in both texts, of those in either; None when there are none."""
    if text is None or other is None:
        return None
    one, two = set(words(text.lower())), set(words(other.lower()))
    return len(one & two) / len(one | two) if one or two else None


@dataclass(frozen=True)
class Score:
    """`matched` of the candidate's and of the reference's words. `is_cut`: only the beginnings were compared."""

    matched: int
    candidate: int
    reference: int
    is_cut: bool = False

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall: 2 · matched / (candidate + reference)."""
        return 2 * self.matched / (self.candidate + self.reference)


def token_f1(candidate: str | None, reference: str | None) -> Score | None:
    """SQuAD's F1 (Rajpurkar et al. 2016): words in common, as often as both have them.

    None where there is no reference; an empty answer to a question with an answer scores 0.
    """
    if candidate is None or reference is None:
        return None
    said, wanted = squad_words(candidate), squad_words(reference)
    if not wanted:
        return None
    common = Counter(said) & Counter(wanted)
    return Score(common.total(), len(said), len(wanted))


def rouge_l(candidate: str | None, reference: str | None, most_words: int = ROUGE_MOST_WORDS) -> Score | None:
    """ROUGE-L of one text (Lin 2004, section 3): the longest common subsequence of words; F1, so beta = 1.

    None where there is no reference. Only the first `most_words` words of each are compared.
    """
    if candidate is None or reference is None:
        return None
    said, wanted = rouge_words(candidate), rouge_words(reference)
    if not wanted:
        return None
    is_cut = max(len(said), len(wanted)) > most_words
    said, wanted = said[:most_words], wanted[:most_words]
    return Score(common_subsequence(said, wanted), len(said), len(wanted), is_cut)


def common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence.

    A row of the table is one integer with a bit per word of `other` (Hyyrö 2004), so memory is linear and a step over
    a whole row is a few operations on long integers.
    """
    places: dict[str, int] = {}
    for place, word in enumerate(other):
        places[word] = places.get(word, 0) | 1 << place
    everything = (1 << len(other)) - 1
    row = everything
    for word in one:
        hits = row & places.get(word, 0)
        row = (row + hits | row - hits) & everything
    return len(other) - row.bit_count()


class _Table(dict[int, str]):
    """What becomes of each character, worked out when it is first met: text.translate takes a table that grows."""

    def __init__(self, dropped: str, replacement: str, also: str = "") -> None:
        super().__init__()
        self._dropped = dropped
        self._replacement = replacement
        self._also = also

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if any(low <= code <= high for low, high in _IDEOGRAPHS):
            found = f" {character} "
        elif unicodedata.category(character)[0] in self._dropped or character in self._also:
            found = self._replacement
        else:
            found = character
        self[code] = found
        return found


_SPACED = _Table("", "")
_UNPUNCTUATED = _Table("P", "", string.punctuation)
_LETTERS = _Table("PSZC", " ")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


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


def _f1(found: Score | None) -> float | None:
    return None if found is None else found.f1


_SCORES: dict[str, Callable[[str, str], float | None]] = {
    RIGHT: _exact,
    EXACT: _exact,
    TOKEN_F1: lambda answer, wanted: _f1(token_f1(answer, wanted)),
    ROUGE_L: lambda answer, wanted: _f1(rouge_l(answer, wanted)),
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
