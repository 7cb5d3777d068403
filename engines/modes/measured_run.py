"""One run from its start message to its end message: setup, the measured stages, and the facts told afterwards.

However a run ends (finished, stopped, out of memory, bad input, a defect), its status and all measurements are posted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import torch

from engines.decoder.attention import SDPA
from engines.decoder.eager_steps import IDENTICAL, EarlyExitStep
from engines.decoder.kv_cache import weigh
from engines.decoder.sampling import make_sampler
from engines.decoder.step_choice import ChosenStep, StepPlan, expected_prompt, no_step
from engines.hardware.device import use_threads
from engines.hardware.environment import GpuWatch, describe_environment
from engines.loading.warm_models import Warm, WarmModels
from engines.measuring.device_timer import make_timers
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock
from engines.modes.concurrency import SharedSink, make_draft_worker
from engines.modes.failures import give_back, is_lost_gpu, is_memory_failure, lost_sentence, memory_sentence
from engines.modes.parallel_run import ParallelRun
from engines.modes.strategies import KvAdaptedRun, PlainRun, RunContext, RunPlan, SpeculativeRun
from engines.speculation.draft_length import draft_length
from engines.stages.model import EVENTS, VisionLanguageModel
from engines.stages.pipeline import ModelPass, Tell, capacity_of, taken_cache
from engines.stages.reading import OFF, files_of, import_reader_of, recording_problems
from engines.tokens.answer import AlternativesLog, Answer
from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import RunDescribed, RunEnded, RunStarted, RunWarned, SetupProgressed, Sink, StopFlag
from evprof.core.records import DRAFT, TARGET, FrameRecord
from evprof.core.request import RunRequest, input_of
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, ModelFacts, RunInfo, SpeculationFacts
from evprof.core.vocabulary.drafters import DRAFTERS
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.switches import Switches
from evprof.loaders.adapters import AdapterInfo, read_adapter
from evprof.loaders.content import prefetch
from evprof.loaders.heads import LAYERS


@dataclass
class RunTools:
    """What runs share: warm models, CUDA event pools, and a thread and pools for a draft beside its target.

    `make_room` frees memory for the models of these roles, or raises UserError. `wrap` surrounds the measured part (a
    profiler). `end_facts` are the profiler's.
    """

    warm: WarmModels
    make_room: Callable[[RunRequest, tuple[str, ...], WarmModels], None]
    pools: dict[str, list[Any]] = field(default_factory=dict)
    draft_pools: dict[str, list[Any]] = field(default_factory=dict)
    draft_worker: ThreadPoolExecutor = field(default_factory=make_draft_worker)
    make_clock: Callable[..., StageClock] = StageClock
    wrap: AbstractContextManager[Any] = field(default_factory=nullcontext)
    end_facts: Callable[[], dict[str, Any]] = dict


STRATEGIES: dict[str, type[PlainRun]] = {
    "plain": PlainRun,
    "speculative": SpeculativeRun,
    "parallel": ParallelRun,
    "kv_adapted": KvAdaptedRun,
}


@dataclass
class _RoleModel:
    """A loaded model in this run: `facts` as the run uses it, `chosen` the decode step."""

    warm: Warm
    facts: ModelFacts
    chosen: ChosenStep = field(default_factory=lambda: ChosenStep(None))


class MeasuredRun:
    """Carries one RunPlan out. `lost_gpu` is a sentence once a GPU has failed."""

    def __init__(self, request: RunRequest, plan: RunPlan, tools: RunTools, sink: Sink, *, stop: StopFlag) -> None:
        self._request, self._plan, self._tools, self._stop = request, plan, tools, stop
        self._mode = mode_of(request.mode)
        # In a parallel mode, draft and target append from two threads.
        self._sink = SharedSink(sink) if self._mode.is_parallel else sink
        self._way = way_of(request.mode, plan.role, plan.settings)
        self._environment: dict[str, Any] = {}
        self._roles: dict[str, _RoleModel] = {}
        self._adapter: AdapterInfo | None = None
        self._doing = "before its models were loaded"
        self.lost_gpu: str | None = None
        # What the end of the run reports on, once it has begun.
        self._gpus: GpuWatch | None = None
        self._run: PlainRun | None = None
        self._told: SpeculationFacts | None = None
        self._clock_facts: dict[str, Any] = {}
        self._has_zero = False

    def perform(self) -> str:
        """Runs; returns the status. Raises nothing."""
        self._environment = describe_environment()
        self._sink.post(RunStarted(self._plan.run_id, self._info()))
        status, error = FAILED, None
        try:
            self._set_up()
            with self._tools.wrap, torch.inference_mode():
                self._measure()
            status = FINISHED
        except Cancelled:
            status = CANCELLED
        except UserError as problem:
            error = problem.sentence
        except Exception as defect:  # noqa: BLE001 - a defect ends the run as failed; the engine continues
            error = self._sentence_for(defect)
        self._doing = "after its last stage"
        facts: dict[str, Any] = {}
        try:
            self._add_end_facts(facts)
        except Exception as defect:  # noqa: BLE001 - the records hold the measurements already; the run still ends
            said = self._sentence_for(defect)
            status, error = FAILED, error or said
        self._run = None
        if status == FAILED:
            give_back(self._tools.warm)
        if status == FINISHED:
            for role in self._roles:
                choice = self._request.choice_of(role)
                if choice is not None:
                    self._tools.warm.note_use(choice, role, self._way)
        else:
            # The request ends here, so this warm-up is the only report.
            facts["warmup"] = False
        self._sink.post(RunEnded(self._plan.run_id, status, error, facts))
        return status

    def _info(self) -> RunInfo:
        plan, request = self._plan, self._request
        return RunInfo(
            run_id=plan.run_id,
            group_id=request.group_id,
            repeat=plan.repeat if plan.repeat >= 0 else request.first_repeat,
            role=plan.role,
            mode=request.mode,
            settings=resolved(plan.settings, plan.roles(request.mode)),
            sample=request.sample,
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            warmup=plan.repeat < 0,
            profiled=plan.profiled,
            environment=self._environment,
            cell=request.cell,
            turn=plan.turn,
        )

    # Setup, before the run's zero.

    def _set_up(self) -> None:
        settings, request, tools = self._plan.settings, self._request, self._tools
        asked = settings.speculation
        if self._mode.maps_cache or (self._mode.drafts and DRAFTERS[asked.drafter].is_trained):
            self._adapter = read_adapter(asked.adapter or "")
        roles = self._plan.roles(request.mode)
        tools.make_room(request, roles, tools.warm)
        for role in roles:
            self._load(role)
        models = self._models
        use_threads(models.values())
        for role, one in self._roles.items():
            self._choose_step(role, one)
        device = models[self._plan.role].device
        self._environment = describe_environment(device)
        self._describe({"environment": self._environment})
        self._prepare_files(roles)
        self._gpus = GpuWatch(model.device for model in models.values())

    @property
    def _models(self) -> dict[str, VisionLanguageModel]:
        return {role: one.warm.model for role, one in self._roles.items()}

    def _load(self, role: str) -> None:
        choice = self._request.choice_of(role)
        if choice is None:
            raise UserError(f"Mode {self._request.mode} needs a {role} model; name one with --{role}.")
        warm_models, run_id = self._tools.warm, self._plan.run_id
        self._doing = f"while the weights of the {role} were loaded"

        def progress(done: int, total: int) -> None:
            self._sink.post(SetupProgressed(run_id, role, done, total))

        warm = warm_models.get(choice, role, progress, self._stop)
        self._doing = f"while the {role} was made ready"
        setup = replace(warm.setup, first_use=warm_models.is_first_use(choice, role, self._way))
        warm = replace(warm, setup=setup)
        model, facts = warm.model, taken_facts(warm.model, self._plan.settings)
        self._roles[role] = _RoleModel(warm, facts)
        model.make_ready(self._plan.settings.taken_by(role, drafts=self._mode.drafts))
        model.language_model.attention = facts.attention
        self._describe({"models": {role: facts}, "setup": {role: setup}})
        for sentence in model.warnings:
            self._warn(sentence)

    def _choose_step(self, role: str, one: _RoleModel) -> None:
        settings, model, steps = self._plan.settings, one.warm.model, one.warm.steps
        frames = settings.frames or settings.event_frames or FAMILIES[model.facts.family].frames
        start = steps.last_prompt or expected_prompt(model.visual_tokens_per_frame * frames)
        plan = StepPlan(self._block_sizes(role), start, capacity_of(start, settings), one.facts.cache)
        self._doing = f"while the decode step of the {role} was made"
        layout = None if self._adapter is None else self._adapter.layout
        if role == DRAFT and self._mode.drafts and DRAFTERS[settings.speculation.drafter].ends_in_other_head:
            # A compiled or captured step would end in the draft's own head.
            chosen = ChosenStep(None)
        elif role == TARGET and self._mode.drafts and layout is not None and layout.reads == LAYERS:
            chosen = no_step(self._switches(role), "the head that drafts reads what enters the target's layers")
        else:
            chosen = steps.choose(self._switches(role), plan)
        one.chosen, one.facts = chosen, replace(one.facts, step=chosen.kind)
        setup = replace(one.warm.setup, compile_ms=chosen.compile_ms)
        self._describe({"models": {role: one.facts}, "setup": {role: setup}})
        if chosen.sentence is not None:
            self._warn(chosen.sentence)

    def _block_sizes(self, role: str) -> tuple[int, ...]:
        return block_sizes(role, self._plan.settings, is_speculative=self._mode.drafts)

    def _switches(self, role: str) -> Switches:
        """The switches of a role: a draft may use any step, and the verifying target alone must be identical."""
        switches = self._plan.settings.switches
        is_free = self._mode.drafts and role == DRAFT and switches.step == IDENTICAL
        return replace(switches, step="auto") if is_free else switches

    def _prepare_files(self, roles: tuple[str, ...]) -> None:
        switches, sample = self._plan.settings.switches, self._request.sample
        reading = set(roles) & set(self._request.reading_roles)
        kinds = {input_of(self._plan.settings.input, role) for role in reading}
        if EVENTS in kinds and sample.events_path is not None:
            import_reader_of(sample.events_path)
        if switches.prefetch == OFF:
            return
        paths = files_of(sample, kinds)
        for sentence in prefetch(paths, switches.prefetch, self._stop.is_set):
            self._warn(sentence)

    # The measured part.

    def _measure(self) -> None:
        self._doing = "between two stages"
        plan, models = self._plan, self._models
        devices = [model.device for model in models.values()]
        clock = self._tools.make_clock(self._sink, plan.run_id, timers=make_timers(devices, self._tools.pools))
        strategy, answering = STRATEGIES[self._mode.strategy], models[plan.role]
        sampler = make_sampler(plan.settings, answering.device)
        log = self._alternatives(answering)
        context = RunContext(
            plan=plan,
            sample=self._request.sample,
            models=models,
            steps={role: one.chosen.step for role, one in self._roles.items()},
            answer=Answer(self._sink, plan.run_id, plan.role, answering.vocabulary.pieces, origin=strategy.origin),
            sampler=sampler if log is None else log.watched(sampler),
            sink=self._sink,
            clock=clock,
            memory=StageMemory(devices),
            stop=self._stop,
            tell=self._listener,
            pools=self._tools.draft_pools,
            draft_worker=self._tools.draft_worker,
            alternatives=log,
            adapter=self._adapter,
        )
        try:
            self._play(strategy(context))
        finally:
            end_ns = clock.finish()
            self._clock_facts = {"end_ns": end_ns, "clocks": clock.device_clocks}
            self._describe({"end_ns": end_ns})

    def _alternatives(self, model: VisionLanguageModel) -> AlternativesLog | None:
        """Keeps the answering model's logits; its memory is allocated before the run's zero."""
        if not self._plan.settings.alternatives:
            return None
        language = model.language_model
        dtype = language.embed_tokens.weight.dtype
        return AlternativesLog(model.device, language.rows, dtype, self._plan.settings.max_new_tokens)

    def _listener(self, role: str) -> Tell:
        def tell(name: str, value: Any) -> None:
            if name in ("lengths", "loading"):
                self._describe({name: {role: value}})
            elif not self._has_zero:
                self._has_zero = True
                self._describe({"start_ns": value})

        return tell

    def _play(self, run: PlainRun) -> None:
        context, self._told = run.context, run.facts
        if self._told is not None:
            self._describe({"speculation": self._told})
        if run.sentence:
            self._warn(run.sentence)
        self._run = run
        try:
            first = run.prefill()
            device = run.answering.model.device
            with context.memory.stage("decode"), context.clock.stage("decode", self._plan.role, device) as span:
                if first is not None:
                    span.input("first token", first)
                try:
                    run.decode(first)
                finally:
                    span.output("token ids", context.answer.ids)
        finally:
            run.close()

    # The end, outside the measured time.

    def _add_end_facts(self, facts: dict[str, Any]) -> None:
        facts |= self._tools.end_facts()
        if self._gpus is not None:
            states, sentences = self._gpus.look_again()
            for sentence in sentences:
                self._warn(sentence)
            device = self._models[self._plan.role].device
            facts["environment"] = {**self._environment, "gpu_end": states.get(device)}
        if self._run is not None:
            self._add_outcome(self._run, facts)
        facts |= self._clock_facts

    def _add_outcome(self, run: PlainRun, facts: dict[str, Any]) -> None:
        for record in run.judgements():
            self._sink.append(record)
        vocabulary, ids = run.answering.model.vocabulary, run.context.answer.ids
        if (log := run.context.alternatives) is not None:
            for alternatives in log.records(self._plan.run_id, self._plan.role, ids, vocabulary.pieces):
                self._sink.append(alternatives)
        if run.facts != self._told:
            facts["speculation"] = run.facts
        models, caches = {}, {}
        for role, model_pass in run.passes.items():
            cached = model_pass.cached
            self._tell_inputs(role, model_pass)
            step = model_pass.cached.own_step
            if isinstance(step, EarlyExitStep) and (sentence := step.sentence()):
                self._warn(sentence)
            elif step is not None and step.problem is not None:
                self._warn(f"The {step.kind} decode step failed during the run, which went on eagerly: {step.problem}.")
            self._roles[role].warm.steps.last_prompt = cached.prompt_length
            models[role] = replace(self._roles[role].facts, vision_pass=model_pass.model.vision_pass)
            if cached.length:
                caches[role] = weigh(cached.opened).facts(cached.rolled_back)
        weights = sum(model_pass.model.facts.weight_bytes or 0 for model_pass in run.passes.values())
        facts |= {"models": models, "memory": run.context.memory.facts(weights), "kv": caches}
        if ids:
            facts["text"] = vocabulary.decode([token_id for token_id in ids if token_id not in vocabulary.eos_ids])

    def _tell_inputs(self, role: str, model_pass: ModelPass) -> None:
        inputs = model_pass.inputs
        if inputs is None:
            return
        for sentence in inputs.warnings:
            self._warn(sentence)
        path = self._request.sample.events_path
        if path is not None and input_of(self._plan.settings.input, role) == EVENTS:
            for sentence in recording_problems(path):
                self._warn(sentence)
        if not self._request.keeps_frames:
            return
        for index, frame in enumerate(inputs.frames):
            self._sink.append(
                FrameRecord(self._plan.run_id, role, index, frame.start_us, frame.end_us, frame.label, frame.png)
            )

    def _sentence_for(self, defect: Exception) -> str:
        """The error of a run with a defect. Unless memory ran out, the traceback goes to stderr."""
        if not is_memory_failure(defect):
            traceback.print_exc(file=sys.stderr)
            if not is_lost_gpu(defect):
                return f"{type(defect).__name__}: {defect}"
            self.lost_gpu = lost_sentence(defect)
            return self.lost_gpu
        models = self._models
        return memory_sentence(
            defect,
            doing=self._doing,
            devices={role: str(model.device) for role, model in models.items()},
            held_bytes=sum(model.facts.weight_bytes or 0 for model in models.values()),
        )

    def _describe(self, facts: dict[str, Any]) -> None:
        self._sink.post(RunDescribed(self._plan.run_id, facts))

    def _warn(self, sentence: str) -> None:
        self._sink.post(RunWarned(self._plan.run_id, sentence))


def resolved(settings: GenerationSettings, roles: tuple[str, ...]) -> GenerationSettings:
    read: dict[str, Any] = {f"{role}_input": input_of(settings.input, role) for role in roles}
    return replace(settings, input=replace(settings.input, **read))


def way_of(mode: str, role: str, settings: GenerationSettings) -> str:
    """Everything that decides which kernels, graphs and memory a run takes, except the lengths of its prompt."""
    return repr((mode, role, replace(settings, seed=0)))


def block_sizes(role: str, settings: GenerationSettings, *, is_speculative: bool) -> tuple[int, ...]:
    """Numbers of tokens in a model's decode passes: one, and in speculation verified blocks or a draft's two."""
    if not is_speculative:
        return (1,)
    if role == DRAFT:
        return (1, 2)
    longest = draft_length(settings.speculation.length, settings.speculation.gamma).most
    return tuple(sorted({1, settings.speculation.gamma + 1, longest + 1, settings.speculation.nodes + 1}))


def taken_facts(model: VisionLanguageModel, settings: GenerationSettings) -> ModelFacts:
    """The model's facts with the attention, cache and prompt layout of this run."""
    switches = settings.switches
    attention = SDPA if switches.attention == "auto" else switches.attention
    template = model.template_of(settings).name
    return replace(model.facts, attention=attention, cache=taken_cache(switches.cache), prompt_template=template)
