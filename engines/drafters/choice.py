"""Which drafter a run gets, by its settings: the one place that knows all kinds."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engines.adapters.eagle import EagleHead
from engines.adapters.folder import check_target
from engines.adapters.hidden import load_hidden
from engines.adapters.kept import kept
from engines.adapters.ngram import load_ngram
from engines.decoder.decoding import CachedModel
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import Law
from engines.drafters.drafter import Drafter
from engines.drafters.eagle_drafter import EagleDrafter
from engines.drafters.hidden_drafter import HiddenDrafter
from engines.drafters.lookup_drafter import LookupDrafter
from engines.drafters.model_drafter import ModelDrafter
from engines.drafters.ngram_drafter import NgramDrafter
from engines.drafters.reencoding_drafter import ReencodingDrafter
from engines.drafters.self_drafter import SelfDrafter
from engines.stages.model import VisionLanguageModel
from engines.tokens.vocabulary_alignment import Alignment, align
from evprof.core.errors import UserError
from evprof.core.speculation import REENCODED, SpeculationFacts
from evprof.core.vocabulary.drafters import EAGLE, HIDDEN, LOOKUP, LORA, MODEL, NGRAM, SELF
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.adapters import AdapterInfo, read_adapter


@dataclass(frozen=True)
class DraftSide:
    """What a drafter may be made of: the target with its cache, and the draft with its own where one takes part.

    `law` and `generator` are there when tokens are drawn.
    """

    target: VisionLanguageModel
    cached_target: CachedModel
    eos_ids: frozenset[int]
    draft: VisionLanguageModel | None = None
    cached_draft: CachedModel | None = None
    law: Law | None = None
    generator: torch.Generator | None = None

    @property
    def alignment(self) -> Alignment:
        """How the ids of both meet. Raises RuntimeError without a draft."""
        if self.draft is None:
            raise RuntimeError("ids of one model need no alignment")
        return align(self.draft.vocabulary, self.target.vocabulary)


def make_drafter(settings: GenerationSettings, side: DraftSide) -> tuple[Drafter, SpeculationFacts]:
    """The drafter of a run and what is told about it. Raises UserError for one that does not fit these models."""
    asked = settings.speculation
    if asked.drafter == LOOKUP:
        drafter: Drafter = LookupDrafter(side.cached_target.device, side.eos_ids)
        return drafter, SpeculationFacts(drafter.name, LOOKUP, length=asked.length)
    if asked.drafter == NGRAM:
        return _ngram(asked, side)
    if asked.drafter == EAGLE:
        return _eagle(asked, side)
    if asked.drafter == SELF:
        drafter = SelfDrafter(side.cached_target, side.eos_ids, law=side.law, generator=side.generator)
        return drafter, SpeculationFacts(drafter.name, SELF, length=asked.length)
    if asked.drafter in (MODEL, HIDDEN, LORA) and side.draft is not None and side.cached_draft is not None:
        return _model(asked, side, side.draft, side.cached_draft)
    raise RuntimeError(f"no drafter of kind {asked.drafter}")


def _model(
    asked: SpeculationSettings, side: DraftSide, draft: VisionLanguageModel, cached: CachedModel
) -> tuple[Drafter, SpeculationFacts]:
    """The draft model as it is: ids pass where enough of them meet the target's, else text does."""
    alignment = side.alignment
    name = draft.facts.name
    info = read_adapter(asked.adapter) if asked.drafter in (HIDDEN, LORA) and asked.adapter else None
    if info is not None:
        name = f"{name} with {info.name}"
    if asked.drafter == HIDDEN and info is not None:
        drafter: Drafter = _hidden(name, info, side, draft.language_model, cached)
    elif alignment.kind == REENCODED:
        drafter = ReencodingDrafter(name, cached, draft.vocabulary, side.target.vocabulary)
    else:
        drafter = ModelDrafter(
            name,
            cached,
            alignment,
            side.eos_ids,
            law=side.law,
            generator=side.generator,
            target_rows=side.cached_target.vocabulary_size,
        )
    facts = SpeculationFacts(
        name,
        asked.drafter,
        adapter=None if info is None else info.name,
        alignment=alignment.kind,
        shared_ids=alignment.shared,
        draft_ids=draft.vocabulary.size,
        target_ids=side.target.vocabulary.size,
        length=asked.length,
    )
    return drafter, facts


def _hidden(
    name: str,
    info: AdapterInfo,
    side: DraftSide,
    draft: LlamaDecoder,
    cached: CachedModel,
) -> HiddenDrafter:
    """The draft's layers under the target's head. Raises UserError where the draft cannot be fed the target's ids."""
    alignment = side.alignment
    if alignment.kind == REENCODED:
        raise UserError(
            f"{name} knows too few of the words of {side.target.facts.name} to go on behind them; drafter "
            f"{HIDDEN} needs a pair with a shared vocabulary."
        )
    return HiddenDrafter(
        name,
        cached,
        load_hidden(info, draft, side.target.language_model),
        alignment,
        side.eos_ids,
        law=side.law,
        generator=side.generator,
        target_rows=side.cached_target.vocabulary_size,
    )


def _ngram(asked: SpeculationSettings, side: DraftSide) -> tuple[Drafter, SpeculationFacts]:
    info = read_adapter(asked.adapter or "")
    target = side.target.language_model
    check_target(info, target, side.target.facts.name)
    counts = kept(info, target, lambda: load_ngram(info))
    drafter = NgramDrafter(info.name, counts, side.cached_target.device, side.eos_ids)
    return drafter, SpeculationFacts(drafter.name, NGRAM, adapter=info.name, length=asked.length)


def _eagle(asked: SpeculationSettings, side: DraftSide) -> tuple[Drafter, SpeculationFacts]:
    info = read_adapter(asked.adapter or "")
    target = side.target.language_model
    head = kept(info, target, lambda: EagleHead.load(info, target, side.target.facts.name))
    drafter = EagleDrafter(
        info.name,
        head,
        side.cached_target,
        side.eos_ids,
        widths=asked.widths,
        law=side.law,
        generator=side.generator,
    )
    return drafter, SpeculationFacts(drafter.name, EAGLE, adapter=info.name, length=asked.length, tree=asked.tree)
