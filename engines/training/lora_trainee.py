"""Teaching a draft to say what the target says: low-rank changes, distilled on the target's own answers.

Teacher-forced cross-entropy on the target's greedy answer in the draft's ids, given the draft's own prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from engines.adapters.lora import LowRankLinear, projections
from engines.decoder.kv_cache import DynamicKv
from engines.decoder.llama import LlamaDecoder
from engines.tokens.vocabulary_alignment import LACKING, Alignment, align
from engines.training.example import Example
from engines.training.padded import padded
from engines.training.trainee import Figures, Trainee, TraineeSide
from evprof.core.errors import UserError


class LoraTrainee(Trainee):
    """Changes of `draft` of one `rank`. The draft is the trainee's until `release`."""

    def __init__(self, draft: LlamaDecoder, alignment: Alignment, *, rank: int = 16, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.rank = rank
        self._draft, self._alignment = draft, alignment
        self._met = {other for other in alignment.to_target if other != LACKING}
        draft.requires_grad_(False)
        self._learnt: dict[str, LowRankLinear] = {}
        for name, layer, attribute, linear in list(projections(draft)):
            learnt = LowRankLinear(linear, rank, (linear.out_features, linear.in_features), linear.weight)
            self._learnt[name] = learnt
            setattr(layer, attribute, learnt)

    def release(self) -> None:
        """Gives the draft back as it was."""
        for name, learnt in self._learnt.items():
            _, index, attribute = name.split(".")
            setattr(self._draft.layers[int(index)], attribute, learnt.base)

    def parameters(self) -> list[nn.Parameter]:
        """Both factors of every change."""
        return [factor for learnt in self._learnt.values() for factor in (learnt.up, learnt.down)]

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        """Mean cross-entropy of those of the answers' tokens that the draft has ids for."""
        logits, answers, is_known = self._predict(examples)
        return F.cross_entropy(logits[is_known], answers[is_known])

    @torch.no_grad()
    def figures(self, examples: Sequence[Example]) -> Figures:
        """Loss over the tokens the draft can say; the match counts those it cannot as missed."""
        logits, answers, is_known = self._predict(examples)
        loss = F.cross_entropy(logits[is_known], answers[is_known])
        match = ((logits.argmax(dim=-1) == answers) & is_known).float().mean()
        return Figures(float(loss), float(match))

    def tensors(self) -> dict[str, torch.Tensor]:
        """Both factors of every change, by the projection's name."""
        return {
            f"{name}.{part}": getattr(learnt, part).detach().clone()
            for name, learnt in self._learnt.items()
            for part in ("up", "down")
        }

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Takes factors back."""
        with torch.no_grad():
            for name, learnt in self._learnt.items():
                learnt.up.copy_(tensors[f"{name}.up"])
                learnt.down.copy_(tensors[f"{name}.down"])

    def config(self) -> dict[str, Any]:
        """The rank."""
        return {"rank": self.rank}

    def _predict(self, examples: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits [N, V], answers [N] in the draft's ids, and which of these it has an id for, [N]."""
        draft, device = self._draft, self._draft.device
        rows, places, answers, known = [], [], [], []
        for example in examples:
            if example.draft_embeddings is None:
                raise UserError(f"Example {example.name} was collected without a draft; collect it again with --draft.")
            told: list[int] = example.answer_ids.tolist()
            ids = torch.tensor(self._alignment.for_draft(told), device=device)
            prompt = example.draft_embeddings.to(device, draft.embed_tokens.weight.dtype)
            rows.append(torch.cat([prompt, draft.embed(ids[:-1])]))
            places.append(range(prompt.shape[0] - 1, prompt.shape[0] - 1 + len(told)))
            answers.append(ids)
            known.append(torch.tensor([token in self._met for token in told], device=device))
        states = draft.trunk(padded(rows), DynamicKv(len(draft.layers)))
        asked = torch.cat([states[row, list(place)] for row, place in enumerate(places)])
        return draft.head(asked).float(), torch.cat(answers), torch.cat(known)


def make(side: TraineeSide) -> LoraTrainee:
    """Changes of the draft, for this target."""
    draft = side.paired
    alignment = align(draft.vocabulary, side.target.vocabulary)
    return LoraTrainee(draft.language_model, alignment, rank=side.size("rank", 16), seed=side.seed)
