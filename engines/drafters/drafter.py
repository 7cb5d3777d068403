"""The protocol of drafters, what they exchange with the rounds, and what a drafter is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from engines.decoder.decoding import CachedModel
from engines.decoder.sampling import Law
from engines.stages.model import VisionLanguageModel
from engines.tokens.answer import Answer
from engines.tokens.prompts import SLOT
from engines.tokens.uploads import moved
from engines.tokens.vocabulary_alignment import Alignment, align
from evprof.core.records import TARGET
from evprof.core.vocabulary.speculation import DynamicTree
from evprof.loaders.adapters import AdapterInfo


@dataclass(frozen=True, eq=False)
class Proposal:
    """`ids` [k] follow the answer's last token, in the target's vocabulary, on any device. `laws` [k, V] are the
    distributions they were drawn from (None: certain). `parents` makes it a tree: each node's parent (-1: the answer's
    last token), nodes after their parents, siblings by preference. `logits` are the drafter's own, one [1, V'] per id
    over the target's first V' ids, for judging only."""

    ids: torch.Tensor
    laws: torch.Tensor | None = None
    parents: tuple[int, ...] | None = None
    logits: Sequence[torch.Tensor] | None = None

    @property
    def size(self) -> int:
        return self.ids.shape[0]

    def depths(self) -> list[int]:
        """How far below the answer's last token each drafted token hangs, from 0."""
        if self.parents is None:
            return list(range(self.size))
        found: list[int] = []
        for parent in self.parents:
            found.append(0 if parent < 0 else found[parent] + 1)
        return found

    def first_child(self, place: int) -> int | None:
        """The preferred drafted node below a place of the block; None where nothing was drafted."""
        if self.parents is None:
            return place if place < self.size else None
        return next((node for node, parent in enumerate(self.parents) if parent == place - 1), None)

    def on(self, device: torch.device) -> Proposal:
        if self.ids.device == device:
            return self
        laws = None if self.laws is None else moved(self.laws, device)
        return replace(self, ids=moved(self.ids, device), laws=laws)

    @classmethod
    def nothing(cls) -> Proposal:
        return cls(torch.empty(0, dtype=torch.long))


def parents_of(widths: Sequence[int]) -> tuple[int, ...]:
    """Parents of a static tree's nodes, level by level, siblings side by side; -1: the answer's last token."""
    parents: list[int] = []
    above: Sequence[int] = (-1,)
    for width in widths:
        start = len(parents)
        parents += [parent for parent in above for _ in range(width)]
        above = range(start, len(parents))
    return tuple(parents)


@dataclass(frozen=True, eq=False)
class Drafted:
    token: torch.Tensor
    law: torch.Tensor | None
    logits: torch.Tensor
    parent: int | None = None


@dataclass(frozen=True, eq=False)
class PromptContext:
    """The target's prompt for drafters. `text_ids` are its ids without visual slots. `embeddings` and `features` [1, S,
    hidden] are its inputs and last hidden states before the last norm, if the drafter `wants_features`. `visual` [V,
    hidden] are its visual embeddings; `slots` counts the text ids before each group of them."""

    text_ids: Sequence[int] = ()
    embeddings: torch.Tensor | None = None
    features: torch.Tensor | None = None
    visual: torch.Tensor | None = None
    slots: Sequence[int] = ()

    def places(self, length: int) -> list[int]:
        """For each of `length` positions the text id there, SLOT where a visual embedding stands."""
        share = (length - len(self.text_ids)) // max(1, len(self.slots))
        found: list[int] = []
        last = 0
        for before in self.slots:
            found += [*self.text_ids[last:before], *[SLOT] * share]
            last = before
        return [*found, *self.text_ids[last:]]


@dataclass(frozen=True, eq=False)
class Verified:
    """The outcome of a proposal. The block is the answer's last token and the k drafted ones. `path` are its places
    that stand, 0 first; `features` [1, k + 1, hidden] and `logits` [k + 1, V] are the target's at its places, the
    logits valid until the next pass; `block` are its ids."""

    path: Sequence[int]
    features: torch.Tensor | None = None
    block: Sequence[int] = ()
    logits: torch.Tensor | None = None


class Drafter(ABC):
    """Proposes tokens. Used by one thread, made for each run. `role` owns its spans: "draft" for a model of its own.
    `wants_features`: the target keeps its hidden states, or the inputs of the layers of `reads`."""

    role = TARGET
    wants_features = False
    reads: tuple[int, ...] = ()

    def __init__(self, name: str, device: torch.device) -> None:
        self.name, self.device = name, device

    def start(self, context: PromptContext) -> None:
        return

    @abstractmethod
    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        """At most `count` (at least 1) tokens after the answer `ids`. Waits for a GPU only for a dynamic tree's shape.
        Raises Cancelled when `is_stopped` between two steps."""

    def observe(self, ids: Sequence[int], verified: Verified) -> None:
        """Called after each round with the answer as it is now: what was rejected is to be forgotten."""
        return

    def finish(self, ids: Sequence[int]) -> None:
        """Called once after the last round: caches then hold all of the answer save its last token."""
        return

    def abandon(self, ids: Sequence[int]) -> None:
        """Called instead when the rounds broke off: what was not accepted is forgotten, nothing is computed."""
        return

    def note_length(self, answer: Answer) -> None:
        """Writes the length of its cache into the records, where that is a model's of its own."""
        return


@dataclass(frozen=True)
class DraftSide:
    """The target and the draft with their caches. `law` and `generator` exist for drawn tokens, `adapter` for trained
    drafters; `widths` are a static tree's, `dynamic` a dynamic tree's limits. `about` identifies the question, for
    drafters that remember answers."""

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
        return {"law": self.law, "generator": self.generator, "target_rows": self.cached_target.vocabulary_size}

    @property
    def shaped(self) -> dict[str, Any]:
        """How a head's drafts are shaped and its tokens chosen."""
        return {"widths": self.widths, "dynamic": self.dynamic, "law": self.law, "generator": self.generator}

    @property
    def draft_name(self) -> str:
        name = self.drafting[0].facts.name
        return name if self.adapter is None else f"{name} with {self.adapter.name}"
