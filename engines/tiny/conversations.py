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

from engines.tiny.attributes import VALUES, Attributes
from engines.tiny.captions import GENERAL_PROMPTS, SPECIFIC_PROMPTS, answer
from engines.tiny.tokenizer import BOS_ID, EOS_ID

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
        pieces: Callable[[str], tuple[str, str]],
        caption: Callable[[Attributes], str],
        visual: int,
        questions: int,
    ) -> None:
        self.encode, self.pieces, self.caption, self.questions = encode, pieces, caption, questions
        self.before = [BOS_ID, *encode(pieces("")[0])]
        every = [Attributes(**{**_FIRST, name: value}) for name, values in VALUES.items() for value in values]
        longest_caption = max(len(encode(caption(scene))) for scene in every)
        longest_answer = max(len(encode(answer(scene, name))) for scene in every for name in VALUES)
        longest_general = max(len(encode(pieces(prompt)[1])) for prompt in GENERAL_PROMPTS)
        longest_specific = max(
            len(encode(pieces(prompt)[1])) for group in SPECIFIC_PROMPTS.values() for prompt in group
        )
        segments = (longest_general + longest_caption + 1, *([longest_specific + longest_answer + 1] * questions))
        self.layout = Layout(len(self.before), visual, segments)

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
            turns = [(str(rng.choice(GENERAL_PROMPTS)), self.caption(scene))]
            turns += [(str(rng.choice(SPECIFIC_PROMPTS[name])), answer(guess, name)) for name in names]
            start = 0
            for (question, reply), room in zip(turns, self.layout.segments, strict=True):
                asked = self.encode(self.pieces(question)[1])
                said = [*self.encode(reply), EOS_ID]
                line = torch.tensor([*asked, *said])
                tokens[row, start : start + len(line)] = line
                first = start + len(asked) - 1
                targets[row, first : first + len(said)] = torch.tensor(said)
                start += room
        return tokens, targets


_FIRST = {name: values[0] for name, values in VALUES.items()}


def _attributes(indices: NDArray[np.int64]) -> Attributes:
    return Attributes(**{name: VALUES[name][index] for name, index in zip(VALUES, indices, strict=True)})
