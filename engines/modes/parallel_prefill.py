"""Mode parallel-prefill: the draft reads, prefills and drafts in a thread of its own while the target prefills.

What it drafted by then is hidden in the target's prefill: it cost the answer nothing but what both took from each
other. It is verified in one block; what follows is decoded plainly or in rounds. The answer is the target's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.sampling import Sampler
from engines.drafters.drafter import Proposal
from engines.measuring.timing import StageClock
from engines.modes.concurrency import Concurrency, wait_for
from engines.modes.draft_thread import DraftThread, FreeDrafts
from engines.modes.hidden_block import LAST_CHUNK, HiddenBlock
from engines.speculation.rounds import Rounds
from engines.stages.pipeline import Prefilling
from engines.tokens.answer import Answer
from engines.tokens.uploads import upload
from evprof.core.protocols import StopFlag
from evprof.core.vocabulary.speculation import SpeculationSettings


@dataclass(frozen=True)
class DraftWindow:
    """What is asked of the drafting inside: at most `most` tokens, exactly so many when it `is_forced`; they ride in
    the prefill's last chunk or not; afterwards `goes_on` in rounds or plainly. `is_tree`: several ways on at once."""

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
    """The target's side of it, on the engine's thread; as a `Prefilling` what its stage prefill does.

    `sampler` chooses the first token where nothing was drafted, and every one after the block in plain decoding.
    `make_rounds` is called once, when the target has prefilled.
    """

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
        """The draft begins here, unless it began with the target's load."""
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
