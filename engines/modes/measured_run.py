"""One run from its start message to its end message: setup, the measured stages, and what is told afterwards.

However it ends (finished, stopped, out of memory, bad input, a defect) it ends in a status with what was measured.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import torch

from engines.decoder.eager_steps import IDENTICAL, EarlyExitStep
from engines.decoder.kv_cache import weigh
from engines.decoder.quantized_kv import check_cache
from engines.decoder.sampling import make_sampler
from engines.decoder.step_choice import ChosenStep, DecodeSteps, StepPlan, expected_prompt, kernels_taken, no_step
from engines.hardware.device import use_threads
from engines.hardware.environment import describe_environment
from engines.hardware.gpu_state import GpuWatch
from engines.loading.warm_models import Warm
from engines.measuring.device_timer import make_timers
from engines.measuring.stage_memory import StageMemory
from engines.modes.concurrency import SharedSink
from engines.modes.failures import give_back, is_lost_gpu, is_memory_failure, lost_sentence, memory_sentence
from engines.modes.plain_run import Course, PlainRun
from engines.modes.run_plan import RunPlan, RunTools, block_sizes, reads_inside, resolved, taken_facts, way_of
from engines.modes.run_zero import RunZero
from engines.modes.strategy import strategy_of
from engines.stages.model import EVENTS, VisionLanguageModel
from engines.stages.pipeline import ModelPass, capacity_of
from engines.stages.reading import OFF, files_of, import_reader_of, recording_problems
from engines.tokens.alternatives import AlternativesLog
from engines.tokens.answer import Answer
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.messages import RunDescribed, RunEnded, RunStarted, RunWarned, SetupProgressed
from evprof.core.protocols import Sink, StopFlag
from evprof.core.records import DRAFT, TARGET, FrameRecord
from evprof.core.request import RunRequest, input_of
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, ModelFacts, RunInfo
from evprof.core.speculation import SpeculationFacts
from evprof.core.vocabulary.drafters import DRAFTERS
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.setting import Situation
from evprof.core.vocabulary.settings import SETTINGS
from evprof.core.vocabulary.switches import Switches
from evprof.loaders.page_cache import prefetch


@dataclass(frozen=True, eq=False)
class Ready:
    """What setup leaves, by role: models on their devices, and how each decodes."""

    models: dict[str, VisionLanguageModel]
    steps: dict[str, tuple[ChosenStep, DecodeSteps]]


class MeasuredRun:
    """Carries one RunPlan out."""

    def __init__(self, request: RunRequest, plan: RunPlan, tools: RunTools, sink: Sink, *, stop: StopFlag) -> None:
        self._request = request
        self._plan = plan
        self._tools = tools
        # Where draft and target compute at once, both have something to say.
        self._sink = SharedSink(sink) if mode_of(request.mode).is_parallel else sink
        self._stop = stop
        self._environment: dict[str, Any] = {}
        self._models: dict[str, VisionLanguageModel] = {}
        self._taken: dict[str, ModelFacts] = {}
        self._doing = "before its models were loaded"
        self.lost_gpu: str | None = None  # a sentence, once it has happened
        # Each part of the run that has begun says here what is to be told of it at the end.
        self._endings: list[Callable[[], dict[str, Any]]] = [tools.end_facts]

    @property
    def _way(self) -> str:
        return way_of(self._request.mode, self._plan.role, self._plan.settings)

    def perform(self) -> str:
        """Runs; returns the status it ended with. Raises nothing."""
        self._environment = describe_environment()
        self._sink.post(RunStarted(self._plan.run_id, self._info()))
        status, error = FAILED, None
        try:
            ready = self._set_up()
            with self._tools.wrap, torch.inference_mode():
                self._measure(ready)
            status = FINISHED
        except Cancelled:
            status = CANCELLED
        except UserError as problem:
            error = problem.sentence
        except Exception as defect:  # noqa: BLE001 - a run that meets a defect has failed; the engine goes on
            error = self._sentence_for(defect)
        self._doing = "after its last stage"
        facts: dict[str, Any] = {}
        try:
            for ending in self._endings:
                facts |= ending()
        except Exception as defect:  # noqa: BLE001 - what was measured is in the records already; the run still ends
            said = self._sentence_for(defect)
            status, error = FAILED, error or said
        self._endings.clear()
        if status == FAILED:
            give_back(self._tools.warm)
        if status != FINISHED:
            # What was asked for ended here: this warm-up is all that tells how.
            facts["warmup"] = False
        else:
            self._note_use()
        self._sink.post(RunEnded(self._plan.run_id, status, error, facts))
        return status

    def _note_use(self) -> None:
        for role in self._models:
            choice = self._request.choice_of(role)
            if choice is not None:
                self._tools.warm.note_use(choice, role, self._way)

    def _info(self) -> RunInfo:
        plan = self._plan
        return RunInfo(
            run_id=plan.run_id,
            group_id=self._request.group_id,
            repeat=plan.repeat if plan.repeat >= 0 else self._request.first_repeat,
            role=plan.role,
            mode=self._request.mode,
            settings=resolved(plan.settings, plan.roles(self._request.mode)),
            sample=self._request.sample,
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            warmup=plan.repeat < 0,
            profiled=plan.profiled,
            environment=self._environment,
            cell=self._request.cell,
        )

    def _set_up(self) -> Ready:
        """Loads what is not warm; all of it before the run's zero."""
        check_cache(self._plan.settings.switches.cache, speculates=mode_of(self._request.mode).drafts)
        models = self._models
        warmed: dict[str, Warm] = {}
        roles = self._plan.roles(self._request.mode)
        self._tools.make_room(self._request, roles, self._tools.warm)
        for role in roles:
            choice = self._request.choice_of(role)
            if choice is None:
                raise UserError(f"Mode {self._request.mode} needs a {role} model; name one with --{role}.")
            self._doing = f"while the weights of the {role} were loaded"
            warm = self._tools.warm.get(choice, role, self._progress(role), self._stop)
            self._doing = f"while the {role} was made ready"
            first_use = self._tools.warm.is_first_use(choice, role, self._way)
            warm = replace(warm, setup=replace(warm.setup, first_use=first_use))
            models[role], warmed[role] = warm.model, warm
            taken = taken_facts(warm.model, self._plan.settings)
            warm.model.make_ready(self._plan.settings.taken_by(role, drafts=mode_of(self._request.mode).drafts))
            warm.model.language_model.attention = taken.attention
            self._describe({"models": {role: taken}, "setup": {role: warm.setup}})
            for sentence in warm.model.warnings:
                self._warn(sentence)
        use_threads(models.values())
        steps = {role: (self._choose_step(role, warm), warm.steps) for role, warm in warmed.items()}
        self._environment = describe_environment(models[self._plan.role].device)
        self._describe({"environment": self._environment})
        self._make_files_ready(roles)
        gpus, device = GpuWatch(model.device for model in models.values()), models[self._plan.role].device
        self._endings.append(lambda: self._gpu_facts(gpus, device))
        return Ready(models, steps)

    def _make_files_ready(self, roles: tuple[str, ...]) -> None:
        """Before the run's zero: what reads the input is imported, its files are in memory or not, as asked for."""
        switches, sample = self._plan.settings.switches, self._request.sample
        reading = set(roles) & set(self._request.reading_roles)
        kinds = {input_of(self._plan.settings.input, role) for role in reading}
        if EVENTS in kinds and sample.events_path is not None:
            import_reader_of(sample.events_path)
        if switches.prefetch == OFF:
            return
        paths = files_of(sample, kinds, has_frame_cache=switches.frame_cache != OFF)
        for sentence in prefetch(paths, switches.prefetch, self._stop.is_set):
            self._warn(sentence)

    def _choose_step(self, role: str, warm: Warm) -> ChosenStep:
        """Compiles or captures what the run will decode with; that is known only now, with the threads it takes."""
        settings, model = self._plan.settings, warm.model
        taken = taken_facts(model, settings)
        frames = settings.frames or settings.event_frames or FAMILIES[model.facts.family].frames
        start = warm.steps.last_prompt or expected_prompt(model.visual_tokens_per_frame * frames)
        plan = StepPlan(
            block_sizes(role, settings, is_speculative=mode_of(self._request.mode).drafts),
            start,
            capacity_of(start, settings),
            taken.cache,
        )
        self._doing = f"while the decode step of the {role} was made"
        if self._ends_in_other_head(role):
            chosen = ChosenStep(None)
        elif role == TARGET and reads_inside(self._request):
            chosen = no_step(self._switches(role), "the head that drafts reads what enters the target's layers")
        else:
            chosen = warm.steps.choose(self._switches(role), plan)
        setup = replace(warm.setup, compile_ms=chosen.compile_ms)
        self._taken[role] = replace(taken, step=chosen.kind)
        self._describe({"models": {role: self._taken[role]}, "setup": {role: setup}})
        if chosen.sentence is not None:
            self._warn(chosen.sentence)
        return chosen

    def _switches(self, role: str) -> Switches:
        """Raises UserError where drafts cannot be verified as asked. Who only drafts may compute as it likes."""
        settings, mode = self._plan.settings, mode_of(self._request.mode)
        switches = settings.switches
        if switches.step != IDENTICAL:
            return switches
        entry = SETTINGS["step"]
        if reason := entry.refuses(Situation(mode.key, settings.flat()), switches.step):
            raise UserError(f"{entry.flag} {switches.step}: {reason}", exit_code=USAGE)
        return replace(switches, step="auto") if mode.drafts and role == DRAFT else switches

    def _ends_in_other_head(self, role: str) -> bool:
        """Whether the draft's steps are not its own: a compiled or captured one would end in its own head."""
        drafter = DRAFTERS.get(self._plan.settings.speculation.drafter)
        drafts = role == DRAFT and mode_of(self._request.mode).drafts
        return drafts and drafter is not None and drafter.ends_in_other_head

    def _progress(self, role: str) -> Callable[[int, int], None]:
        return lambda done, total: self._sink.post(SetupProgressed(self._plan.run_id, role, done, total))

    def _measure(self, ready: Ready) -> None:
        self._doing = "between two stages"
        plan, models = self._plan, ready.models
        devices = [model.device for model in models.values()]
        clock = self._tools.make_clock(self._sink, plan.run_id, timers=make_timers(devices, self._tools.pools))
        memory = StageMemory(devices)
        vocabulary = models[plan.role].vocabulary
        strategy = strategy_of(self._request.mode)
        answer = Answer(self._sink, plan.run_id, plan.role, vocabulary.pieces, origin=strategy.origin)
        sampler = make_sampler(plan.settings, models[plan.role].device)
        log = self._alternatives(models[plan.role])
        course = Course(
            plan,
            self._request.sample,
            models,
            {role: chosen.step for role, (chosen, _) in ready.steps.items()},
            answer,
            sampler if log is None else log.watched(sampler),
            self._sink,
            clock,
            memory,
            self._stop,
            RunZero(self._describe).teller,
            self._tools.draft_pools,
            self._tools.draft_worker,
            log,
        )
        try:
            self._play(strategy(course), ready.steps)
        finally:
            end_ns = clock.finish()
            self._endings.append(lambda: {"end_ns": end_ns, "clocks": clock.device_clocks})
            self._describe({"end_ns": end_ns})

    def _alternatives(self, model: VisionLanguageModel) -> AlternativesLog | None:
        """What keeps the answering model's logits: its memory is taken before the run's zero."""
        if not self._plan.settings.alternatives:
            return None
        language = model.language_model
        dtype = language.embed_tokens.weight.dtype
        return AlternativesLog(model.device, language.rows, dtype, self._plan.settings.max_new_tokens)

    def _play(self, run: PlainRun, steps: dict[str, tuple[ChosenStep, DecodeSteps]]) -> None:
        course, told = run.course, run.facts
        if told is not None:
            self._describe({"speculation": told})
        if run.sentence:
            self._warn(run.sentence)
        self._endings.append(lambda: self._outcome(run, steps, told))
        try:
            first = run.prefill()
            device = run.answering.model.device
            with course.memory.stage("decode"), course.clock.stage("decode", self._plan.role, device) as span:
                if first is not None:
                    span.input("first token", first)
                try:
                    run.decode(first)
                finally:
                    span.output("token ids", course.answer.ids)
        finally:
            run.close()

    def _outcome(
        self, run: PlainRun, steps: dict[str, tuple[ChosenStep, DecodeSteps]], told: SpeculationFacts | None
    ) -> dict[str, Any]:
        """What is told at the end: nothing of this is inside the measured time."""
        facts: dict[str, Any] = {}
        for record in run.judgements():
            self._sink.append(record)
        vocabulary, ids = run.answering.model.vocabulary, run.course.answer.ids
        if (log := run.course.alternatives) is not None:
            for alternatives in log.records(self._plan.run_id, self._plan.role, ids, vocabulary.pieces):
                self._sink.append(alternatives)
        if run.facts != told:
            facts["speculation"] = run.facts
        for role, model_pass in run.passes.items():
            self._tell_inputs(role, model_pass)
            self._tell_step(model_pass)
            steps[role][1].last_prompt = model_pass.cached.prompt_length
        facts["models"] = {role: self._with_kernels(role, model_pass) for role, model_pass in run.passes.items()}
        weights = sum(model_pass.model.facts.weight_bytes or 0 for model_pass in run.passes.values())
        facts["memory"] = run.course.memory.facts(weights)
        facts["kv"] = {
            role: weigh(model_pass.cached.opened).facts(model_pass.cached.rolled_back)
            for role, model_pass in run.passes.items()
            if model_pass.cached.length
        }
        if ids:
            facts["text"] = vocabulary.decode([token_id for token_id in ids if token_id not in vocabulary.eos_ids])
        return facts

    def _with_kernels(self, role: str, model_pass: ModelPass) -> ModelFacts:
        blocks = block_sizes(role, self._plan.settings, is_speculative=mode_of(self._request.mode).drafts)
        kernels = kernels_taken(model_pass.cached, max(blocks) if role == TARGET else 1)
        return replace(self._taken[role], attention_kernels=kernels, vision_pass=model_pass.model.vision_pass)

    def _gpu_facts(self, gpus: GpuWatch, device: torch.device) -> dict[str, Any]:
        """The environment with the GPU's state at the end; what makes its times doubtful becomes a warning."""
        states, sentences = gpus.look_again()
        for sentence in sentences:
            self._warn(sentence)
        return {"environment": {**self._environment, "gpu_end": states.get(device)}}

    def _tell_step(self, model_pass: ModelPass) -> None:
        step = model_pass.cached.own_step
        if isinstance(step, EarlyExitStep) and (sentence := step.sentence()):
            self._warn(sentence)
        elif step is not None and step.problem is not None:
            self._warn(f"The {step.kind} decode step failed during the run, which went on eagerly: {step.problem}.")

    def _tell_inputs(self, role: str, model_pass: ModelPass) -> None:
        inputs = model_pass.inputs
        if inputs is None:
            return
        for sentence in (*inputs.warnings, *self._recording_problems(role)):
            self._warn(sentence)
        if not self._request.keeps_frames:
            return
        for index, frame in enumerate(inputs.frames):
            self._sink.append(
                FrameRecord(self._plan.run_id, role, index, frame.start_us, frame.end_us, frame.label, frame.png)
            )

    def _recording_problems(self, role: str) -> tuple[str, ...]:
        path = self._request.sample.events_path
        if path is None or input_of(self._plan.settings.input, role) != EVENTS:
            return ()
        return recording_problems(path)

    def _sentence_for(self, defect: Exception) -> str:
        """What a run ends with that met a defect, whose trace goes to stderr unless it is that memory ran out."""
        if not is_memory_failure(defect):
            traceback.print_exc(file=sys.stderr)
            if not is_lost_gpu(defect):
                return f"{type(defect).__name__}: {defect}"
            self.lost_gpu = lost_sentence(defect)
            return self.lost_gpu
        return memory_sentence(
            defect,
            doing=self._doing,
            devices={role: str(model.device) for role, model in self._models.items()},
            held_bytes=sum(model.facts.weight_bytes or 0 for model in self._models.values()),
        )

    def _describe(self, facts: dict[str, Any]) -> None:
        self._sink.post(RunDescribed(self._plan.run_id, facts))

    def _warn(self, sentence: str) -> None:
        self._sink.post(RunWarned(self._plan.run_id, sentence))
