"""Both models of a run in mode parallel-prefill: their passes, the draft's thread, and what is told of them afterwards.

It joins what `parallel_prefill`, `draft_thread` and `pipeline` know apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from engines.decoder.attention import FLASH
from engines.decoder.compiled_step import CompiledStep
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.decoding import DecodeStep
from engines.decoder.sampling import Sampler
from engines.drafters.model_drafter import ModelDrafter
from engines.measuring.stage_memory import StageMemory, UnmeasuredMemory
from engines.measuring.timing import StageClock
from engines.modes.concurrency import Concurrency, LinkedStop
from engines.modes.draft_thread import DraftThread
from engines.modes.hidden_block import HiddenBlock
from engines.modes.parallel_prefill import DraftWindow, ParallelPrefill
from engines.speculation.drafted_run import Speculating
from engines.stages.model import VisionLanguageModel
from engines.stages.pipeline import ModelPass, Prefilling, Tell
from engines.tokens.answer import Answer
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.protocols import Sink, StopFlag
from evprof.core.records import DRAFT, TARGET
from evprof.core.sample import Sample
from evprof.core.speculation import SpeculationFacts
from evprof.core.units import ms_from_ns
from evprof.core.vocabulary.generation import GenerationSettings


class ParallelRun:
    """Made before the run's zero. `passes` are both models' ways through it; `sink` takes from two threads."""

    def __init__(
        self,
        settings: GenerationSettings,
        models: Mapping[str, VisionLanguageModel],
        steps: Mapping[str, DecodeStep | None],
        *,
        sink: Sink,
        clock: StageClock,
        memory: StageMemory,
        stop: StopFlag,
        pools: dict[str, list[Any]],
    ) -> None:
        if settings.switches.attention == FLASH:
            raise UserError(
                "PyTorch restricts itself to flash kernels for all threads at once, and in mode parallel-prefill two "
                "models compute; leave --attention out.",
                exit_code=USAGE,
            )
        self._settings = settings
        self._clock = clock
        self._concurrency = Concurrency(models[DRAFT].device, models[TARGET].device, pools)
        self._branch = self._concurrency.branch(clock, sink)
        self._draft_stop, self._target_stop = LinkedStop(stop), LinkedStop(stop)
        draft = ModelPass(
            models[DRAFT],
            DRAFT,
            settings,
            clock=self._branch,
            memory=UnmeasuredMemory(),
            stop=self._draft_stop,
            step=steps[DRAFT],
        )
        target = ModelPass(
            models[TARGET],
            TARGET,
            settings,
            clock=clock,
            memory=memory,
            stop=self._target_stop,
            step=steps[TARGET],
        )
        self.passes = {DRAFT: draft, TARGET: target}
        self._step = self._made_ready(steps[DRAFT])
        self._thread: DraftThread | None = None
        self._block: HiddenBlock | None = None
        self._work: ParallelPrefill | None = None

    def facts(self, facts: SpeculationFacts) -> SpeculationFacts:
        """How both ran at once, and what drafts took to cross, once that is known."""
        beside, crossing = self._concurrency, None if self._block is None else self._block.crossing
        crossed = crossing is not None and crossing.spans
        return replace(
            facts,
            concurrency=beside.kind,
            draft_threads=beside.draft_threads,
            target_threads=beside.target_threads,
            transfer_bytes=crossing.nbytes if crossing is not None and crossed else None,
            transfer_ms=(
                ms_from_ns(sum(span.duration_ns for span in crossing.spans))
                if crossing is not None and crossed
                else None
            ),
        )

    def prefill(
        self, sample: Sample, tell: Mapping[str, Tell], speculating: Speculating, answer: Answer, sampler: Sampler
    ) -> torch.Tensor | None:
        """The draft's thread begins, and the target goes through its stages up to prefill.

        Gives the first token [1, 1] where nothing was drafted. Raises what either side fails with.
        """
        settings, target, draft = self._settings, self.passes[TARGET], self.passes[DRAFT]
        drafter, limits = speculating.drafter, target.limits()
        if not isinstance(drafter, ModelDrafter):
            raise UserError(
                f"Too few ids of {draft.model.facts.name} mean the same to {target.model.facts.name} for drafts inside "
                "its prefill; choose --mode speculative, which passes text between them."
            )
        window = DraftWindow.of(settings.speculation, limits)
        begins_early = settings.speculation.begins == "load"

        def prepare() -> torch.Tensor:
            visual = draft.up_to_vision(sample, told_apart(tell[DRAFT], is_zero=False, shares_disk=begins_early))
            keeping = _Keeping(answer)
            draft.prefill_as(keeping, visual)
            return keeping.logits

        self._thread = thread = DraftThread(
            prepare,
            drafter,
            most=window.most,
            eos_ids=limits.eos_ids,
            clock=self._branch,
            stop=self._draft_stop,
            beside=self._target_stop,
            side=self._concurrency.draft_side(),
            answer=answer,
        )
        self._block = HiddenBlock(
            target.cached, drafter, answer, limits, verifier=speculating.verifier, clock=self._clock
        )
        self._work = ParallelPrefill(
            window,
            target.cached,
            thread,
            self._block,
            answer=answer,
            sampler=sampler,
            is_greedy=settings.temperature == 0,
            limits=limits,
            make_rounds=lambda: speculating.rounds(target, answer, limits, clock=self._clock, stop=self._target_stop),
            concurrency=self._concurrency,
            clock=self._clock,
            stop=self._target_stop,
        )
        self._concurrency.enter_target()
        thread.start()
        told = told_apart(tell[TARGET], is_zero=True, shares_disk=begins_early)

        def tell_target(name: str, value: Any) -> None:
            told(name, value)
            if name == "start_ns" and begins_early:
                thread.begin()

        try:
            visual = target.up_to_vision(sample, tell_target)
            drafter.see(visual)
            return target.prefill_as(self._work, visual)
        except Cancelled:
            self._raise_failure()
            raise

    def decode(self, first: torch.Tensor | None) -> None:
        """What stage decode is to do."""
        if self._work is None:
            raise RuntimeError("decode before prefill")
        try:
            self._work.decode(first)
        except Cancelled:
            self._raise_failure()
            raise

    def _made_ready(self, step: DecodeStep | None) -> DecodeStep | None:
        """The draft's step as its thread will find it: compiled for that many CPU threads, captured or never."""
        if isinstance(step, CompiledStep) and self._concurrency.draft_threads is not None:
            with self._concurrency.draft_side():
                step.compile_for((1, 2))
            self._concurrency.leave_target()
        elif isinstance(step, GraphStep):
            step.captures = False
        return step

    def close(self) -> None:
        """Ends the draft's thread, whatever it is at, and settles its spans. Raises nothing."""
        if self._thread is not None:
            self._thread.abandon()
        if isinstance(self._step, GraphStep):
            self._step.captures = True
        self._concurrency.leave_target()
        self._branch.finish()

    def _raise_failure(self) -> None:
        """The target stopped because the draft failed: that is then what went wrong."""
        failure = None if self._thread is None else self._thread.failure
        if failure is not None:
            raise failure


class _Keeping(Prefilling):
    """The draft's prefill: its logits are where free drafting begins."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer, None)
        self._logits: torch.Tensor | None = None

    def take(self, logits: torch.Tensor) -> None:
        """Keeps them."""
        self._logits = logits

    @property
    def logits(self) -> torch.Tensor:
        """[1, V]; RuntimeError before prefill."""
        if self._logits is None:
            raise RuntimeError("logits before prefill")
        return self._logits


def told_apart(tell: Tell, *, is_zero: bool, shares_disk: bool) -> Tell:
    """Passes on what one of two passes tells: the run's zero only from one of them, and bytes from disk only where the
    other did not read at the same time, since the system counts for the whole process."""

    def told(name: str, value: Any) -> None:
        if name == "start_ns" and not is_zero:
            return
        if name == "loading" and shares_disk:
            value = replace(value, bytes_from_disk=None)
        tell(name, value)

    return told
