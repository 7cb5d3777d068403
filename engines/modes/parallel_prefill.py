"""Mode parallel-prefill: the draft reads, prefills and drafts in its own thread while the target prefills.

Drafted tokens are verified in one block. The prefill's own logits judge the first token. The rest takes one pass
after the prefill, or rides in its last chunk. Plain decoding or rounds follow. The answer is the target's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.llama import BlockShape
from engines.decoder.sampling import Sampler
from engines.drafters.drafter import Proposal, Verified
from engines.drafters.model_drafter import ModelDrafter
from engines.measuring.timing import OpenSpan, StageClock
from engines.modes.concurrency import Concurrency, wait_for
from engines.modes.draft_thread import DraftThread, FreeDrafts
from engines.speculation.rounds import Rounds
from engines.speculation.verification import Judged, Verifier
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


class HiddenBlock:
    """Judges what was drafted inside a prefill. `target` holds only its prompt. Greedy choice needs no pass if the
    first token is wrong."""

    def __init__(
        self,
        target: CachedModel,
        drafter: ModelDrafter,
        answer: Answer,
        limits: Limits,
        *,
        verifier: Verifier,
        clock: StageClock,
    ) -> None:
        self._target = target
        self._drafter = drafter
        self._answer = answer
        self._limits = limits
        self._verifier = verifier
        self._clock = clock
        self.crossing = Crossing()

    def carry(self, drafts: FreeDrafts) -> Proposal:
        """The drafts as a proposal on the target's device; part of the innermost open span where they cross."""
        proposal = self._drafter.proposal(drafts.chosen)
        target = self._target
        if target.device == self._drafter.device:
            return proposal
        with self._clock.child_on("transfer", TARGET, target.device) as span:
            brought = proposal.on(target.device)
            span.output("draft ids", brought.ids)
        self.crossing.nbytes += brought.ids.nbytes + (0 if brought.laws is None else brought.laws.nbytes)
        self.crossing.spans = (*self.crossing.spans, span)
        return brought

    def prefill(self, embeddings: torch.Tensor, proposal: Proposal, stop: StopFlag) -> torch.Tensor:
        """The prompt's last chunk [1, S, hidden] and the drafts -> logits [N + 1, V]; the cache then holds both."""
        target = self._target
        if proposal.size:
            drafted = target.decoder.embed(proposal.ids[None])
            embeddings = torch.cat([embeddings, drafted.to(embeddings.dtype)], dim=1)
        hidden = target.trunk(embeddings, stop=stop)
        target.prompt_length = target.length - proposal.size
        return target.decoder.head(hidden[:, -1 - proposal.size :])[0]

    def first(self, chosen: int, drafts: FreeDrafts) -> None:
        """The answer's first token, greedily `chosen` by the prefill's logits, as soon as the host knows it."""
        origin = ORIGIN_ACCEPTED if chosen in drafts.firsts else ORIGIN_BONUS
        self._answer.add(chosen, origin, 0)

    def verify(self, logits: torch.Tensor, drafts: FreeDrafts, rounds: Rounds) -> None:
        """One pass over the drafts, unless the first token settles everything. `logits` [1, V] are the prefill's."""
        clock, answer, target = self._clock, self._answer, self._target
        known = answer.ids[0] if answer.ids else None
        node = None if known is None else drafts.firsts.get(known)
        if known is not None and (node is None or known in self._limits.eos_ids):
            proposal = self._drafter.proposal(drafts.chosen)
            judged = Judged((0,) if node is None else (0, node + 1), (known,))
            self._record(proposal, judged, drafts, logits, rounds, verify_ns=0)
            return
        proposal = self.carry(drafts)
        with clock.child_on("verify", target.role, target.device) as verifying:
            passed = self._pass(proposal)
            logits = torch.cat([logits, passed])
            look = self._verifier.look(proposal, logits)
        read: list[int] = look.tolist()
        clock.settle()
        judged = self._verifier.conclude(proposal, read, self._limits.eos_ids)
        self._record(proposal, judged, drafts, logits, rounds, verify_ns=verifying.duration_ns)

    def _pass(self, proposal: Proposal) -> torch.Tensor:
        """Logits [N, V] after each of the drafts, which follow the prompt."""
        target, ids = self._target, proposal.ids[None]
        if proposal.parents is None:
            return target.step(ids, keep=proposal.size)[0]
        return target.block(ids, BlockShape(proposal.parents, target.device))[0]

    def conclude(self, logits: torch.Tensor, proposal: Proposal, drafts: FreeDrafts, rounds: Rounds) -> None:
        """The round of drafts that rode in the prefill's last chunk: `logits` [N + 1, V] are there already."""
        read: list[int] = self._verifier.look(proposal, logits).tolist()
        judged = self._verifier.conclude(proposal, read, self._limits.eos_ids)
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
        target, answer = self._target, self._answer
        emitted = rounds.take(proposal, judged, drafts.ids, logits, early=len(answer.ids))
        rollback_start_ns = self._clock.now()
        fed = target.length - target.prompt_length
        if fed and proposal.parents is not None:
            target.keep_path(fed, [place - 1 for place in judged.path[1:]])
        target.crop_to(answer)
        target.rolled_back += target.prompt_length + fed - target.length
        spent_ns = (drafts.spent_ns, verify_ns, self._clock.now() - rollback_start_ns)
        rounds.note(proposal, judged, drafts.ids, emitted, start_ns=drafts.start_ns, spent_ns=spent_ns, hidden=True)
        target.note_length(answer)

    def align_draft(self) -> None:
        """Cuts what does not stand off the draft's cache, whose thread is done with it."""
        self._drafter.observe(self._answer.ids, Verified((0,)))
        self._drafter.note_length(self._answer)


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


