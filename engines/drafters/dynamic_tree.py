"""Draft trees grown where the drafter is sure: of all tokens it thinks of, those with the likeliest paths.

Of each level the WIDTH likeliest nodes are looked below, each for its WIDTH likeliest children; of everything seen the
likeliest nodes are proposed (Li et al., "EAGLE-2", arXiv 2406.16858). A path's chance is the product of its
tokens', so a node never is likelier than its parent and what is proposed hangs together.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from engines.drafters.drafter import Proposal
from evprof.core.errors import Cancelled
from evprof.core.vocabulary.speculation import DynamicTree

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
    """A tree below the answer's last token, after which `first` [1, V] are the drafter's logits.

    `choices` is how many tokens it knows. Waits for the device once, at the end: which nodes there are is the tree's
    shape. Raises Cancelled when stopped between two levels.
    """
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
