"""Drafters with heads on a target's hidden states: shared code and draft trees, and Medusa heads.

A static tree has fixed widths for each level. A dynamic tree grows where the drafter is sure (Li et al., "EAGLE-2",
arXiv 2406.16858): of each level the WIDTH likeliest nodes are expanded with their WIDTH likeliest children. The
chance of a path is the product of its tokens' chances, so a node is never likelier than its parent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from typing import Any

import torch

from engines.adapters.folder import kept
from engines.adapters.medusa import MedusaHeads, load_medusa
from engines.decoder.decoding import CachedModel
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import Law, draw
from engines.drafters.drafter import Drafter, DraftSide, PromptContext, Proposal, Verified, parents_of
from engines.tokens.uploads import moved
from evprof.core.errors import Cancelled
from evprof.core.vocabulary.speculation import DynamicTree


@dataclass(frozen=True)
class Level:
    """`width` children for each node above, `nodes` in all."""

    width: int
    nodes: int


class StaticTree:
    """What is the same for every tree of these widths: nodes level by level, siblings side by side."""

    def __init__(self, widths: Sequence[int]) -> None:
        sizes = accumulate(widths, mul)
        self.levels = [Level(width, nodes) for width, nodes in zip(widths, sizes, strict=True)]
        self.parents = parents_of(widths)
        self._seen = torch.eye(len(self.parents), dtype=torch.bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                self._seen[node] |= self._seen[parent]
        self._masks: dict[int, torch.Tensor] = {}

    def mask(self, depth: int, base: int, device: torch.device) -> torch.Tensor | None:
        """What the nodes of level `depth` - 1 may see, [nodes, base + all nodes so far]: their own branch."""
        level = self.levels[depth - 1]
        end = sum(each.nodes for each in self.levels[:depth])
        if end == depth:
            return None  # one branch so far
        own = self._masks.get(depth)
        if own is None:
            own = self._masks[depth] = moved(self._seen[end - level.nodes : end, :end], device)
        return torch.cat([own.new_ones(level.nodes, base), own], dim=1)


WIDTH = 10
"""Nodes looked below on a level, and children seen of each; EAGLE-2's own number."""

Expand = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
"""Tokens [W] of a level, for each the row [W] of its parent among the rows this gave last, and the level's number from
1 -> logits [W, V] of what follows each."""


def grow(
    first: torch.Tensor,
    expand: Expand,
    limits: DynamicTree,
    *,
    choices: int,
    is_stopped: Callable[[], bool],
) -> Proposal:
    """A tree below the answer's last token, after which `first` [1, V] are the drafter's logits; it knows `choices`
    tokens. Waits for the device once, for the tree's shape. Raises Cancelled when stopped between two levels."""
    wide = min(WIDTH, limits.nodes)
    width = min(wide, choices)
    logits = [first]
    chances, ids = (told[0] for told in _likeliest(first, width))
    every_chance, every_id = [chances], [ids]
    every_parent, every_row = [torch.full_like(ids, -1)], [torch.zeros_like(ids)]
    # Of the nodes looked below: their numbers among all seen, and the row of their parent on the level above.
    numbers, rows = torch.arange(width, device=ids.device), torch.zeros_like(ids)
    seen, made = width, 1
    for level in range(1, limits.depth):
        if is_stopped():
            raise Cancelled
        logits.append(expand(ids, rows, level))
        more, below = _likeliest(logits[-1], width)
        totals, below, looked = (chances[:, None] + more).flatten(), below.flatten(), ids.shape[0]
        every_chance.append(totals)
        every_id.append(below)
        every_parent.append(numbers.repeat_interleave(width))
        every_row.append(torch.arange(made, made + looked, device=ids.device).repeat_interleave(width))
        chances, picked = _first(totals, wide)
        ids, rows, numbers = below.index_select(0, picked), picked // width, picked + seen
        seen, made = seen + looked * width, made + looked
    _, chosen = _first(torch.cat(every_chance), min(limits.nodes, seen))
    chosen = chosen.sort().values
    above = torch.cat(every_parent).index_select(0, chosen)
    parents = torch.where(above < 0, above, torch.searchsorted(chosen, above))
    read: list[list[int]] = torch.stack([parents, torch.cat(every_row).index_select(0, chosen)]).tolist()
    each = [row for level in logits for row in level.split(1)]
    return Proposal(
        torch.cat(every_id).index_select(0, chosen),
        parents=tuple(read[0]),
        logits=[each[row] for row in read[1]],
    )


def _likeliest(logits: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row [N, V] the likeliest tokens: their chances' logarithms, never above 0, and ids, [N, width] each."""
    top = logits.float().log_softmax(-1).topk(width, dim=-1)
    return top.values.clamp(max=0), top.indices


def _first(chances: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest of [N], of equals the first: a parent stands before its children, and so comes with them."""
    ordered = chances.sort(descending=True, stable=True)
    return ordered.values[:count], ordered.indices[:count]


class HeadDrafter(Drafter):
    """Drafts greedily, or draws from `law` with `generator`; trees, with `widths` or `dynamic` limits, are greedy.
    `target` has the hidden states, `choices` is how many tokens the head knows (0: all)."""

    wants_features = True

    def __init__(
        self,
        name: str,
        target: CachedModel,
        choices: int,
        *,
        widths: Sequence[int] = (),
        dynamic: DynamicTree | None = None,
        law: Law | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if not isinstance(target.decoder, LlamaDecoder):
            raise TypeError("a head looks at a Llama's hidden states")
        super().__init__(name, target.device)
        self._decoder, self._choices = target.decoder, choices or target.decoder.rows
        self._widths = tuple(min(width, self._choices) for width in widths)
        self._dynamic, self._law, self._generator = dynamic, law, generator
        self._trees: dict[int, StaticTree] = {}

    def _limits(self, levels: int) -> DynamicTree | None:
        """Those of a dynamic tree, of so many levels at most; None where none was asked for."""
        return None if self._dynamic is None else replace(self._dynamic, depth=min(levels, self._dynamic.depth))

    def _tree(self, levels: int) -> StaticTree:
        found = self._trees.get(levels)
        if found is None:
            found = self._trees[levels] = StaticTree(self._widths[:levels])
        return found


class MedusaDrafter(HeadDrafter):
    """A chain of each head's choice, or a tree of each head's likeliest tokens. `shaped` goes to `HeadDrafter`."""

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
        if verified.features is None:
            raise RuntimeError("heads draft from the target's hidden states")
        last = verified.path[-1]
        self._state = verified.features[0, last : last + 1].clone()


def make_medusa(side: DraftSide) -> MedusaDrafter:
    info, target = side.trained, side.target.language_model
    heads = kept(info, target, lambda: load_medusa(info, target, side.target.facts.name))
    return MedusaDrafter(info.name, heads, side.cached_target, **side.shaped)
