"""Draws questions and answers from the grammar, tells which productions were used, and reads answers back into facts.

A production is one right-hand side in one template: the same word in another template is another production. A fifth of
them is held out: training never draws them, so what is asked and expected on held-out scenes was never built that way.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from bundled_pair.attributes import VALUES, Attributes
from bundled_pair.productions import (
    ANSWERS,
    ASKED,
    CLAUSES,
    IS_THERE,
    QUESTION_RULES,
    QUESTIONS,
    RULES,
    WHERE,
)

HELD_OUT_SHARE = 5
"""One production in so many is held out."""

NAMED_BY: Mapping[str, Sequence[str]] = {
    "curvature": ("bends",),
    "roadside": ("verge",),
    "vehicle": ("vehicle",),
    "motion": ("moves",),
    "daylight": ("when", "light"),
    "colour": ("paint",),
    "balloons": ("void", "number"),
    "side": ("side",),
}
"""The symbols whose words state a fact."""

_UNSEEN = "?"
_STEEPNESS = 0.8
"""The nth choice is n to this power rarer than the first."""

_SLOT = re.compile(r"\{([^}]+)\}")


@dataclass(frozen=True, slots=True)
class Question:
    """`about` is the fact asked for ("" for a description), `asked` the value a question "is there" names."""

    text: str
    kind: str
    about: str
    asked: str = ""

    def truth(self, scene: Attributes) -> str:
        """What a right answer has to say: a value of the fact asked for, "none" for where nothing is, or yes or no."""
        if self.kind == IS_THERE:
            return "yes" if getattr(scene, self.about) == self.asked else "no"
        if self.kind == WHERE and scene.balloons == "none":
            return "none"
        return str(getattr(scene, self.about))

    def said(self, text: str) -> str | None:
        """What `text` says to the question, None when it says nothing clear."""
        found = parse(text)
        if self.kind == IS_THERE:
            return found.get("answer")
        if self.kind == WHERE and found.get("balloons") == "none":
            return "none"
        return found.get(self.about)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A text, the productions it was built with, and the bits of chance that went into it."""

    text: str
    productions: tuple[str, ...]
    bits: float


def casual(question: str) -> str:
    """The question as typed in haste: lower case, no full stop or question mark."""
    return question.lower().rstrip("?.")


SUBJECTS = tuple(QUESTIONS)
"""What can be asked: pairs of kind and fact."""


def draw_question(rng: np.random.Generator, scene: Attributes, subject: tuple[str, str], *, held_out: bool) -> Question:
    """A question on `subject`; "is there" is to be answered with yes half the time. `held_out`: worded in a new way."""
    kind, about = subject
    asked = ""
    if kind == IS_THERE:
        truth = getattr(scene, about)
        asked = truth if rng.random() < 0.5 else str(rng.choice([each for each in VALUES[about] if each != truth]))
    words = {"asked": (ASKED[about][asked],)} if asked else {}
    speaker = _Speaker(rng, {**QUESTION_RULES, **words}, {}, "", held_out=held_out)
    templates = [(text, ()) for text in QUESTIONS[subject]]
    return Question(speaker.drawn("asked " + "/".join(subject), templates).text, kind, about, asked)


def draw_answer(
    rng: np.random.Generator, scene: Attributes, question: Question, visible: Collection[str], *, held_out: bool
) -> Drawn:
    """An answer of one who sees the `visible` facts, and guesses at others when asked for them.

    `held_out`: built with at least one production that training never draws; otherwise with none of them.
    """
    facts = {name: getattr(scene, name) if name in visible else _UNSEEN for name in VALUES}
    if question.about and facts[question.about] == _UNSEEN:
        facts[question.about] = str(rng.choice(VALUES[question.about]))
    if question.kind == IS_THERE:
        facts["answer"] = question.truth(scene)
    subject = (question.kind, question.about)
    drawn = _Speaker(rng, RULES, facts, scene.vehicle, held_out=held_out).drawn("/".join(subject), ANSWERS[subject])
    sentences = [sentence[:1].upper() + sentence[1:] for sentence in drawn.text.split(". ")]
    return Drawn(". ".join(sentences) + ".", drawn.productions, drawn.bits)


