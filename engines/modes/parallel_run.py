"""Mode parallel-prefill: the draft reads, prefills and drafts in its own thread while the target prefills.

Drafted tokens are verified in one block. The prefill's own logits judge the first token. The rest takes one pass
after the prefill, or rides in its last chunk. Plain decoding or rounds follow. The answer is the target's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import torch

from engines.decoder.attention import ALONE
from engines.decoder.compiled_step import CompiledStep
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.decoding import CachedModel, DecodeStep, Limits, decode
from engines.decoder.llama import BlockShape
from engines.decoder.sampling import Sampler
from engines.drafters.drafter import Proposal, Verified
from engines.drafters.model_drafter import ModelDrafter
from engines.measuring.stage_memory import UnmeasuredMemory
from engines.measuring.timing import OpenSpan, StageClock
from engines.modes.concurrency import Concurrency, DraftThread, FreeDrafts, LinkedStop, wait_for
from engines.modes.strategies import RunContext, SpeculativeRun
from engines.speculation.rounds import Judged, Rounds, Verifier
from engines.stages.pipeline import ModelPass, Prefilling, Tell
from engines.tokens.answer import Answer
from engines.tokens.uploads import upload
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.core.records import DRAFT, ORIGIN_ACCEPTED, ORIGIN_BONUS, TARGET
from evprof.core.run_info import SpeculationFacts
from evprof.core.units import ms_from_ns
from evprof.core.vocabulary.speculation import SpeculationSettings

LAST_CHUNK = 64
"""Positions of the prompt that form the last chunk, which drafts ride in, where no chunk size is asked for: as few as
still make matrix products of it, so that drafting goes on for nearly all of the prefill."""


@dataclass(frozen=True)
class DraftWindow:
    """The drafting inside a prefill: at most `most` tokens, exactly so many if `is_forced`; `rides` in the prefill's
    last chunk; `goes_on` in rounds; `is_tree`."""

    most: int
    is_forced: bool = False
    rides: bool = False
    goes_on: bool = False
    is_tree: bool = False

    @classmethod
    def of(cls, asked: SpeculationSettings, limits: Limits) -> DraftWindow:
        """As the settings say; drafts and the token after them never exceed the answer's limit."""
        room = limits.max_new_tokens - 1
        most = room if asked.hidden is None else min(asked.hidden, room)
        rides = asked.verify == "last-chunk"
        is_tree = asked.shape == "tree" and not rides
        return cls(most, asked.hidden is not None, rides, asked.afterwards == "rounds", is_tree)


