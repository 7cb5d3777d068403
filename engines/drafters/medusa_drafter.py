"""Medusa heads as drafter: all is drafted from the one state at which the target chose the answer's last token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from engines.adapters.kept import kept
from engines.adapters.medusa import MedusaHeads, load_medusa
from engines.decoder.decoding import CachedModel
from engines.decoder.sampling import draw
from engines.drafters.draft_side import DraftSide
from engines.drafters.drafter import PromptContext, Proposal, Verified
from engines.drafters.dynamic_tree import grow
from engines.drafters.head_drafter import HeadDrafter


class MedusaDrafter(HeadDrafter):
    """A chain of each head's choice, or a tree: each head's likeliest, the same below every node of a level, or the
    likeliest paths. `shaped` is what `HeadDrafter` is told.
    """

    def __init__(self, name: str, heads: MedusaHeads, target: CachedModel, **shaped: Any) -> None:
        super().__init__(name, target, heads.rows, **shaped)
        self._heads = heads
        self._state: torch.Tensor | None = None

    def start(self, context: PromptContext) -> None:
        """Takes the prompt's last state. Raises RuntimeError without it."""
        if context.features is None:
            raise RuntimeError("heads draft from the target's hidden states")
        self._state = context.features[0, -1:]

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        """As many tokens as there are heads at most, or a tree's first levels."""
        if self._state is None:
            raise RuntimeError("a drafter is started before it drafts")
        depth = min(count, self._heads.count, len(self._widths) or count)
        logits = self._heads.logits(self._state, depth, self._decoder)
        if (limits := self._limits(depth)) is not None:
            # What a head says is the same below every node.
            return grow(
                logits[0],
                lambda ids, _, level: logits[level].expand(ids.shape[0], -1),
                limits,
                choices=self._choices,
                is_stopped=is_stopped,
            )
        if self._widths:
            tree = self._tree(depth)
            chosen: list[torch.Tensor] = []
            seen: list[torch.Tensor] = []
            for level, row in zip(tree.levels, logits, strict=True):
                likeliest = row.topk(level.width, dim=-1).indices.flatten()
                chosen.append(likeliest.repeat(level.nodes // level.width))
                seen += [row] * level.nodes
            return Proposal(torch.cat(chosen), parents=tree.parents, logits=seen)
        if self._law is None:
            return Proposal(torch.cat([row.argmax(-1) for row in logits]), logits=logits)
        laws = self._law(torch.cat(logits))
        return Proposal(draw(laws, self._generator)[:, 0], laws, logits=logits)

    def observe(self, ids: Sequence[int], verified: Verified) -> None:
        """Keeps the state at the last place that stands: there the target chose what the answer now ends in."""
        if verified.features is None:
            raise RuntimeError("heads draft from the target's hidden states")
        last = verified.path[-1]
        self._state = verified.features[0, last : last + 1].clone()


def make(side: DraftSide) -> MedusaDrafter:
    """With heads of this target."""
    info, target = side.trained, side.target.language_model
    heads = kept(info, target, lambda: load_medusa(info, target, side.target.facts.name))
    return MedusaDrafter(info.name, heads, side.cached_target, **side.shaped)