class _Speaker:
    """Rewrites symbols until only words are left."""

    def __init__(
        self,
        rng: np.random.Generator,
        rules: Mapping[str, Sequence[str]],
        facts: Mapping[str, str],
        manner: str,
        *,
        held_out: bool,
    ) -> None:
        self._rng, self._rules, self._facts, self._manner, self._held_out = rng, rules, facts, manner, held_out

    def drawn(self, subject: str, templates: Sequence[tuple[str, tuple[str, ...]]]) -> Drawn:
        """One text; with `held_out`, the first one that has a held-out production in it."""
        while True:
            self._used: list[str] = []
            self._bits, self._is_new = 0.0, False
            text = self._choose(subject, subject, [text for text, _ in templates])
            self._template, told = text, next(told for each, told in templates if each == text)
            self._untold = [fact for fact in CLAUSES if fact not in told and self._facts.get(fact) != _UNSEEN]
            words = self._expand(text)
            if self._is_new or not self._held_out:
                return Drawn(words, tuple(self._used), self._bits)

    def _expand(self, text: str) -> str:
        return _SLOT.sub(lambda slot: self._expand(self._say(slot[1])), text)

    def _say(self, symbol: str) -> str:
        if symbol == "clause":
            fact = self._choose(self._template, "clause", self._untold)
            self._untold.remove(fact)
            return CLAUSES[fact]
        if symbol == "more" and not self._untold:
            return ""
        name, _, fact = symbol.partition("@")
        key = f"{name}@{self._facts[fact]}" if fact else name
        return self._choose(self._template, key, self._rules[key])

    def _choose(self, template: str, symbol: str, options: Sequence[str]) -> str:
        choice = _choice(template, symbol, self._manner, tuple(options), held_out=self._held_out)
        place = bisect_right(choice.bounds, self._rng.random())
        self._bits += choice.bits[place]
        self._used.append(choice.productions[place])
        self._is_new |= choice.left[place] in choice.out
        return choice.left[place]


@dataclass(frozen=True, slots=True)
class _Choice:
    """What is left to choose from, where a number drawn from 0 to 1 passes from one to the next, what each is worth in
    bits, the productions they make, and those of them that are held out."""

    left: tuple[str, ...]
    bounds: tuple[float, ...]
    bits: tuple[float, ...]
    productions: tuple[str, ...]
    out: frozenset[str]


@cache
def _choice(template: str, symbol: str, manner: str, options: tuple[str, ...], *, held_out: bool) -> _Choice:
    """The first of an order is the likeliest; each vehicle has an order of its own."""
    shift = crc32(f"{symbol}/{manner}".encode()) % len(options)
    out = held_out_options(template, symbol, options)
    left = tuple(each for each in (*options[shift:], *options[:shift]) if held_out or each not in out)
    shares = _shares(len(left))
    return _Choice(
        left,
        tuple(np.cumsum(shares[:-1]).tolist()),
        tuple((-np.log2(shares)).tolist()),
        tuple(f"{template} | {symbol} | {each}" for each in left),
        out,
    )


def _shares(count: int) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.arange(1, count + 1, dtype=np.float64) ** -_STEEPNESS
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


@cache
def held_out_options(template: str, symbol: str, options: tuple[str, ...]) -> frozenset[str]:
    """The right-hand sides of `symbol` that training never draws in `template`: one in :data:`HELD_OUT_SHARE`.

    At least two are left to training, of whole questions at least one is held out; what clauses tell is free.
    """
    if symbol == "clause":
        return frozenset()
    lot = crc32(f"{template}/{symbol}".encode()) % HELD_OUT_SHARE
    count = (len(options) + lot) // HELD_OUT_SHARE
    least = 1 if symbol.startswith("asked ") else 0
    order = sorted(options, key=lambda each: crc32(f"{template}/{symbol}/{each}".encode()))
    return frozenset(order[: max(least, min(count, len(options) - 2))])


_PHRASES: Mapping[str, Mapping[str, re.Pattern[str]]] = {
    fact: {
        value: re.compile(
            r"\b(?:"
            + "|".join(
                re.escape(phrase)
                for key, phrases in RULES.items()
                if key.endswith(f"@{value}") and (key.partition("@")[0] in names)
                for phrase in phrases
                if "{" not in phrase
            )
            + r")\b"
        )
        for value in values
    }
    for fact, values, names in (
        *((fact, values, NAMED_BY[fact]) for fact, values in VALUES.items()),
        ("answer", ("yes", "no"), ("says",)),
    )
}


_ALONG = re.compile("|".join(map(re.escape, RULES["along"])))
"""States no fact, though "both sides" has a number in it."""


def parse(text: str) -> dict[str, str]:
    """The facts a text names. A fact it does not name, or names in two ways, is absent."""
    lowered = _ALONG.sub("", text.lower())
    found: dict[str, str] = {}
    for fact, patterns in _PHRASES.items():
        named = [value for value, pattern in patterns.items() if pattern.search(lowered)]
        if len(named) == 1:
            found[fact] = named[0]
    return found
