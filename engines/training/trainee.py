"""What is trained, as the training loop sees it: parameters, a loss over examples, figures on held-out ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from engines.training.example import Example


@dataclass(frozen=True)
class Figures:
    """On held-out examples: mean `loss` per token, `match` is the share of answer tokens that would be drafted right
    (teacher-forced), `cosine` the mean cosine of predicted and true hidden states where the kind predicts any."""

    loss: float
    match: float
    cosine: float | None = None


class Trainee(Protocol):
    """An adapter being trained. Models it hangs on are frozen and shared."""

    kind: str

    def parameters(self) -> list[nn.Parameter]:
        """What is trained; empty for what is counted rather than trained (then `fit` does everything)."""

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        """Mean loss of a batch, with gradients."""

    def fit(self, examples: Sequence[Example]) -> None:
        """Takes all training examples in at once; nothing for what is trained by steps."""

    def figures(self, examples: Sequence[Example]) -> Figures:
        """On held-out examples, without gradients."""

    def tensors(self) -> dict[str, torch.Tensor]:
        """What is stored in adapter.safetensors."""

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Takes stored tensors back, for the best state of a training."""

    def config(self) -> dict[str, Any]:
        """Sizes, for adapter.json."""
