"""A chain or tree drafted inside a target's prefill: judged in one block, recorded as a round, caches brought in line.

The first is judged by the prefill's own logits for nothing. The rest takes one pass after the prefill, or rides in its
last chunk. Losslessness is `verification`'s; this knows no thread and no stage.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engines.decoder.decoding import CachedModel, Limits
from engines.decoder.llama import BlockShape
from engines.drafters.drafter import Proposal, Verified
from engines.drafters.model_drafter import ModelDrafter
from engines.measuring.timing import OpenSpan, StageClock
from engines.modes.draft_thread import FreeDrafts
from engines.speculation.rounds import Rounds
from engines.speculation.verification import Judged, Verifier
from engines.tokens.answer import Answer
from evprof.core.protocols import StopFlag
from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_BONUS, TARGET

LAST_CHUNK = 64
"""Positions of the prompt that form the last chunk, which drafts ride in, where no chunk size is asked for: as few as
still make matrix products of it, so that drafting goes on for nearly all of the prefill."""


@dataclass
class Crossing:
    """What drafts took from the draft's device to the target's; nothing where both share one."""

    nbytes: int = 0
    spans: tuple[OpenSpan, ...] = ()


class HiddenBlock:
    """Judges what was drafted inside a prefill, once for an answer.

    `target` holds its prompt and nothing of the answer. Greedy choice needs no pass where the first token is wrong; a
    drawn one always takes the pass.
    """

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
        """The prompt's last chunk [1, S, hidden] with the drafts after it -> logits [N + 1, V].

        The cache then holds prompt and drafts.
        """
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
        """One pass over the drafts, unless the first token has settled everything, and their round.

        `logits` [1, V] are the prefill's; part of stage decode.
        """
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