@dataclass(eq=False)
class ParallelPrefill(Prefilling):
    """The target's prefill and decoding. `crossings` are transfers of drafts between devices, with their bytes."""

    window: DraftWindow
    target: CachedModel
    thread: DraftThread
    drafter: ModelDrafter
    _: KW_ONLY
    answer: Answer
    sampler: Sampler
    verifier: Verifier
    is_greedy: bool
    limits: Limits
    make_rounds: Callable[[], Rounds]
    concurrency: Concurrency
    clock: StageClock
    stop: StopFlag

    def __post_init__(self) -> None:
        self.crossings: list[tuple[OpenSpan, int]] = []
        self._drafts: FreeDrafts | None = None
        self._proposal = Proposal.nothing()
        self._logits: torch.Tensor | None = None
        self._rounds: Rounds | None = None

    def begin(self) -> None:
        self.thread.begin()

    def compute(self, cached: CachedModel, embeddings: torch.Tensor, stop: StopFlag) -> torch.Tensor:
        """Logits [1, V], or [N + 1, V] where N drafts rode in the last chunk; the cache then holds both."""
        if not self.window.rides:
            return cached.prefill(embeddings, stop)
        *before, last = last_apart(embeddings, cached.prefill_chunk)
        hidden: torch.Tensor | None = None
        for chunk in before:
            hidden = cached.trunk(chunk, stop=stop)
        if hidden is not None:
            # The host is ahead of a GPU: it waits, or it would take drafts before they are made.
            wait_for(hidden)
        self._drafts = self._complete() if self.window.is_forced else self.thread.close()
        count = self._drafts.size
        if count:
            self._proposal = self._carried(self._drafts)
            drafted = cached.decoder.embed(self._proposal.ids[None])
            last = torch.cat([last, drafted.to(last.dtype)], dim=1)
        hidden = cached.trunk(last, stop=stop)
        cached.prompt_length = cached.length - count
        return cached.decoder.head(hidden[:, -1 - count :])[0]

    def take(self, logits: torch.Tensor) -> torch.Tensor | None:
        # A choice, not a draw, does not depend on what was drafted: it is under way before anybody waits for it.
        chosen = self.sampler(logits[:1]) if self.is_greedy and not self.window.rides else None
        if self._drafts is None and (not self.window.is_forced or self.thread.is_over or self.window.most == 0):
            wait_for(logits)
            self._drafts = self.thread.close()
        drafts = self._drafts
        if drafts is not None and drafts.size == 0:
            first = self.sampler(logits) if chosen is None else chosen
            self.answer.add(int(first))
            return first
        self._logits = logits
        self._rounds = self.make_rounds()
        if drafts is not None and self.window.rides:
            read: list[int] = self.verifier.look(self._proposal, logits).tolist()
            judged = self.verifier.conclude(self._proposal, read, self.limits.eos_ids)
            self._record(self._proposal, judged, drafts, logits, self._rounds, verify_ns=0)
        elif drafts is not None and chosen is not None:
            self._add_first(int(chosen), drafts)
        return None

    def decode(self, first: torch.Tensor | None) -> None:
        """Stage decode: the block, where it did not ride in the prefill, and what follows it."""
        drafts, window = self._drafts, self.window
        if drafts is None:
            drafts = self._complete()
        if drafts.size and not window.rides and self._logits is not None and self._rounds is not None:
            if self.is_greedy and not self.answer.ids:
                self._add_first(int(self.sampler(self._logits)), drafts)
            self.verify(self._logits, drafts, self._rounds)
        self._logits = None
        self._end_drafting(drafts)
        if window.goes_on:
            (self._rounds or self.make_rounds()).run()
            return
        if first is None:
            first = upload([self.answer.ids[-1:]], self.target.device)
        clock, stop = self.clock, self.stop
        decode(self.target, first, self.answer, self.limits, sampler=self.sampler, clock=clock, stop=stop)

    def verify(self, logits: torch.Tensor, drafts: FreeDrafts, rounds: Rounds) -> None:
        """One pass over the drafts, unless the first token settles everything. `logits` [1, V] are the prefill's."""
        clock, answer, target = self.clock, self.answer, self.target
        known = answer.ids[0] if answer.ids else None
        node = None if known is None else drafts.firsts.get(known)
        if known is not None and (node is None or known in self.limits.eos_ids):
            proposal = self.drafter.proposal(drafts.chosen)
            judged = Judged((0,) if node is None else (0, node + 1), (known,))
            self._record(proposal, judged, drafts, logits, rounds, verify_ns=0)
            return
        proposal = self._carried(drafts)
        with clock.child_on("verify", target.role, target.device) as verifying:
            ids = proposal.ids[None]
            if proposal.parents is None:
                passed = target.step(ids, keep=proposal.size)[0]
            else:
                passed = target.block(ids, BlockShape(proposal.parents, target.device))[0]
            logits = torch.cat([logits, passed])
            look = self.verifier.look(proposal, logits)
        read: list[int] = look.tolist()
        clock.settle()
        judged = self.verifier.conclude(proposal, read, self.limits.eos_ids)
        self._record(proposal, judged, drafts, logits, rounds, verify_ns=verifying.duration_ns)

    def align_draft(self) -> None:
        """Cuts what does not stand off the draft's cache, whose thread is done with it."""
        self.drafter.observe(self.answer.ids, Verified((0,)))
        self.drafter.note_length(self.answer)

    def _carried(self, drafts: FreeDrafts) -> Proposal:
        """The drafts as a proposal on the target's device; part of the innermost open span where they cross."""
        proposal, target = self.drafter.proposal(drafts.chosen), self.target
        if target.device == self.drafter.device:
            return proposal
        with self.clock.child_on("transfer", TARGET, target.device) as span:
            brought = proposal.on(target.device)
            span.output("draft ids", brought.ids)
        self.crossings.append((span, brought.ids.nbytes + (0 if brought.laws is None else brought.laws.nbytes)))
        return brought

    def _add_first(self, chosen: int, drafts: FreeDrafts) -> None:
        """The answer's first token, greedily `chosen` by the prefill's logits, as soon as the host knows it."""
        self.answer.add(chosen, ORIGIN_ACCEPTED if chosen in drafts.firsts else ORIGIN_BONUS, 0)

    def _record(
        self,
        proposal: Proposal,
        judged: Judged,
        drafts: FreeDrafts,
        logits: torch.Tensor,
        rounds: Rounds,
        *,
        verify_ns: int,
    ) -> None:
        target, answer = self.target, self.answer
        emitted = rounds.take(proposal, judged, drafts.ids, logits, early=len(answer.ids))
        rollback_start_ns = self.clock.now()
        fed = target.length - target.prompt_length
        if fed and proposal.parents is not None:
            target.keep_path(fed, [place - 1 for place in judged.path[1:]])
        target.crop_to(answer)
        target.rolled_back += target.prompt_length + fed - target.length
        spent_ns = (drafts.spent_ns, verify_ns, self.clock.now() - rollback_start_ns)
        rounds.note(proposal, judged, drafts.ids, emitted, start_ns=drafts.start_ns, spent_ns=spent_ns, hidden=True)
        target.note_length(answer)

    def _complete(self) -> FreeDrafts:
        with self.clock.child("wait for draft"):
            return self.thread.complete()

    def _end_drafting(self, drafts: FreeDrafts) -> None:
        if not (drafts.size or self.window.goes_on or self.window.is_forced):
            self.thread.release()
            self.concurrency.leave_target()
            return
        with self.clock.child("wait for draft"):
            self.thread.wait_until_prefilled()
            self.thread.join()
        self.concurrency.join_streams()
        self.concurrency.leave_target()
        self.align_draft()


