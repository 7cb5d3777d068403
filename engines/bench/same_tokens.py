"""Whether a step chooses the tokens of the eager step: at every position, after the same words.

Answers that run freely part for good at the first near-tie. Here the eager step's answer is fed to both, so that each
position is a comparison of its own, and where they choose differently it is measured how close the two tokens were.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from threading import Event
from typing import Any

import torch

from engines.bench.ours import OurTurns
from engines.speculation.near_ties import NEAR_TIE_ULPS, divergence, gap_ulps

_NEVER = Event()


@dataclass(frozen=True)
class SameTokens:
    """`gaps_ulps`: for each position that differs, from the eager step's largest logit to the other token's, in units
    of its last place. `is_forced`: every position was compared after the same words; else answers ran freely, and only
    the first position that differs was judged."""

    positions: int
    equal: int
    gaps_ulps: tuple[float, ...]
    is_forced: bool = True

    def to_json(self) -> dict[str, Any]:
        """For a row; an infinite gap, where an answer ended by itself, is None."""
        widest = max(self.gaps_ulps, default=None)
        return {
            "compared_positions": self.positions,
            "same_positions": self.equal,
            "same_tokens": self.equal / self.positions if self.positions else None,
            "divergences": len(self.gaps_ulps),
            "near_ties": sum(gap <= NEAR_TIE_ULPS for gap in self.gaps_ulps),
            "widest_gap_ulps": widest if widest is not None and math.isfinite(widest) else None,
            "is_forced": self.is_forced,
        }


def forced_logits(turns: OurTurns, ids: tuple[int, ...]) -> torch.Tensor:
    """Feeds an answer after the prompt, token by token: logits [len(ids), V] that each of its tokens is chosen from."""
    cached = turns.cached
    cached.opened.crop(0)
    with torch.inference_mode():
        fed = torch.tensor([ids], device=turns.workload.device)
        # Copies: what a captured step returns is overwritten by the next one.
        found = [cached.prefill(turns.workload.embeddings, _NEVER)[0].clone()]
        found += [cached.step(fed[:, at : at + 1])[0, -1].clone() for at in range(len(ids) - 1)]
        return torch.stack(found)


def same_when_forced(reference: torch.Tensor, logits: torch.Tensor) -> SameTokens:
    """Two steps' logits [N, V] after the same words."""
    expected, chosen = reference.argmax(-1), logits.argmax(-1)
    places = torch.nonzero(expected != chosen).flatten().tolist()
    gaps = tuple(gap_ulps(reference[place], int(chosen[place])) for place in places)
    return SameTokens(len(reference), len(reference) - len(places), gaps)


def same_running_freely(eager: OurTurns, plain: tuple[int, ...], other: tuple[int, ...]) -> SameTokens:
    """Two answers of the same model to one prompt, the plain one the eager step's."""
    equal = sum(one == two for one, two in zip(plain, other, strict=False))
    workload = eager.workload
    found = divergence(workload.decoder, workload.embeddings, plain, other)
    return SameTokens(max(len(plain), len(other)), equal, () if found is None else (found.gap_ulps,), is_forced=False)
