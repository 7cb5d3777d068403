"""Drafts what the target itself thought likely after the same token before: nothing it worked out is thrown away.

For every token the likeliest ones after it are kept, as the target's logits named them last, at every place of every
verified block, rejected ones too; a chain or a static tree is read off that table. Source: token recycling (Luo et al.,
arXiv 2408.08696), whose tables hold eight tokens a row as well. No model, and nothing to train.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch

from engines.drafters.answer_memory import AnswerMemory, memory_of
from engines.drafters.draft_side import DraftSide
from engines.drafters.drafter import Drafter, Proposal, Verified
from engines.tokens.uploads import upload

NAME = "token recycling"

KEPT = 8
"""Tokens that are kept after each."""

MOST_ROWS = 1 << 15
"""Of earlier answers that are remembered: 2 MB."""

Rows = tuple[tuple[int, ...], torch.Tensor]
"""Tokens, and those that follow each [n, KEPT]."""


class RecyclingDrafter(Drafter):
    """Drafts chains, or trees of `widths`, for a target with so many `rows`; the table lies on `device`.

    `memory` holds what earlier answers taught; that of those `about` the same is left out. Proposed for certain.
    """

    def __init__(
        self,
        device: torch.device,
        rows: int,
        *,
        widths: Sequence[int] = (),
        memory: AnswerMemory[Rows] | None = None,
        about: Hashable = None,
    ) -> None:
        super().__init__(NAME, device)
        self._kept = min(KEPT, rows)
        self._widths = tuple(min(width, self._kept) for width in widths)
        self._memory, self._about = memory, about
        self._table = torch.zeros(rows, self._kept, dtype=torch.long, device=device)
        self._known: set[int] = set()
        self._learnt: set[int] = set()
        for tokens, following in () if memory is None else memory.others(about):
            self._put(tokens, following)

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        """A chain of `count` tokens, or a tree's first `count` levels at most; nothing after a token that is new."""
        if ids[-1] not in self._known:
            return Proposal.nothing()
        last = upload(ids[-1:], self.device)
        if not self._widths:
            return Proposal(self._chain(last, count))
        widths = self._widths[:count]
        levels: list[torch.Tensor] = []
        for width in widths:
            above = levels[-1] if levels else last
            levels.append(self._table[above, :width].flatten())
        return Proposal(torch.cat(levels), parents=parents_of(widths))

    def observe(self, ids: Sequence[int], verified: Verified) -> None:
        """Learns what the target thought likely at every place of the block; of a token that stands there twice, at
        the last place, but at one that stands if there is one."""
        if verified.logits is None:
            return
        places = {token: place for place, token in enumerate(verified.block)}
        places |= {verified.block[place]: place for place in verified.path}
        at = upload(list(places.values()), self.device)
        self._put(tuple(places), verified.logits.topk(self._kept, dim=-1).indices.index_select(0, at))
        self._learnt.update(places)

    def finish(self, ids: Sequence[int]) -> None:
        """Keeps what this answer taught for later runs."""
        if self._memory is not None and self._learnt:
            tokens = tuple(sorted(self._learnt))
            following = self._table.index_select(0, upload(tokens, self.device))
            self._memory.remember(self._about, len(tokens), (tokens, following))

    def _chain(self, last: torch.Tensor, count: int) -> torch.Tensor:
        """Ids [k]: each the likeliest after the one before; where the host may look, up to one that is new."""
        reads_freely = self.device.type == "cpu"
        chosen: list[torch.Tensor] = []
        while len(chosen) < count:
            last = self._table[last, 0]
            chosen.append(last)
            if reads_freely and int(last) not in self._known:
                break
        return torch.cat(chosen)

    def _put(self, tokens: Sequence[int], following: torch.Tensor) -> None:
        self._table.index_copy_(0, upload(tokens, self.device), following)
        self._known.update(tokens)


def parents_of(widths: Sequence[int]) -> tuple[int, ...]:
    """Parents of a static tree's nodes, level by level, siblings side by side; -1: the answer's last token."""
    parents: list[int] = []
    above: Sequence[int] = (-1,)
    for width in widths:
        start = len(parents)
        parents += [parent for parent in above for _ in range(width)]
        above = range(start, len(parents))
    return tuple(parents)


def make(side: DraftSide) -> RecyclingDrafter:
    """Of what this target thought before."""
    return RecyclingDrafter(
        side.cached_target.device,
        side.cached_target.vocabulary_size,
        widths=side.widths,
        memory=memory_of(side.target.language_model, "recycling", MOST_ROWS),
        about=side.about,
    )
