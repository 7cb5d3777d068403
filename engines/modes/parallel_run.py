"""The draft reads, prefills and drafts in a thread of its own while the target prefills, and what is told of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from engines.decoder.attention import ALONE
from engines.decoder.compiled_step import CompiledStep
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.decoding import DecodeStep
from engines.drafters.model_drafter import ModelDrafter
from engines.measuring.stage_memory import UnmeasuredMemory
from engines.modes.concurrency import Concurrency, DraftThread, LinkedStop
from engines.modes.parallel_prefill import DraftWindow, HiddenBlock, ParallelPrefill
from engines.modes.strategies import RunContext, SpeculativeRun
from engines.stages.pipeline import ModelPass, Prefilling, Tell
from engines.tokens.answer import Answer
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import SpeculationFacts
from evprof.core.units import ms_from_ns


class ParallelRun(SpeculativeRun):
    """The draft's work begins in a thread of its own; its sink takes from two threads."""

    def __init__(self, context: RunContext) -> None:
        if context.settings.switches.attention in ALONE:
            raise UserError(
                "PyTorch restricts itself to one attention kernel for all threads at once, and in mode "
                "parallel-prefill two models compute; leave --attention out.",
                exit_code=USAGE,
            )
        models, stop = context.models, context.stop
        self._concurrency = Concurrency(models[DRAFT].device, models[TARGET].device, context.pools)
        self._branch = self._concurrency.branch(context.clock, context.sink)
        self._draft_stop, self._target_stop = LinkedStop(stop), LinkedStop(stop)
        super().__init__(context)
        drafter = self._checked()
        self._see = drafter.see
        self._block, self._thread, self._work = self._prepared(drafter)
        self._step = self._made_ready(context.steps[DRAFT])
        self._concurrency.note_ready()

    def make_pass(self, role: str) -> ModelPass:
        context, is_draft = self.context, role == DRAFT
        return ModelPass(
            context.models[role],
            role,
            self.settings_of(role),
            clock=self._branch if is_draft else context.clock,
            memory=UnmeasuredMemory() if is_draft else context.memory,
            stop=self._draft_stop if is_draft else self._target_stop,
            step=context.steps[role],
        )

    def _checked(self) -> ModelDrafter:
        """Raises UserError where only text passes between the models."""
        if isinstance(self.drafter, ModelDrafter):
            return self.drafter
        draft, target = (self.passes[role].model.facts.name for role in (DRAFT, TARGET))
        raise UserError(
            f"Too few ids of {draft} mean the same to {target} for drafts inside its prefill; choose --mode "
            "speculative, which passes text between them."
        )

    def _prepared(self, drafter: ModelDrafter) -> tuple[HiddenBlock, DraftThread, ParallelPrefill]:
        context, settings, target = self.context, self.context.settings, self.passes[TARGET]
        limits = target.limits()
        window = DraftWindow.of(settings.speculation, limits)
        thread = DraftThread(
            self._prefill_draft,
            drafter,
            most=window.most,
            eos_ids=limits.eos_ids,
            clock=self._branch,
            stop=self._draft_stop,
            beside=self._target_stop,
            side=self._concurrency.draft_side(),
            answer=context.answer,
            worker=context.draft_worker,
            is_tree=window.is_tree,
        )
        block = HiddenBlock(target.cached, drafter, context.answer, limits, verifier=self.verifier, clock=context.clock)
        work = ParallelPrefill(
            window,
            target.cached,
            thread,
            block,
            answer=context.answer,
            sampler=context.sampler,
            is_greedy=settings.temperature == 0,
            limits=limits,
            make_rounds=lambda: self.rounds(self._target_stop),
            concurrency=self._concurrency,
            clock=context.clock,
            stop=self._target_stop,
        )
        return block, thread, work

    @property
    def facts(self) -> SpeculationFacts | None:
        beside, crossing = self._concurrency, self._block.crossing
        crossed_ns = sum(span.duration_ns for span in crossing.spans)
        return replace(
            self._facts,
            concurrency=beside.kind,
            draft_threads=beside.draft_threads,
            target_threads=beside.target_threads,
            transfer_bytes=crossing.nbytes if crossing.spans else None,
            transfer_ms=ms_from_ns(crossed_ns) if crossing.spans else None,
        )

    @property
    def _begins_early(self) -> bool:
        return self.context.settings.speculation.begins == "load"

    def _prefill_draft(self) -> torch.Tensor:
        """The draft's own stages, in its thread -> the logits [1, V] after its prompt."""
        draft, context = self.passes[DRAFT], self.context
        told = told_apart(context.tell(DRAFT), is_zero=False, shares_disk=self._begins_early)
        keeping = _Keeping(context.answer)
        draft.prefill_as(keeping, draft.up_to_vision(context.sample, told))
        return keeping.logits

    def prefill(self) -> torch.Tensor | None:
        target, thread = self.passes[TARGET], self._thread
        self._concurrency.enter_target()
        thread.start()
        told = told_apart(self.context.tell(TARGET), is_zero=True, shares_disk=self._begins_early)

        def tell_target(name: str, value: Any) -> None:
            told(name, value)
            if name == "start_ns" and self._begins_early:
                thread.begin()

        with self._failures():
            visual = target.up_to_vision(self.context.sample, tell_target)
            self._see(visual)
            return target.prefill_as(self._work, visual)

    def decode(self, first: torch.Tensor | None) -> None:
        with self._failures():
            self._work.decode(first)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except Cancelled:
            if (failure := self._thread.failure) is not None:
                raise failure from None
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
        self._thread.abandon()
        if isinstance(self._step, GraphStep):
            self._step.captures = True
        self._concurrency.leave_target()
        self._branch.finish()
        # Both hold this run as it holds them: the KV caches would stay until a garbage collection finds that out.
        del self._thread, self._work


class _Keeping(Prefilling):
    """The draft's prefill: its logits are where free drafting begins."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer, None)
        self._logits: torch.Tensor | None = None

    def take(self, logits: torch.Tensor) -> None:
        self._logits = logits

    @property
    def logits(self) -> torch.Tensor:
        if self._logits is None:
            raise RuntimeError("logits before prefill")
        return self._logits


def told_apart(tell: Tell, *, is_zero: bool, shares_disk: bool) -> Tell:
    """Passes on one pass's reports: the run's zero from one of two, bytes from disk unless both read at once."""

    def told(name: str, value: Any) -> None:
        if name == "start_ns" and not is_zero:
            return
        if name == "loading" and shares_disk:
            value = replace(value, bytes_from_disk=None)
        tell(name, value)

    return told
