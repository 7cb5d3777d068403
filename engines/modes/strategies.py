"""The plan and the context of one run, and the two basic strategies: plain decoding and speculative rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from engines.decoder.decoding import DecodeStep, decode
from engines.decoder.sampling import Law, Sampler, distribution, make_generator
from engines.drafters import eagle_drafter, head_drafter, lookup_drafter, model_drafter, suffix_drafter
from engines.drafters.drafter import Drafter, DraftSide, PromptContext
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock
from engines.modes.concurrency import make_draft_worker
from engines.speculation.draft_length import draft_length
from engines.speculation.rounds import JudgementLog, Rounds, Verifier
from engines.stages.model import VisionLanguageModel
from engines.stages.pipeline import ModelPass, Tell
from engines.tokens.alternatives import AlternativesLog
from engines.tokens.answer import Answer
from engines.tokens.prompts import SLOT
from evprof.core.protocols import Sink, StopFlag
from evprof.core.records import DRAFT, ORIGIN_TARGET, TARGET, JudgementRecord
from evprof.core.request import roles_of
from evprof.core.run_info import SpeculationFacts
from evprof.core.sample import Sample
from evprof.core.vocabulary.drafters import DRAFTERS
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.modes import mode_of
from evprof.loaders.adapters import AdapterInfo

_VERIFYING, _DRAFTING = 1, 2
"""Streams of the run's seed: drafting and verification must not draw the same numbers."""

DRAFTER_MAKERS: dict[str, Callable[[DraftSide], Drafter]] = {
    "model": model_drafter.make_model,
    "lora": model_drafter.make_model,  # its changed weights are merged when it is loaded
    "hidden": model_drafter.make_hidden,
    "self": model_drafter.make_self,
    "lookup": lookup_drafter.make_lookup,
    "ngram": lookup_drafter.make_ngram,
    "recycling": lookup_drafter.make_recycling,
    "suffix": suffix_drafter.make,
    "eagle": eagle_drafter.make,
    "medusa": head_drafter.make_medusa,
}


@dataclass(frozen=True)
class RunPlan:
    """One run: the answering role, the repetition (negative for a warm-up), its settings.

    `extra` is TRACE or RANGES for a profiled run, "" for a measured run.
    """

    run_id: int
    role: str
    repeat: int
    settings: GenerationSettings
    extra: str = ""

    @property
    def profiled(self) -> bool:
        return bool(self.extra)

    def roles(self, mode: str) -> tuple[str, ...]:
        return roles_of(mode, self.settings.speculation) if mode_of(mode).is_paired else (self.role,)


@dataclass(frozen=True, eq=False, kw_only=True)
class RunContext:
    """Everything a run needs before timing starts. `models` and `steps` are by role, the draft first.

    `tell` returns the listener of a role's pass. `pools` are CUDA events of a draft beside its target, and
    `draft_worker` is its thread. `sampler` keeps logits in `alternatives` if these are recorded. `adapter` is the
    trained adapter of the run.
    """

    plan: RunPlan
    sample: Sample
    models: Mapping[str, VisionLanguageModel]
    steps: Mapping[str, DecodeStep | None]
    answer: Answer
    sampler: Sampler
    sink: Sink
    clock: StageClock
    memory: StageMemory
    stop: StopFlag
    tell: Callable[[str], Tell]
    pools: dict[str, list[Any]] = field(default_factory=dict)
    draft_worker: ThreadPoolExecutor = field(default_factory=make_draft_worker)
    alternatives: AlternativesLog | None = None
    adapter: AdapterInfo | None = None

    @property
    def settings(self) -> GenerationSettings:
        return self.plan.settings


