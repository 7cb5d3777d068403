"""The plan and the context of one run, and three strategies: plain decoding, speculative rounds, and an adapted cache.

Over an adapted cache, which is made from the draft's, the target answers without seeing its own input: lossy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from engines.adapters.hidden_states import KvMap, TappedDecoder, load_kv_map
from engines.decoder.decoding import CachedModel, DecodeStep, decode
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import Law, Sampler, distribution, make_generator
from engines.drafters import eagle_drafter, head_drafter, lookup_drafter, model_drafter, suffix_drafter
from engines.drafters.drafter import Drafter, DraftSide, PromptContext
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock
from engines.modes.concurrency import make_draft_worker
from engines.speculation.draft_length import draft_length
from engines.speculation.rounds import JudgementLog, Rounds, Verifier
from engines.stages.model import ModelInputs, VisionLanguageModel
from engines.stages.pipeline import ModelPass, Prefilling, Tell
from engines.stages.preparation import PromptLayout, tokenize_prompt
from engines.stages.visual_tokens import VisualCounts
from engines.tokens.answer import AlternativesLog, Answer
from engines.tokens.prompts import SLOT
from engines.tokens.uploads import upload
from evprof.core.protocols import Sink, StopFlag
from evprof.core.records import DRAFT, ORIGIN_DRAFT, ORIGIN_TARGET, TARGET, JudgementRecord
from evprof.core.request import roles_of
from evprof.core.run_info import SpeculationFacts, Turn
from evprof.core.sample import Sample
from evprof.core.units import percent_text
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

    `extra` is TRACE or RANGES for a profiled run, "" for a measured run. `turn` is None for runs outside of turns.
    """

    run_id: int
    role: str
    repeat: int
    settings: GenerationSettings
    extra: str = ""
    turn: Turn | None = None

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


class KvAdaptedRun(PlainRun):
    """Raises UserError for an adapter that is no map between these models."""

    origin = ORIGIN_DRAFT

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._draft, self._target = self.passes[DRAFT], self.passes[TARGET]
        info = context.adapter
        if info is None:
            raise RuntimeError("a map of caches needs an adapter")
        draft, target = self._draft.model, self._target.model
        self._map = load_kv_map(info, draft.language_model, target.language_model)
        self._tapped = TappedDecoder(draft.language_model)
        self._draft.cached.decoder = self._tapped
        self._facts = SpeculationFacts(info.name, info.kind, adapter=info.name, is_lossless=False)
        self.sentence = lossy_sentence(info, draft.facts.name, target.facts.name)

    @property
    def facts(self) -> SpeculationFacts | None:
        return self._facts

    def prefill(self) -> torch.Tensor | None:
        """All stages before decode -> the answer's first token [1, 1]; the target's input is not looked at."""
        context, draft, target = self.context, self._draft, self._target
        draft.prefill(draft.up_to_vision(context.sample, context.tell(DRAFT)), context.answer, None)
        levels = self._visual_levels()
        inputs = self._preprocess(context.sample.prompt, levels[0].shape[1], context.tell(TARGET))
        target.inputs = inputs
        language = target.model.language_model
        work = _MappedPrefill(
            self._map, language, levels, context.answer, context.sampler, before=inputs.slots[0], clock=context.clock
        )
        return target.prefill_as(work, levels[0].new_empty(0, language.config.hidden_size))

    def _visual_levels(self) -> list[torch.Tensor]:
        inputs = self._draft.inputs
        if inputs is None:
            raise RuntimeError("a cache is mapped after the draft's prefill")
        first, count = inputs.slots[0], inputs.lengths.visual
        weight = next(self._map.parameters())
        return [level[:, first : first + count].to(weight.device, weight.dtype) for level in self._tapped.levels]

    def _preprocess(self, prompt: str, visual: int, tell: Tell) -> ModelInputs:
        model, context = self._target.model, self.context
        with context.memory.stage("preprocess"), context.clock.stage("preprocess", TARGET, model.device) as span:
            with context.clock.child("tokenize") as part:
                part.input("prompt", prompt)
                layout = PromptLayout(model.template_of(context.settings), 1, VisualCounts((), visual))
                ids, lengths, warnings = tokenize_prompt(model, prompt, context.settings, layout)
                part.output("token_ids", ids)
            with context.clock.child("to device"):
                text_ids = upload([token for token in ids if token != SLOT], model.device)
            span.output("text_ids", text_ids)
            tell("lengths", lengths)
        return ModelInputs(text_ids.new_empty(0), ids, text_ids, (ids.index(SLOT),), lengths, warnings=[*warnings])


class _MappedPrefill(Prefilling):
    def __init__(
        self,
        mapped: KvMap,
        target: LlamaDecoder,
        levels: list[torch.Tensor],
        answer: Answer,
        sampler: Sampler,
        *,
        before: int,
        clock: StageClock,
    ) -> None:
        super().__init__(answer, sampler)
        self.beside = levels[0].shape[1]
        self._mapped, self._target, self._levels, self._before = mapped, target, levels, before
        self._clock = clock
        self._predicted: list[torch.Tensor] = []

    def begin(self) -> None:
        with self._clock.child("map cache") as part:
            part.input("hidden states", self._levels)
            self._predicted = self._mapped.predict(self._levels)
            part.output("layer inputs", self._predicted)

    def compute(self, cached: CachedModel, embeddings: torch.Tensor, stop: StopFlag) -> torch.Tensor:
        """The text's embeddings [1, S, hidden] -> logits [1, V] of what follows the prompt."""
        cache = cached.opened
        cached.decoder.trunk(embeddings[:, : self._before], cache, stop=stop)
        self._mapped.fill(self._predicted, self._target, cache)
        state = cached.decoder.trunk(embeddings[:, self._before :], cache, stop=stop)
        cached.prompt_length = cached.length
        return cached.decoder.head(state[:, -1:])[:, -1]


def lossy_sentence(info: AdapterInfo, draft: str, target: str) -> str:
    """What every such run says of its answer, with the measured agreement where there is one."""
    said = (
        f"KV adaptation is lossy: {target} answered over a cache that {info.name} mapped from that of {draft}, so the "
        "answer is not its own"
    )
    agreement = (info.evaluation or {}).get("agreement")
    if isinstance(agreement, int | float) and not isinstance(agreement, bool):
        share = percent_text(agreement, 1)
        return f"{said}; on held-out samples {share} of the tokens agreed with those it says by itself."
    return f"{said}."
