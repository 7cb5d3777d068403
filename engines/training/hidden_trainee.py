"""Teaching a hidden-state adapter: the draft's hidden states behind each answer token -> the target's next token.

Teacher-forced cross-entropy on the target's own greedy answer, through the target's frozen norm and head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from engines.adapters.hidden import HiddenAdapter, HiddenSizes
from engines.decoder.llama import LlamaDecoder
from engines.training.example import Example
from engines.training.padded import joined_answers, padded
from engines.training.trainee import Figures, ModuleTrainee, TraineeSide
from evprof.core.errors import UserError

BLIND_SHARE = 0.1
"""Of the training batches the target's visual embeddings are kept back: inside its prefill they may not be there."""


class HiddenTrainee(ModuleTrainee):
    """An adapter of these `sizes` under a frozen target's norm and head."""

    def __init__(self, target: LlamaDecoder, sizes: HiddenSizes, *, seed: int = 0) -> None:
        torch.manual_seed(seed)
        weight = target.lm_head.weight
        self.adapter = HiddenAdapter(sizes).to(weight.device)
        super().__init__(self.adapter)
        self._device = weight.device
        self._norm, self._eps = target.norm.detach().float(), target.config.rms_norm_eps
        self._head = weight.detach().float()
        self._dice = torch.Generator().manual_seed(seed)

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        """Mean cross-entropy of the answers' tokens."""
        is_blind = float(torch.rand((), generator=self._dice)) < BLIND_SHARE
        _, logits, answers = self._predict(examples, is_blind=is_blind)
        return F.cross_entropy(logits, answers)

    @torch.no_grad()
    def figures(self, examples: Sequence[Example]) -> Figures:
        """Loss, share of tokens predicted, and how alike predicted and true hidden states are."""
        state, logits, answers = self._predict(examples, is_blind=False)
        true = torch.cat([example.target_features[example.target_prompt - 1 :] for example in examples])
        cosine = F.cosine_similarity(state, true.to(state.device, state.dtype), dim=-1).mean()
        loss = F.cross_entropy(logits, answers)
        match = (logits.argmax(dim=-1) == answers).float().mean()
        return Figures(float(loss), float(match), float(cosine))

    def config(self) -> dict[str, Any]:
        """The adapter's sizes."""
        return dict(self.adapter.sizes.config())

    def _predict(
        self, examples: Sequence[Example], *, is_blind: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Predicted hidden states [N, hidden], logits [N, V] and answer ids [N] of all tokens of all examples."""
        states = [_behind(example) for example in examples]
        counts = torch.tensor([state.shape[0] for state in states], device=self._device)
        hidden = padded(states).to(self._device, torch.float32)
        # Prompts of one model hold equally many visual positions, or they cannot stand in one batch.
        visual = torch.stack([_seen(example) for example in examples]).to(self._device, torch.float32)
        seen = None if is_blind else self.adapter.look(visual)
        is_there = torch.arange(hidden.shape[1], device=self._device) < counts[:, None]
        state = self.adapter(hidden, seen)[is_there]
        logits = F.linear(F.rms_norm(state, state.shape[-1:], self._norm, self._eps), self._head)
        return state, logits, joined_answers(examples, self._device)


def _behind(example: Example) -> torch.Tensor:
    """[n, draft]: the draft's hidden states whose next token each answer token is."""
    if example.draft_features is None or example.draft_embeddings is None:
        raise UserError(f"Example {example.name} was collected without a draft; collect it again with --draft.")
    return example.draft_features[example.draft_embeddings.shape[0] - 1 :]


def _seen(example: Example) -> torch.Tensor:
    first, count = example.target_visual
    return example.target_embeddings[first : first + count]


def make(side: TraineeSide) -> HiddenTrainee:
    """Between both models."""
    target, draft = side.target.language_model, side.paired.language_model
    width = target.config.hidden_size
    sizes = HiddenSizes(
        draft.config.hidden_size,
        width,
        side.size("bottleneck", 2 * width),
        side.size("heads", 4),
        side.size("head_dim", 32),
    )
    return HiddenTrainee(target, sizes, seed=side.seed)