class PlainRun:
    """A strategy: made before the run's zero, then `prefill`, `decode` within stage decode, and `close`.

    One model answers; of two models each takes its own way up to prefill. `passes` are by role. `sentence` is a warning
    for every such run. Raises UserError for settings that do not suit the models.
    """

    origin = ORIGIN_TARGET
    sentence = ""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.passes = {role: self.make_pass(role) for role in context.models}

    def make_pass(self, role: str) -> ModelPass:
        context = self.context
        return ModelPass(
            context.models[role],
            role,
            self.settings_of(role),
            clock=context.clock,
            memory=context.memory,
            stop=context.stop,
            step=context.steps[role],
        )

    def settings_of(self, role: str) -> GenerationSettings:
        return self.context.settings

    @property
    def answering(self) -> ModelPass:
        return self.passes[self.context.plan.role]

    @property
    def facts(self) -> SpeculationFacts | None:
        """The facts about drafting known so far; None without drafts."""
        return None

    def prefill(self) -> torch.Tensor | None:
        """All stages before decode -> the answer's first token [1, 1]; None if decode finds it."""
        context = self.context
        first: torch.Tensor | None = None
        for role, model_pass in self.passes.items():
            visual = model_pass.up_to_vision(context.sample, context.tell(role))
            first = model_pass.prefill(visual, context.answer, context.sampler if role == context.plan.role else None)
        return first

    def decode(self, first: torch.Tensor | None) -> None:
        context, answering = self.context, self.answering
        if first is not None:
            decode(
                answering.cached,
                first,
                context.answer,
                answering.limits(),
                sampler=context.sampler,
                clock=context.clock,
                stop=context.stop,
            )

    def judgements(self) -> Iterator[JudgementRecord]:
        yield from ()

    def close(self) -> None:
        """Ends work beside the run. Raises nothing."""


class SpeculativeRun(PlainRun):
    """A draft proposes tokens, the target verifies them in rounds: the target's own answer."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        settings = context.settings
        target, draft = self.passes[TARGET], self.passes.get(DRAFT)
        law: Law | None = None
        if settings.temperature > 0:
            law = partial(distribution, settings=settings)
        target_device = target.model.device
        self.verifier = Verifier(law, make_generator(settings, target_device, stream=_VERIFYING) if law else None)
        drafts_on = draft.model.device if draft is not None else target_device
        side = DraftSide(
            target.model,
            target.cached,
            target.limits().eos_ids,
            None if draft is None else draft.model,
            None if draft is None else draft.cached,
            law,
            make_generator(settings, drafts_on, stream=_DRAFTING) if law else None,
            adapter=context.adapter,
            about=context.sample,
        )
        self.drafter, self._facts = make_drafter(settings, side)
        target.cached.keeps_features, target.cached.reads = self.drafter.wants_features, self.drafter.reads
        # A captured step leaves its logits where the next one overwrites them.
        self.log = JudgementLog(law, clones=target.cached.own_step is not None) if settings.speculation.judges else None

    @property
    def facts(self) -> SpeculationFacts | None:
        return self._facts

    def settings_of(self, role: str) -> GenerationSettings:
        return self.context.settings.taken_by(role, drafts=True)

    def decode(self, first: torch.Tensor | None) -> None:
        self.rounds(self.context.stop).run()

    def rounds(self, stop: StopFlag) -> Rounds:
        settings, target = self.context.settings, self.passes[TARGET]
        cached, inputs = target.cached, target.inputs
        text = () if inputs is None else tuple(token for token in inputs.token_ids if token != SLOT)
        # The levels of a tree are its length; only the answer's limit makes it shorter.
        gamma = settings.speculation.levels or settings.speculation.gamma
        return Rounds(
            cached,
            self.drafter,
            self.context.answer,
            target.limits(),
            length=draft_length(settings.speculation.length, gamma),
            verifier=self.verifier,
            clock=self.context.clock,
            stop=stop,
            context=PromptContext(
                text,
                cached.prompt_embeddings,
                cached.features,
                target.visual,
                () if inputs is None else inputs.slots,
            ),
            log=self.log,
            alternatives=self.context.alternatives,
        )

    def judgements(self) -> Iterator[JudgementRecord]:
        if self.log is not None:
            yield from self.log.records(self.context.plan.run_id, self.passes[TARGET].model.vocabulary.pieces)


def make_drafter(settings: GenerationSettings, side: DraftSide) -> tuple[Drafter, SpeculationFacts]:
    """The drafter of a run and its facts. Raises UserError for a drafter that does not fit these models."""
    asked, kind = settings.speculation, DRAFTERS[settings.speculation.drafter]
    side = replace(side, widths=asked.widths, dynamic=asked.dynamic)
    drafter = DRAFTER_MAKERS[kind.key](side)
    facts = SpeculationFacts(
        drafter.name,
        kind.key,
        adapter=None if side.adapter is None else side.adapter.name,
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
