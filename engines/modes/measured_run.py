"""One run from its start message to its end message: setup, the measured stages, and what is told afterwards.

However it ends (finished, stopped, out of memory, bad input, a defect) it ends in a status with what was measured.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import torch

from engines.decoder.decoding import decode
from engines.decoder.early_exit import EarlyExitStep
from engines.decoder.kv_cache import weigh
from engines.decoder.quantized_kv import check_cache
from engines.decoder.sampling import Sampler, greedy, make_sampler
from engines.decoder.step_choice import ChosenStep, DecodeSteps, StepPlan, expected_prompt
from engines.hardware.environment import describe_environment
from engines.hardware.gpu_state import GpuWatch
from engines.hardware.threads import use_threads
from engines.loading.warm_models import Warm, free_memory
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock, make_timers
from engines.modes.concurrency import SharedSink
from engines.modes.kv_adaptation import KvAdaptation
from engines.modes.parallel_run import ParallelRun
from engines.modes.run_plan import RunPlan, RunTools, block_sizes, resolved, taken_facts
from engines.speculation.drafted_run import Speculating
from engines.stages.model import EVENTS, VisionLanguageModel
from engines.stages.pipeline import ModelPass, capacity_of
from engines.stages.reading import OFF, files_of, import_reader_of, recording_problems
from engines.tokens.answer import Answer
from evprof.core.errors import Cancelled, UserError
from evprof.core.messages import RunDescribed, RunEnded, RunStarted, RunWarned, SetupProgressed
from evprof.core.protocols import Sink, StopFlag
from evprof.core.records import DRAFT, ORIGIN_DRAFT, ORIGIN_TARGET, TARGET, FrameRecord
from evprof.core.request import RunRequest, input_of
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RunInfo
from evprof.core.units import bytes_text
from evprof.core.vocabulary.drafters import HIDDEN
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.modes import mode_of
from evprof.loaders.page_cache import prefetch


class MeasuredRun:
    """Carries one RunPlan out."""

    def __init__(self, request: RunRequest, plan: RunPlan, tools: RunTools, sink: Sink, *, stop: StopFlag) -> None:
        self._request = request
        self._plan = plan
        self._tools = tools
        # Where draft and target compute at once, both have something to say.
        self._sink = SharedSink(sink) if mode_of(request.mode).is_parallel else sink
        self._stop = stop
        self._passes: dict[str, ModelPass] = {}
        self._clock: StageClock | None = None
        self._answer: Answer | None = None
        self._memory: StageMemory | None = None
        self._start_ns: int | None = None
        self._end_ns: int | None = None
        self._environment: dict[str, Any] = {}
        self._gpus: GpuWatch | None = None
        self._sampler: Sampler = greedy
        self._steps: dict[str, tuple[ChosenStep, DecodeSteps]] = {}
        self._speculating: Speculating | None = None
        self._parallel: ParallelRun | None = None
        self._adapting: KvAdaptation | None = None

    def perform(self) -> str:
        """Runs; returns the status it ended with. Raises nothing."""
        self._environment = describe_environment()
        self._sink.post(RunStarted(self._plan.run_id, self._info()))
        status, error = FAILED, None
        try:
            models = self._set_up()
            with self._tools.wrap, torch.inference_mode():
                self._measure(models)
            status = FINISHED
        except Cancelled:
            status = CANCELLED
        except UserError as problem:
            error = problem.sentence
        except (torch.OutOfMemoryError, MemoryError):
            error = self._out_of_memory()
        except Exception as defect:  # noqa: BLE001 - a run that meets a defect has failed; the engine goes on
            traceback.print_exc(file=sys.stderr)
            error = self._out_of_memory() if _is_allocation(defect) else f"{type(defect).__name__}: {defect}"
        try:
            facts = self._outcome()
        except Exception as defect:  # noqa: BLE001 - what was measured is in the records already; the run still ends
            traceback.print_exc(file=sys.stderr)
            status, error = FAILED, error or f"{type(defect).__name__}: {defect}"
            facts = {}
        self._passes.clear()
        if status == FAILED:
            free_memory()
        if status != FINISHED:
            # What was asked for ended here: this warm-up is all that tells how.
            facts["warmup"] = False
        self._sink.post(RunEnded(self._plan.run_id, status, error, facts))
        return status

    def _info(self) -> RunInfo:
        plan = self._plan
        return RunInfo(
            run_id=plan.run_id,
            group_id=self._request.group_id,
            repeat=plan.repeat if plan.repeat >= 0 else self._request.first_repeat,
            role=plan.role,
            mode=self._request.mode,
            settings=resolved(plan.settings, plan.roles(self._request.mode)).to_json(),
            sample=self._request.sample.facts(),
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            warmup=plan.repeat < 0,
            profiled=plan.profiled,
            environment=self._environment,
            cell=self._request.cell,
        )

    def _set_up(self) -> dict[str, VisionLanguageModel]:
        """Loads what is not warm; all of it before the run's zero."""
        check_cache(self._plan.settings.switches.cache, speculates=mode_of(self._request.mode).drafts)
        models: dict[str, VisionLanguageModel] = {}
        warmed: dict[str, Warm] = {}
        roles = self._plan.roles(self._request.mode)
        self._tools.make_room(self._request, roles, self._tools.warm)
        for role in roles:
            choice = self._request.choice_of(role)
            if choice is None:
                raise UserError(f"Mode {self._request.mode} needs a {role} model; name one with --{role}.")
            warm = self._tools.warm.get(choice, role, self._progress(role), self._stop)
            models[role], warmed[role] = warm.model, warm
            taken = taken_facts(warm.model, self._plan.settings)
            warm.model.make_ready(self._plan.settings)
            warm.model.language_model.attention = taken.attention
            self._describe({"models": {role: taken}, "setup": {role: warm.setup}})
            for sentence in warm.model.warnings:
                self._warn(sentence)
        use_threads(models.values())
        for role, warm in warmed.items():
            self._choose_step(role, warm)
        self._environment = describe_environment(models[self._plan.role].device)
        self._describe({"environment": self._environment})
        self._make_files_ready(roles)
        self._gpus = GpuWatch(model.device for model in models.values())
        return models

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

    def _choose_step(self, role: str, warm: Warm) -> None:
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
        chosen = ChosenStep(None) if self._ends_in_other_head(role) else warm.steps.choose(settings.switches, plan)
        self._steps[role] = chosen, warm.steps
        setup = replace(warm.setup, compile_ms=chosen.compile_ms)
        self._describe({"models": {role: replace(taken, step=chosen.kind)}, "setup": {role: setup}})
        if chosen.sentence is not None:
            self._warn(chosen.sentence)

    def _ends_in_other_head(self, role: str) -> bool:
        """Whether the draft's steps are not its own: a compiled or captured one would end in its own head."""
        drafter = self._plan.settings.speculation.drafter
        return role == DRAFT and drafter == HIDDEN and mode_of(self._request.mode).drafts

    def _progress(self, role: str) -> Callable[[int, int], None]:
        return lambda done, total: self._sink.post(SetupProgressed(self._plan.run_id, role, done, total))

    def _measure(self, models: dict[str, VisionLanguageModel]) -> None:
        plan, settings = self._plan, self._plan.settings
        devices = [model.device for model in models.values()]
        clock = self._tools.make_clock(self._sink, plan.run_id, timers=make_timers(devices, self._tools.pools))
        memory = StageMemory(devices)
        answering = models[plan.role]
        origin = ORIGIN_DRAFT if mode_of(self._request.mode).maps_cache else ORIGIN_TARGET
        answer = Answer(self._sink, plan.run_id, plan.role, answering.vocabulary.pieces, origin=origin)
        self._clock, self._memory, self._answer = clock, memory, answer
        self._sampler = make_sampler(settings, answering.device)
        steps = {role: self._steps[role][0].step for role in models}
        if mode_of(self._request.mode).is_parallel:
            self._parallel = ParallelRun(
                settings,
                models,
                steps,
                sink=self._sink,
                clock=clock,
                memory=memory,
                stop=self._stop,
                pools=self._tools.draft_pools,
            )
            self._passes.update(self._parallel.passes)
        else:
            for role, model in models.items():
                self._passes[role] = ModelPass(
                    model, role, settings, clock=clock, memory=memory, stop=self._stop, step=steps[role]
                )
        if mode_of(self._request.mode).drafts:
            self._speculating = Speculating(settings, self._passes[TARGET], self._passes.get(DRAFT))
            facts = self._speculating.facts
            self._describe({"speculation": facts if self._parallel is None else self._parallel.facts(facts)})
        if mode_of(self._request.mode).maps_cache:
            self._adapting = KvAdaptation(settings, self._passes, clock, memory)
            self._describe({"speculation": self._adapting.facts})
            self._warn(self._adapting.sentence)
        try:
            self._decode(self._prefill(answer))
        finally:
            if self._parallel is not None:
                self._parallel.close()
            self._end_ns = clock.finish()
            self._describe({"end_ns": self._end_ns})

    def _prefill(self, answer: Answer) -> torch.Tensor | None:
        """All stages before decode -> the answer's first token [1, 1]; None where decode is to find it."""
        plan, sample = self._plan, self._request.sample
        if self._parallel is not None and self._speculating is not None:
            tell = {role: self._teller(role) for role in self._passes}
            return self._parallel.prefill(sample, tell, self._speculating, answer, self._sampler)
        if self._adapting is not None:
            tell = {role: self._teller(role) for role in self._passes}
            return self._adapting.prefill(sample, tell, answer, self._sampler)
        first: torch.Tensor | None = None
        for role, model_pass in self._passes.items():
            visual = model_pass.up_to_vision(sample, self._teller(role))
            first = model_pass.prefill(visual, answer, self._sampler if role == plan.role else None)
        return first

    def _decode(self, first: torch.Tensor | None) -> None:
        plan, clock, answer, memory = self._plan, self._clock, self._answer, self._memory
        if clock is None or answer is None or memory is None:
            raise RuntimeError("decode before prefill")
        answering = self._passes[plan.role]
        limits = answering.limits()
        with clock.stage("decode", plan.role, answering.model.device) as span, memory.stage("decode"):
            if first is not None:
                span.input("first token", first)
            try:
                if self._parallel is not None:
                    self._parallel.decode(first)
                elif self._speculating is not None:
                    self._speculating.rounds(answering, answer, limits, clock=clock, stop=self._stop).run()
                elif first is not None:
                    decode(answering.cached, first, answer, limits, sampler=self._sampler, clock=clock, stop=self._stop)
            finally:
                span.output("token ids", answer.ids)

    def _teller(self, role: str) -> Callable[[str, Any], None]:
        def tell(name: str, value: Any) -> None:
            if name in ("lengths", "loading"):
                self._describe({name: {role: value}})
            elif self._start_ns is None:
                # The run's zero is the first model's.
                self._start_ns = value
                self._describe({"start_ns": value})

        return tell

    def _outcome(self) -> dict[str, Any]:
        """What is told at the end: nothing of this is inside the measured time."""
        facts: dict[str, Any] = {"end_ns": self._end_ns} if self._end_ns is not None else {}
        facts.update(self._gpu_facts())
        facts.update(self._tools.end_facts())
        if self._speculating is not None:
            for record in self._speculating.judgements(self._plan.run_id):
                self._sink.append(record)
            if self._parallel is not None:
                facts["speculation"] = self._parallel.facts(self._speculating.facts)
        for role, model_pass in self._passes.items():
            self._tell_inputs(role, model_pass)
            self._tell_step(model_pass)
            self._steps[role][1].last_prompt = model_pass.cached.prompt_length
        if self._passes and self._memory is not None:
            weights = sum(model_pass.model.facts.weight_bytes or 0 for model_pass in self._passes.values())
            facts["memory"] = self._memory.facts(weights)
            facts["kv"] = {
                role: weigh(model_pass.cached.opened).facts(model_pass.cached.rolled_back)
                for role, model_pass in self._passes.items()
                if model_pass.cached.length
            }
        if self._answer is not None and self._answer.ids:
            model = self._passes[self._plan.role].model
            ids = [token_id for token_id in self._answer.ids if token_id not in model.vocabulary.eos_ids]
            facts["text"] = model.vocabulary.decode(ids)
        return facts

    def _gpu_facts(self) -> dict[str, Any]:
        """The environment with the GPU's state at the end; what makes its times doubtful becomes a warning."""
        if self._gpus is None:
            return {}
        states, sentences = self._gpus.look_again()
        for sentence in sentences:
            self._warn(sentence)
        answering = self._passes.get(self._plan.role)
        state = states.get(answering.model.device) if answering is not None else None
        return {"environment": {**self._environment, "gpu_end": state}}

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

    def _out_of_memory(self) -> str:
        device = next((str(model_pass.model.device) for model_pass in self._passes.values()), "this machine")
        held = sum(model_pass.model.facts.weight_bytes or 0 for model_pass in self._passes.values())
        weights = f" with {bytes_text(held)} of weights loaded" if held else ""
        return (
            f"Memory ran out on {device}{weights}; choose a smaller model or dtype, fewer frames or fewer new tokens."
        )

    def _describe(self, facts: dict[str, Any]) -> None:
        self._sink.post(RunDescribed(self._plan.run_id, facts))

    def _warn(self, sentence: str) -> None:
        self._sink.post(RunWarned(self._plan.run_id, sentence))


def _is_allocation(defect: Exception) -> bool:
    """Whether a RuntimeError is the CPU allocator's way of saying that memory ran out."""
    return isinstance(defect, RuntimeError) and "not enough memory" in str(defect)
