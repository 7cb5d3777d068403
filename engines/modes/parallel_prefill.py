"""Mode parallel-prefill: the draft reads, prefills and drafts in its own thread while the target prefills.

Drafted tokens are verified in one block. The prefill's own logits judge the first token. The rest takes one pass
after the prefill, or rides in its last chunk. Plain decoding or rounds follow. The answer is the target's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

import torch

from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.llama import BlockShape
from engines.decoder.sampling import Sampler
from engines.drafters.drafter import Proposal, Verified
from engines.drafters.model_drafter import ModelDrafter
from engines.measuring.timing import OpenSpan, StageClock
from engines.modes.concurrency import Concurrency, DraftThread, FreeDrafts, wait_for
from engines.speculation.rounds import Judged, Rounds, Verifier
from engines.stages.pipeline import Prefilling
from engines.tokens.answer import Answer
from engines.tokens.uploads import upload
from evprof.core.protocols import StopFlag
from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_BONUS, TARGET
from evprof.core.vocabulary.speculation import SpeculationSettings

LAST_CHUNK = 64
"""Positions of the prompt that form the last chunk, which drafts ride in, where no chunk size is asked for: as few as
still make matrix products of it, so that drafting goes on for nearly all of the prefill."""


@dataclass
class Crossing:
    """What drafts took from the draft's device to the target's; nothing where both share one."""

    nbytes: int = 0
    spans: tuple[OpenSpan, ...] = ()


@dataclass(eq=False)
class HiddenBlock:
    target: CachedModel
    drafter: ModelDrafter
    answer: Answer
    limits: Limits
    _: KW_ONLY
    verifier: Verifier
    clock: StageClock
    crossing: Crossing = field(default_factory=Crossing, init=False)

    def carry(self, drafts: FreeDrafts) -> Proposal:
        """The drafts as a proposal on the target's device; part of the innermost open span where they cross."""
        proposal = self.drafter.proposal(drafts.chosen)
        target = self.target
        if target.device == self.drafter.device:
            return proposal
        with self.clock.child_on("transfer", TARGET, target.device) as span:
            brought = proposal.on(target.device)
            span.output("draft ids", brought.ids)
        self.crossing.nbytes += brought.ids.nbytes + (0 if brought.laws is None else brought.laws.nbytes)
        self.crossing.spans = (*self.crossing.spans, span)
        return brought

    def prefill(self, embeddings: torch.Tensor, proposal: Proposal, stop: StopFlag) -> torch.Tensor:
        """The prompt's last chunk [1, S, hidden] and the drafts -> logits [N + 1, V]; the cache then holds both."""
        target = self.target
        if proposal.size:
            drafted = target.decoder.embed(proposal.ids[None])
            embeddings = torch.cat([embeddings, drafted.to(embeddings.dtype)], dim=1)
        hidden = target.trunk(embeddings, stop=stop)
        target.prompt_length = target.length - proposal.size
        return target.decoder.head(hidden[:, -1 - proposal.size :])[0]

    def first(self, chosen: int, drafts: FreeDrafts) -> None:
        """The answer's first token, greedily `chosen` by the prefill's logits, as soon as the host knows it."""
        origin = ORIGIN_ACCEPTED if chosen in drafts.firsts else ORIGIN_BONUS
        self.answer.add(chosen, origin, 0)

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
        proposal = self.carry(drafts)
        with clock.child_on("verify", target.role, target.device) as verifying:
            passed = self._pass(proposal)
            logits = torch.cat([logits, passed])
            look = self.verifier.look(proposal, logits)
        read: list[int] = look.tolist()
        clock.settle()
        judged = self.verifier.conclude(proposal, read, self.limits.eos_ids)
        self._record(proposal, judged, drafts, logits, rounds, verify_ns=verifying.duration_ns)

    def _pass(self, proposal: Proposal) -> torch.Tensor:
        """Logits [N, V] after each of the drafts, which follow the prompt."""
        target, ids = self.target, proposal.ids[None]
        if proposal.parents is None:
            return target.step(ids, keep=proposal.size)[0]
        return target.block(ids, BlockShape(proposal.parents, target.device))[0]

    def conclude(self, logits: torch.Tensor, proposal: Proposal, drafts: FreeDrafts, rounds: Rounds) -> None:
        """The round of drafts that rode in the prefill's last chunk: `logits` [N + 1, V] are there already."""
        read: list[int] = self.verifier.look(proposal, logits).tolist()
        judged = self.verifier.conclude(proposal, read, self.limits.eos_ids)
        self._record(proposal, judged, drafts, logits, rounds, verify_ns=0)

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

    def align_draft(self) -> None:
        """Cuts what does not stand off the draft's cache, whose thread is done with it."""
        self.drafter.observe(self.answer.ids, Verified((0,)))
        self.drafter.note_length(self.answer)


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
    window: DraftWindow
    target: CachedModel
    thread: DraftThread
    block: HiddenBlock
    _: KW_ONLY
    answer: Answer
    sampler: Sampler
    is_greedy: bool
    limits: Limits
    make_rounds: Callable[[], Rounds]
    concurrency: Concurrency
    clock: StageClock
    stop: StopFlag

    def __post_init__(self) -> None:
        self._drafts: FreeDrafts | None = None
        self._proposal = Proposal.nothing()
        self._logits: torch.Tensor | None = None
        self._rounds: Rounds | None = None

    def begin(self) -> None:
        self.thread.begin()

    def compute(self, cached: CachedModel, embeddings: torch.Tensor, stop: StopFlag) -> torch.Tensor:
        """Logits [1, V], or [N + 1, V] where N drafts rode in the last chunk."""
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
        if self._drafts.size:
            self._proposal = self.block.carry(self._drafts)
        return self.block.prefill(last, self._proposal, stop)

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
            self.block.conclude(logits, self._proposal, drafts, self._rounds)
        elif drafts is not None and chosen is not None:
            self.block.first(int(chosen), drafts)
        return None

    def decode(self, first: torch.Tensor | None) -> None:
        """Stage decode: the block, where it did not ride in the prefill, and what follows it."""
        drafts, window = self._drafts, self.window
        if drafts is None:
            drafts = self._complete()
        if drafts.size and not window.rides and self._logits is not None and self._rounds is not None:
            if self.is_greedy and not self.answer.ids:
                self.block.first(int(self.sampler(self._logits)), drafts)
            self.block.verify(self._logits, drafts, self._rounds)
        self._logits = None
        self._end_drafting(drafts)
        if window.goes_on:
            (self._rounds or self.make_rounds()).run()
            return
        if first is None:
            first = upload([self.answer.ids[-1:]], self.target.device)
        decode(
            self.target,
            first,
            self.answer,
            self.limits,
            sampler=self.sampler,
            clock=self.clock,
            stop=self.stop,
        )

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
        self.block.align_draft()


def last_apart(embeddings: torch.Tensor, chunk: int) -> tuple[torch.Tensor, ...]:
    """A prompt [1, S, hidden] in chunks of so many positions; with 0 the last LAST_CHUNK apart from the rest."""
    if chunk:
        return tuple(torch.split(embeddings, chunk, dim=1))
    count = embeddings.shape[1]
    if count <= LAST_CHUNK:
        return (embeddings,)
    return embeddings[:, : count - LAST_CHUNK], embeddings[:, count - LAST_CHUNK :]
