"""The target as its own draft, over a second cache: accepts everything, so it shows what a round costs and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from engines.decoder.cache_choice import make_cache
from engines.decoder.decoding import CachedModel
from engines.decoder.kv_cache import STATIC
from engines.decoder.sampling import Law
from engines.drafters.draft_side import DraftSide
from engines.drafters.drafter import Drafter, PromptContext, Proposal, Verified
from engines.drafters.model_drafter import ModelDrafter
from engines.tokens.vocabulary_alignment import first_shared


class SelfDrafter(Drafter):
    """Prefills the target's prompt once more when it starts, then drafts as any model."""

    wants_features = True

    def __init__(
        self,
        target: CachedModel,
        eos_ids: frozenset[int] = frozenset(),
        *,
        law: Law | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__("the target itself", target.device)
        self._target = target
        self._eos_ids = eos_ids
        self._law, self._generator = law, generator
        self._inner: ModelDrafter | None = None

    def start(self, context: PromptContext) -> None:
        """A second cache with the same prompt. Raises RuntimeError without the prompt's embeddings."""
        if context.embeddings is None:
            raise RuntimeError("the target drafts from its prompt's embeddings")
        target = self._target
        own = CachedModel(target.decoder, self.role, target.device, target.vocabulary_size)
        first = context.embeddings
        own.cache = make_cache(
            STATIC, target.decoder.config, capacity=first.shape[1] + 256, device=first.device, dtype=first.dtype
        )
        own.decoder.trunk(first, own.cache)
        own.prompt_length = own.length
        everything = first_shared(target.vocabulary_size)
        self._inner = ModelDrafter(
            self.name,
            own,
            everything,
            self._eos_ids,
            law=self._law,
            generator=self._generator,
            target_rows=target.vocabulary_size,
        )

    @property
    def _model(self) -> ModelDrafter:
        if self._inner is None:
            raise RuntimeError("a drafter is started before it drafts")
        return self._inner

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        """As any model."""
        return self._model.propose(ids, count, is_stopped)

    def observe(self, ids: Sequence[int], verified: Verified) -> None:
        """Cuts what was rejected off."""
        self._model.observe(ids, verified)


def make(side: DraftSide) -> SelfDrafter:
    """Over a second cache of the target."""
    return SelfDrafter(side.cached_target, side.eos_ids, law=side.law, generator=side.generator)
