"""Which drafter a run gets, by its settings, and what is told about it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from engines.drafters.drafter import Drafter, DraftSide
from evprof.core.speculation import SpeculationFacts
from evprof.core.vocabulary.drafters import DRAFTERS
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.loaders.adapters import read_adapter


def make_drafter(settings: GenerationSettings, side: DraftSide) -> tuple[Drafter, SpeculationFacts]:
    """The drafter of a run and what is told about it. Raises UserError for one that does not fit these models."""
    asked, kind = settings.speculation, DRAFTERS[settings.speculation.drafter]
    info = read_adapter(asked.adapter or "") if kind.is_trained else None
    side = replace(side, adapter=info, widths=asked.widths, dynamic=asked.dynamic)
    drafter: Drafter = import_module(f"engines.drafters.{kind.key}_drafter").make(side)
    facts = SpeculationFacts(
        drafter.name,
        kind.key,
        adapter=None if info is None else info.name,
        length=asked.length,
        tree=asked.tree if kind.drafts_trees else "",
    )
    if not kind.takes_draft:
        return drafter, facts
    alignment = side.alignment
    return drafter, replace(
        facts,
        alignment=alignment.kind,
        shared_ids=alignment.shared,
        draft_ids=side.drafting[0].vocabulary.size,
        target_ids=side.target.vocabulary.size,
    )
