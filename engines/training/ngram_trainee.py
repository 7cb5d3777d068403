"""Counts of the target's own answers as something that is trained: one look at all examples is the whole training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from engines.adapters.ngram import MOST_CONTEXTS, ORDER, NgramCounts
from engines.training.example import Example
from engines.training.trainee import Figures, Trainee, TraineeSide


class NgramTrainee(Trainee):
    """Counts continuations of up to `order` ids; `rows` is the target's vocabulary."""

    def __init__(self, rows: int, *, order: int = ORDER) -> None:
        self._rows = rows
        self._order = order
        self.counts = NgramCounts(order, {})

    def parameters(self) -> list[nn.Parameter]:
        """None: it is counted."""
        return []

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        """The mean loss of the counts as they are; there is nothing to differentiate."""
        return torch.tensor(self.figures(examples).loss)

    def fit(self, examples: Sequence[Example]) -> None:
        """Counts all answers, in place of what was counted before."""
        self.counts = NgramCounts.of((example.answer_ids.tolist() for example in examples), self._order, MOST_CONTEXTS)

    def figures(self, examples: Sequence[Example]) -> Figures:
        """Over answer tokens behind the first, which is never drafted. Cross-entropy in nats: the likeliest token has
        its confidence, all others share the rest evenly."""
        loss, right, judged = 0.0, 0, 0
        for example in examples:
            answer: list[int] = example.answer_ids.tolist()
            for place in range(1, len(answer)):
                found = self.counts.after(answer[:place])
                is_right = found is not None and found.token == answer[place]
                sure = 0.0 if found is None else found.confidence
                others = self._rows - (found is not None)
                loss -= math.log(sure if is_right else (1 - sure) / max(1, others))
                right += is_right
                judged += 1
        return Figures(loss / judged if judged else math.nan, right / judged if judged else math.nan)

    def tensors(self) -> dict[str, torch.Tensor]:
        """The tables."""
        return self.counts.tensors()

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Takes tables back."""
        self.counts = NgramCounts.from_tensors(tensors, self._order, self._rows, "the training's own state")

    def config(self) -> dict[str, Any]:
        """Sizes."""
        return self.counts.config()


def make(side: TraineeSide) -> NgramTrainee:
    """Of the target's vocabulary."""
    return NgramTrainee(side.target.language_model.rows, order=side.size("order", ORDER))
