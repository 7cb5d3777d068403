"""Training sequences: one visual prefix and several questions on it, each blind to the others.

The prefix (text before the slot, visual tokens) is the costly part, so a scene is read once and asked many times:
every question starts at the position right after the prefix and attends to the prefix and to itself alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bundled_pair.attributes import VALUES, Attributes
from bundled_pair.grammar import SUBJECTS, casual, draw_answer, draw_question
from bundled_pair.productions import DESCRIBE, HOW_MANY, IS_THERE, WHERE
from bundled_pair.tokenizer import BOS_ID, EOS_ID
from engines.tokens.prompts import PromptTemplate

Encode = Callable[[str], Sequence[int]]
IGNORED = -100
_PADDING = -1

_OFTENER = {IS_THERE: 4.0, HOW_MANY: 2.0, WHERE: 2.0}
"""Kinds of questions that take longest to learn are asked so many times oftener than others."""
_BOUNDS = np.cumsum([_OFTENER.get(kind, 1.0) for kind, _ in SUBJECTS])
_BOUNDS /= _BOUNDS[-1]


@dataclass(frozen=True, slots=True)
class Packed:
    """Questions and answers of B scenes, side by side in rows of L tokens; all int64.

    `tokens` and `targets` (the next token, or -100) are [B, L]; `turn` [B, L] numbers the question a token belongs to,
    -1 for padding; `place` [B, L] counts from the beginning of its question.
    """

    tokens: torch.Tensor
    targets: torch.Tensor
    turn: torch.Tensor
    place: torch.Tensor

    def positions(self, prefix: torch.Tensor, start: int) -> torch.Tensor:
        """[B, P + L] rotary positions: those of the `prefix` [P], then every question's from `start` on."""
        return torch.cat([prefix.expand(len(self.place), -1), self.place + start], dim=1)

    def answers(self) -> Iterator[tuple[int, ...]]:
        """The ids of every answer, its end with it."""
        for targets, turns in zip(self.targets.tolist(), self.turn.tolist(), strict=True):
            said: list[list[int]] = [[] for _ in range(max(turns) + 1)]
            for token, turn in zip(targets, turns, strict=True):
                if token != IGNORED:
                    said[turn].append(token)
            yield from map(tuple, said)

    def mask(self, prefix: int) -> torch.Tensor:
        """[B, 1, P + L, P + L] True where a position may look: back to the prefix and to its own question."""
        rows, length = self.turn.shape
        visible = torch.zeros(rows, prefix + length, prefix + length, dtype=torch.bool)
        visible[:, :, :prefix] = True
        visible[:, prefix:, prefix:] = self.turn[:, :, None] == self.turn[:, None, :]
        return (visible & torch.ones(prefix + length, prefix + length, dtype=torch.bool).tril())[:, None]


class Conversations:
    """Draws questions and answers as one model is to say them who sees the `visible` facts, never the same twice."""

    def __init__(self, encode: Encode, template: PromptTemplate, visible: Collection[str], length: int) -> None:
        self.template, self.visible, self.length = template, visible, length
        self.before = [BOS_ID, *encode(template.before)]
        self._encode = encode

    def batch(
        self, labels: NDArray[np.int64], count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], Packed]:
        """One step of the training: `count` rows among all the scenes' `labels`, and what is asked and said there."""
        rows = rng.integers(len(labels), size=count)
        return rows, self.draw(labels[rows], rng)

    def draw(self, labels: NDArray[np.int64], rng: np.random.Generator) -> Packed:
        """As many questions as fit, a description first, on each of the scenes of `labels` [B, facts]."""
        shape = (len(labels), self.length)
        tokens, place = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        targets, turn = np.full(shape, IGNORED), np.full(shape, _PADDING)
        for row, indices in enumerate(labels):
            start = 0
            for number, (question, reply) in enumerate(self.turns(attributes_of(indices), rng)):
                asked = self._encode(self.template.chunks(question)[1])
                said = [*self._encode(reply), EOS_ID]
                end = start + len(asked) + len(said)
                if end > self.length:
                    break
                tokens[row, start:end] = [*asked, *said]
                targets[row, start + len(asked) - 1 : end - 1] = said
                turn[row, start:end] = number
                place[row, start:end] = range(end - start)
                start = end
        return Packed(*map(torch.from_numpy, (tokens, targets, turn, place)))

    def turns(self, scene: Attributes, rng: np.random.Generator) -> Iterator[tuple[str, str]]:
        """Questions and answers without end; one question in eight as typed in haste."""
        subject = next(each for each in SUBJECTS if each[0] == DESCRIBE)
        while True:
            question = draw_question(rng, scene, subject, held_out=False)
            reply = draw_answer(rng, scene, question, self.visible, held_out=False).text
            yield casual(question.text) if rng.random() < 0.125 else question.text, reply
            subject = SUBJECTS[int(_BOUNDS.searchsorted(rng.random(), side="right"))]


def attributes_of(indices: NDArray[np.int64]) -> Attributes:
    """The scene of one row of labels."""
    return Attributes(**{name: VALUES[name][index] for name, index in zip(VALUES, indices, strict=True)})
