"""What a drafter is made of. The file `engines/drafters/<kind>_drafter.py` has a `make` that takes it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch

from engines.decoder.decoding import CachedModel
from engines.decoder.sampling import Law
from engines.stages.model import VisionLanguageModel
from engines.tokens.vocabulary_alignment import Alignment, align
from evprof.core.vocabulary.speculation import DynamicTree
from evprof.loaders.adapters import AdapterInfo


@dataclass(frozen=True)
class DraftSide:
    """The target with its cache, and the draft with its own where one takes part.

    `law` and `generator` are there when tokens are drawn, `adapter` where the drafter is trained; `widths` are those of
    the static tree asked for, `dynamic` the limits of a dynamic one. `about` tells questions apart, for drafters that
    remember earlier answers.
    """

    target: VisionLanguageModel
    cached_target: CachedModel
    eos_ids: frozenset[int]
    draft: VisionLanguageModel | None = None
    cached_draft: CachedModel | None = None
    law: Law | None = None
    generator: torch.Generator | None = None
    adapter: AdapterInfo | None = None
    widths: tuple[int, ...] = ()
    dynamic: DynamicTree | None = None
    about: Hashable = None

    @property
    def alignment(self) -> Alignment:
        """How the ids of both meet. Raises RuntimeError without a draft."""
        draft, _ = self.drafting
        return align(draft.vocabulary, self.target.vocabulary)

    @property
    def drafting(self) -> tuple[VisionLanguageModel, CachedModel]:
        """The draft and its cache. Raises RuntimeError without a draft."""
        if self.draft is None or self.cached_draft is None:
            raise RuntimeError("this drafter needs a draft model")
        return self.draft, self.cached_draft

    @property
    def trained(self) -> AdapterInfo:
        """The adapter. Raises RuntimeError without one."""
        if self.adapter is None:
            raise RuntimeError("this drafter needs an adapter")
        return self.adapter

    @property
    def drawn(self) -> dict[str, Any]:
        """How a model's own tokens are chosen, as `ModelDrafter` takes it."""
        return {"law": self.law, "generator": self.generator, "target_rows": self.cached_target.vocabulary_size}

    @property
    def shaped(self) -> dict[str, Any]:
        """How a head's drafts are shaped and its tokens chosen."""
        return {"widths": self.widths, "dynamic": self.dynamic, "law": self.law, "generator": self.generator}

    @property
    def draft_name(self) -> str:
        """The draft's name, with the adapter's where it has one."""
        name = self.drafting[0].facts.name
        return name if self.adapter is None else f"{name} with {self.adapter.name}"
