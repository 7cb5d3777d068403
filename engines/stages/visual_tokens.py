"""Visual tokens of a prompt: how many there are, and which of them are kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from engines.tokens.uploads import moved
from evprof.core.vocabulary.switches import PRUNINGS

ATTENTION, SIMILARITY, RANDOM = PRUNINGS

_SEED = 1


def kept_count(tokens: int, keep: float) -> int:
    """How many of `tokens` are kept: ceil(keep · tokens), at least one. `keep` lies above 0 and up to 1."""
    # 0.1 * 30 is 3.0000000000000004 in floating point, and 3 is meant.
    return max(1, math.ceil(round(keep * tokens, 6)))


def choose_tokens(by: str, count: int, *, scores: Callable[[], torch.Tensor], features: torch.Tensor) -> torch.Tensor:
    """Indices [T, count] of the tokens kept among `features` [T, P, width], in order. `scores` gives [T, P] if
    needed."""
    if by == RANDOM:
        return any_tokens(features, count)
    return most_attended(scores(), count) if by == ATTENTION else most_diverse(features, count)


def any_tokens(features: torch.Tensor, count: int) -> torch.Tensor:
    """Features [T, P, width] -> random indices [T, count], in order, the same in every run."""
    lots = torch.rand(features.shape[:2], generator=torch.Generator().manual_seed(_SEED))
    return moved(most_attended(lots, count), features.device)


def most_attended(scores: torch.Tensor, count: int) -> torch.Tensor:
    """Scores [T, P] -> indices [T, count] of the highest, in order (EViT, Liang et al., 2022; FasterVLM, Zhang et al.,
    2024)."""
    ranked = scores.argsort(dim=-1, descending=True, stable=True)
    return ranked[:, :count].sort(dim=-1).values


def most_diverse(features: torch.Tensor, count: int) -> torch.Tensor:
    """Features [T, P, width] -> indices [T, count] of a diverse set, in order: the greedy solution of the max-min
    diversity problem on cosine distance (DivPrune, Alvar et al., CVPR 2025). Reads nothing back from the device."""
    frames, tokens, _ = features.shape
    unit = F.normalize(features.float(), dim=-1)
    distance = 1 - unit @ unit.transpose(-1, -2)
    chosen = torch.empty(frames, count, dtype=torch.long, device=features.device)
    itself = torch.eye(tokens, dtype=torch.bool, device=features.device)
    nearest = distance.masked_fill(itself, torch.inf).amin(dim=-1)
    every = torch.arange(frames, device=features.device)
    for place in range(count):
        latest = nearest.argmax(dim=-1)
        chosen[:, place] = latest
        away = distance[every, latest]
        nearest = away if place == 0 else torch.minimum(nearest, away)
        # A chosen token never comes again, even where copies of it are left.
        nearest = nearest.scatter(1, chosen[:, : place + 1], -torch.inf)
    return chosen.sort(dim=-1).values


def with_class_token(patches: torch.Tensor) -> torch.Tensor:
    """Indices of patches [T, K] -> indices among all tokens [T, 1 + K]: the class token, which is row 0, and those."""
    return F.pad(patches + 1, (1, 0))


def gather_tokens(tokens: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Tokens [T, N, width] and indices [T, K] -> [T, K, width]."""
    return tokens.gather(1, indices.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))


@dataclass(frozen=True)
class VisualCounts:
    """Visual positions: `per_frame` are each frame's own, `shared` belong to all frames together."""

    per_frame: tuple[int, ...]
    shared: int = 0

    @property
    def total(self) -> int:
        return sum(self.per_frame) + self.shared

    def first(self, count: int) -> VisualCounts:
        """Those among the first `count` positions; a frame's own come before what is shared."""
        left = count
        own = []
        for positions in self.per_frame:
            own.append(min(positions, left))
            left -= own[-1]
        return VisualCounts(tuple(own), min(self.shared, left))


def framewise_counts(frames: int, tokens: int, keep: float = 1.0) -> VisualCounts:
    """Every frame brings its `tokens`, or the kept share of them."""
    return VisualCounts((kept_count(tokens, keep),) * frames)


def pooled_counts(frames: int, tokens: int, keep: float = 1.0) -> VisualCounts:
    """EventGPT's pooling: one mean per frame, and for all frames together one mean per token (or its kept share)."""
    return VisualCounts((1,) * frames, kept_count(tokens, keep))
