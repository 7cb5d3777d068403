"""Training sequences: one visual prefix and several questions on it, each blind to the others.

The prefix (text before the slot, visual tokens) is the costly part, so a scene is read once and asked several times:
every question starts at the position right after the prefix and attends to the prefix and to itself alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bundled_pair.attributes import VALUES, Attributes
from bundled_pair.captions import GENERAL_PROMPTS, SPECIFIC_PROMPTS, answer, casual
from bundled_pair.tokenizer import BOS_ID, EOS_ID
from engines.tokens.prompts import PromptTemplate

Encode = Callable[[str], Sequence[int]]
IGNORED = -100


@dataclass(frozen=True, slots=True)
class Layout:
    """How one training sequence is cut: text before the slot, visual tokens, then one length per question."""

    before: int
    visual: int
    segments: tuple[int, ...]

    @property
    def prefix(self) -> int:
        return self.before + self.visual

    def positions(self) -> torch.Tensor:
        """[1, L] rotary positions; every question continues from the prefix."""
        parts = [torch.arange(self.prefix), *(torch.arange(length) + self.prefix for length in self.segments)]
        return torch.cat(parts)[None]

    def mask(self) -> torch.Tensor:
        """[1, 1, L, L] True where a position may look."""
        total = self.prefix + sum(self.segments)
        visible = torch.zeros(total, total, dtype=torch.bool)
        visible[:, : self.prefix] = True
        start = self.prefix
        for length in self.segments:
            visible[start : start + length, start : start + length] = True
            start += length
        return (visible & torch.ones_like(visible).tril())[None, None]


class Conversations:
    """Draws questions and answers in one model's style."""

    def __init__(
        self,
        encode: Encode,
        template: PromptTemplate,
        caption: Callable[[Attributes], str],
        visual: int,
        questions: int,
    ) -> None:
        self.encode, self.template, self.caption, self.questions = encode, template, caption, questions
        self.before = [BOS_ID, *encode(template.before)]
        every = [Attributes(**{**_FIRST, name: value}) for name, values in VALUES.items() for value in values]
        longest_caption = max(len(encode(caption(scene))) for scene in every)
        longest_answer = max(len(encode(answer(scene, name))) for scene in every for name in VALUES)
        longest_general = max(len(self._asked(spelled)) for spelled in _spellings(GENERAL_PROMPTS))
        longest_specific = max(
            len(self._asked(spelled)) for group in SPECIFIC_PROMPTS.values() for spelled in _spellings(group)
        )
        segments = (longest_general + longest_caption + 1, *([longest_specific + longest_answer + 1] * questions))
        self.layout = Layout(len(self.before), visual, segments)

    def _asked(self, question: str) -> Sequence[int]:
        return self.encode(self.template.chunks(question)[1])

    def draw(
        self, labels: NDArray[np.int64], blind: Sequence[str], rng: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Question tokens [B, sum of segments] and targets (the next token, or -100) for scenes of ``labels`` [B, 6].

        Attributes in ``blind`` are answered at random: the model cannot see them, and must learn that it does not know.
        """
        tokens = torch.zeros(len(labels), sum(self.layout.segments), dtype=torch.long)
        targets = torch.full_like(tokens, IGNORED)
        for row, indices in enumerate(labels):
            scene = _attributes(indices)
            guess = Attributes(
                **{name: str(rng.choice(VALUES[name])) if name in blind else getattr(scene, name) for name in VALUES}
            )
            names = rng.choice(list(VALUES), size=self.questions, replace=False)
            turns = [(_spell(GENERAL_PROMPTS, rng), self.caption(scene))]
            turns += [(_spell(SPECIFIC_PROMPTS[name], rng), answer(guess, name)) for name in names]
            start = 0
            for (question, reply), room in zip(turns, self.layout.segments, strict=True):
                asked = self._asked(question)
                said = [*self.encode(reply), EOS_ID]
                line = torch.tensor([*asked, *said])
                tokens[row, start : start + len(line)] = line
                first = start + len(asked) - 1
                targets[row, first : first + len(said)] = torch.tensor(said)
                start += room
        return tokens, targets


def _spellings(questions: Sequence[str]) -> list[str]:
    return [*questions, *map(casual, questions)]


def _spell(questions: Sequence[str], rng: np.random.Generator) -> str:
    """One of the questions, one time in eight as typed in haste."""
    question = str(rng.choice(questions))
    return casual(question) if rng.random() < 0.125 else question


_FIRST = {name: values[0] for name, values in VALUES.items()}


def _attributes(indices: NDArray[np.int64]) -> Attributes:
    return Attributes(**{name: VALUES[name][index] for name, index in zip(VALUES, indices, strict=True)})