def last_apart(embeddings: torch.Tensor, chunk: int) -> tuple[torch.Tensor, ...]:
    """A prompt [1, S, hidden] in chunks of so many positions; with 0 the last LAST_CHUNK apart from the rest."""
    if chunk:
        return tuple(torch.split(embeddings, chunk, dim=1))
    count = embeddings.shape[1]
    if count <= LAST_CHUNK:
        return (embeddings,)
    return embeddings[:, : count - LAST_CHUNK], embeddings[:, count - LAST_CHUNK :]


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
        self._thread, self._work = self._prepared(drafter)
        self._crossings = self._work.crossings
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

    def _prepared(self, drafter: ModelDrafter) -> tuple[DraftThread, ParallelPrefill]:
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
        work = ParallelPrefill(
            window,
            target.cached,
            thread,
            drafter,
            answer=context.answer,
            sampler=context.sampler,
            verifier=self.verifier,
            is_greedy=settings.temperature == 0,
            limits=limits,
            make_rounds=lambda: self.rounds(self._target_stop),
            concurrency=self._concurrency,
            clock=context.clock,
            stop=self._target_stop,
        )
        return thread, work

    @property
    def facts(self) -> SpeculationFacts | None:
        beside, crossings = self._concurrency, self._crossings
        return replace(
            self._facts,
            concurrency=beside.kind,
            draft_threads=beside.draft_threads,
            target_threads=beside.target_threads,
            transfer_bytes=sum(nbytes for _, nbytes in crossings) if crossings else None,
            transfer_ms=ms_from_ns(sum(span.duration_ns for span, _ in crossings)) if crossings else None,
        )

    @property
    def _begins_early(self) -> bool:
        return self.context.settings.speculation.begins == "load"

    def _prefill_draft(self) -> torch.Tensor:
        """The draft's own stages, in its thread -> the logits [1, V] after its prompt."""
        draft, context = self.passes[DRAFT], self.context
        told = told_apart(context.tell(DRAFT), is_zero=False, shares_disk=self._begins_early)
        keeping = _Keeping(context.answer, None)
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

    logits: torch.Tensor

    def take(self, logits: torch.Tensor) -> None:
        self.logits = logits


def told_apart(tell: Tell, *, is_zero: bool, shares_disk: bool) -> Tell:
    """Passes on one pass's reports: the run's zero from one of two, bytes from disk unless both read at once."""

    def told(name: str, value: Any) -> None:
        if name == "start_ns" and not is_zero:
            return
        if name == "loading" and shares_disk:
            value = replace(value, bytes_from_disk=None)
        tell(name, value)

    return told
