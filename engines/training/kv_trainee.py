"""Teaching a map of caches: the frozen target answers over the mapped cache and is held to its own greedy answer.

Teacher-forced cross-entropy, through the target's layers, over a cache that is the map's at the visual positions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from engines.adapters.kv_map import KvMap, KvSizes
from engines.decoder.kv_cache import DynamicKv
from engines.decoder.llama import LlamaDecoder
from engines.training.example import Example
from engines.training.padded import padded
from engines.training.trainee import Figures, ModuleTrainee, TraineeSide
from evprof.core.errors import UserError


class KvTrainee(ModuleTrainee):
    """A map between the caches of two frozen models."""

    def __init__(self, draft: LlamaDecoder, target: LlamaDecoder, *, bottleneck: int = 64, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self._draft, self._target = draft.requires_grad_(False), target.requires_grad_(False)
        self.map = KvMap(KvSizes.between(draft, target, bottleneck)).to(target.device)
        super().__init__(self.map)

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        """Mean cross-entropy of the answers' tokens."""
        logits, answers = self._predict(examples)
        return F.cross_entropy(logits, answers)

    @torch.no_grad()
    def figures(self, examples: Sequence[Example]) -> Figures:
        """Loss, and the share of tokens the target says again."""
        logits, answers = self._predict(examples)
        loss = F.cross_entropy(logits, answers)
        return Figures(float(loss), float((logits.argmax(dim=-1) == answers).float().mean()))

    def config(self) -> dict[str, Any]:
        """The map's sizes."""
        return self.map.sizes.config()

    def _predict(self, examples: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [N, V] and answer ids [N] of all tokens, examples whose prompts begin alike at a time."""
        alike: dict[tuple[int, int], list[Example]] = defaultdict(list)
        for example in examples:
            alike[(example.target_visual[0], _visual(example)[1])].append(example)
        found = [self._answered(group) for group in alike.values()]
        return torch.cat([logits for logits, _ in found]), torch.cat([answers for _, answers in found])

    def _answered(self, examples: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor]:
        target, device = self._target, self._target.device
        dtype = target.embed_tokens.weight.dtype
        rows, places, answers = [], [], []
        for example in examples:
            ids = example.answer_ids.to(device)
            after = example.target_embeddings[sum(example.target_visual) :].to(device, dtype)
            rows.append(torch.cat([after, target.embed(ids[:-1])]))
            places.append(range(after.shape[0] - 1, rows[-1].shape[0]))
            answers.append(ids)
        before = torch.stack([example.target_embeddings[: example.target_visual[0]] for example in examples])
        cache = DynamicKv(len(target.layers))
        with torch.no_grad():
            states = self.draft_levels(examples)
            target.trunk(before.to(device, dtype), cache)
        self.map.fill(self.map.predict(states), target, cache)
        hidden = target.trunk(padded(rows), cache)
        asked = torch.cat([hidden[row, list(place)] for row, place in enumerate(places)])
        return target.head(asked).float(), torch.cat(answers)

    def draft_levels(self, examples: Sequence[Example]) -> list[torch.Tensor]:
        """Level by level the draft's hidden states at its visual positions, [B, V, draft], on the target's device."""
        draft = self._draft
        first, count = _visual(examples[0])
        rows = torch.stack([_embeddings(example)[: first + count] for example in examples])
        kept: list[torch.Tensor] = []
        left = draft.trunk(
            rows.to(draft.device, draft.embed_tokens.weight.dtype), DynamicKv(len(draft.layers)), inputs=kept
        )
        return [level[:, first:].to(self._target.device, torch.float32) for level in (*kept, left)]


def _embeddings(example: Example) -> torch.Tensor:
    if example.draft_embeddings is None:
        raise UserError(f"Example {example.name} was collected without a draft; collect it again with --draft.")
    return example.draft_embeddings


def _visual(example: Example) -> tuple[int, int]:
    if example.draft_visual is None:
        raise UserError(f"Example {example.name} was collected without a draft; collect it again with --draft.")
    return example.draft_visual


def make(side: TraineeSide) -> KvTrainee:
    """Between both models."""
    return KvTrainee(
        side.paired.language_model,
        side.target.language_model,
        bottleneck=side.size("bottleneck", 64),
        seed=side.seed,
    )
