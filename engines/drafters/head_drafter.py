"""What drafters with heads on a target's hidden states share: how they were asked to draft, and the trees' shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from engines.decoder.decoding import CachedModel
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import Law
from engines.drafters.draft_tree import StaticTree
from engines.drafters.drafter import Drafter
from evprof.core.vocabulary.speculation import DynamicTree


class HeadDrafter(Drafter):
    """Drafts greedily, or draws from `law` with `generator` where there is one; a tree, with `widths` or `dynamic`
    limits, is certain.

    `target` is the model whose hidden states are looked at, `choices` how many tokens the head knows (0: all).
    """

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
        """The first levels of the tree with `widths`."""
        found = self._trees.get(levels)
        if found is None:
            found = self._trees[levels] = StaticTree(self._widths[:levels])
        return found