class ParallelPrefill(Prefilling):
    """The target's side, on the engine's thread. `sampler` chooses the first token without drafts, and every token of
    plain decoding. `make_rounds` is called once after the target's prefill."""

    def __init__(
        self,
        window: DraftWindow,
        target: CachedModel,
        thread: DraftThread,
        block: HiddenBlock,
        *,
        answer: Answer,
        sampler: Sampler,
        is_greedy: bool,
        limits: Limits,
        make_rounds: Callable[[], Rounds],
        concurrency: Concurrency,
        clock: StageClock,
        stop: StopFlag,
    ) -> None:
        super().__init__(answer, sampler)
        self._window = window
        self._target = target
        self._thread = thread
        self._block = block
        self._draw = sampler
        self._is_greedy = is_greedy
        self._limits = limits
        self._make_rounds = make_rounds
        self._concurrency = concurrency
        self._clock = clock
        self._stop = stop
        self._drafts: FreeDrafts | None = None
        self._proposal = Proposal.nothing()
        self._logits: torch.Tensor | None = None
        self._rounds: Rounds | None = None

    def begin(self) -> None:
        self._thread.begin()

    def compute(self, cached: CachedModel, embeddings: torch.Tensor, stop: StopFlag) -> torch.Tensor:
        """Logits [1, V], or [N + 1, V] where N drafts rode in the last chunk."""
        if not self._window.rides:
            return cached.prefill(embeddings, stop)
        *before, last = last_apart(embeddings, cached.prefill_chunk)
        hidden: torch.Tensor | None = None
        for chunk in before:
            hidden = cached.trunk(chunk, stop=stop)
        if hidden is not None:
            # The host is ahead of a GPU: it waits, or it would take drafts before they are made.
            wait_for(hidden)
        self._drafts = self._complete() if self._window.is_forced else self._thread.close()
        if self._drafts.size:
            self._proposal = self._block.carry(self._drafts)
        return self._block.prefill(last, self._proposal, stop)

    def take(self, logits: torch.Tensor) -> torch.Tensor | None:
        """Ends the window. The first token where nothing was drafted; else the answer has what is known by now."""
        # A choice, not a draw, does not depend on what was drafted: it is under way before anybody waits for it.
        chosen = self._draw(logits[:1]) if self._is_greedy and not self._window.rides else None
        if self._drafts is None and (not self._window.is_forced or self._thread.is_over or self._window.most == 0):
            wait_for(logits)
            self._drafts = self._thread.close()
        drafts = self._drafts
        if drafts is not None and drafts.size == 0:
            first = self._draw(logits) if chosen is None else chosen
            self.answer.add(int(first))
            return first
        self._logits = logits
        self._rounds = self._make_rounds()
        if drafts is not None and self._window.rides:
            self._block.conclude(logits, self._proposal, drafts, self._rounds)
        elif drafts is not None and chosen is not None:
            self._block.first(int(chosen), drafts)
        return None

    def decode(self, first: torch.Tensor | None) -> None:
        """Stage decode: the block, where it did not ride in the prefill, and what follows it."""
        drafts, window = self._drafts, self._window
        if drafts is None:
            drafts = self._complete()
        if drafts.size and not window.rides and self._logits is not None and self._rounds is not None:
            if self._is_greedy and not self.answer.ids:
                self._block.first(int(self._draw(self._logits)), drafts)
            self._block.verify(self._logits, drafts, self._rounds)
        self._logits = None
        self._end_drafting(drafts)
        if window.goes_on:
            (self._rounds or self._make_rounds()).run()
            return
        if first is None:
            first = upload([self.answer.ids[-1:]], self._target.device)
        decode(
            self._target,
            first,
            self.answer,
            self._limits,
            sampler=self._draw,
            clock=self._clock,
            stop=self._stop,
        )

    def _complete(self) -> FreeDrafts:
        """Waits for as many drafts as are asked for."""
        with self._clock.child("wait for draft"):
            return self._thread.complete()

    def _end_drafting(self, drafts: FreeDrafts) -> None:
        """The draft's thread ends, and its cache keeps what stands; a prefill nobody needs any more is broken off."""
        if not (drafts.size or self._window.goes_on or self._window.is_forced):
            self._thread.release()
            self._concurrency.leave_target()
            return
        with self._clock.child("wait for draft"):
            self._thread.wait_until_prefilled()
            self._thread.join()
        self._concurrency.join_streams()
        self._concurrency.leave_target()
        self._block.align_draft()


def last_apart(embeddings: torch.Tensor, chunk: int) -> tuple[torch.Tensor, ...]:
    """A prompt [1, S, hidden] in chunks of so many positions; with 0 the last LAST_CHUNK apart from the rest."""
    if chunk:
        return tuple(torch.split(embeddings, chunk, dim=1))
    count = embeddings.shape[1]
    if count <= LAST_CHUNK:
        return (embeddings,)
    return embeddings[:, : count - LAST_CHUNK], embeddings[:, count - LAST_CHUNK :]
