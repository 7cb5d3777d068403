"""What is trained, as the training loop sees it: parameters, a loss over examples, figures on held-out ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from engines.stages.model import VisionLanguageModel
from engines.training.example import Example
from evprof.core.errors import UserError


@dataclass(frozen=True)
class Figures:
    """On held-out examples: mean `loss` per token, and `match`, the teacher-forced share of right tokens."""

    loss: float
    match: float


class Trainee(ABC):
    """An adapter being trained. Models it hangs on are frozen and shared."""

    @abstractmethod
    def parameters(self) -> list[nn.Parameter]:
        """What is trained; empty for what is counted rather than trained (then `fit` does everything)."""

    @abstractmethod
    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        """Mean loss of a batch, with gradients."""

    @abstractmethod
    def figures(self, examples: Sequence[Example]) -> Figures:
        """On held-out examples, without gradients."""

    @abstractmethod
    def tensors(self) -> dict[str, torch.Tensor]:
        """What is stored in adapter.safetensors."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Sizes, for adapter.json."""

    def fit(self, examples: Sequence[Example]) -> None:
        return

    def release(self) -> None:
        return


class ModuleTrainee(Trainee):
    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def parameters(self) -> list[nn.Parameter]:
        return list(self._module.parameters())

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self._module.state_dict().items()}


@dataclass(frozen=True)
class Forced:
    """Teacher-forced `logits` [N, V] and `answers` [N]. `known` [N] is False for tokens that count as missed and have
    no loss."""

    logits: torch.Tensor
    answers: torch.Tensor
    known: torch.Tensor | None = None

    def loss(self) -> torch.Tensor:
        chosen = slice(None) if self.known is None else self.known
        return F.cross_entropy(self.logits[chosen], self.answers[chosen])


class ForcedTrainee(Trainee):
    """A trainee whose loss and figures come from one teacher-forced pass."""

    @abstractmethod
    def predict(self, examples: Sequence[Example], *, is_training: bool) -> Forced:
        """All answer tokens of all examples."""

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        return self.predict(examples, is_training=True).loss()

    @torch.no_grad()
    def figures(self, examples: Sequence[Example]) -> Figures:
        forced = self.predict(examples, is_training=False)
        right = forced.logits.argmax(dim=-1) == forced.answers
        if forced.known is not None:
            right &= forced.known
        return Figures(float(forced.loss()), float(right.float().mean()))


@dataclass(frozen=True)
class TraineeSide:
    """`sizes` are requested by name; the kind has defaults. Examples keep the inputs of the target's `layers`."""

    target: VisionLanguageModel
    draft: VisionLanguageModel | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    layers: tuple[int, ...] = ()

    @property
    def paired(self) -> VisionLanguageModel:
        """The draft. Raises UserError where none took part."""
        if self.draft is None:
            raise UserError(
                "This kind is taught from the draft's hidden states, and the examples were collected without a draft; "
                "collect them with one."
            )
        return self.draft

    def size(self, name: str, default: int) -> int:
        return self.sizes.get(name, default)
