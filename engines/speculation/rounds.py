"""Rounds of speculative decoding: a drafter proposes, the target verifies a block in one pass, both forget the rest.

Lossless: the answer is the target's own, whatever the drafter proposes; see `verification`. It knows no stages but
decode and no kind of drafter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import torch

from engines.decoder.decoding import CachedModel, Limits
from engines.decoder.llama import BlockShape
from engines.drafters.drafter import Drafter, PromptContext, Proposal, Verified
from engines.measuring.timing import StageClock
from engines.speculation.draft_length import DraftLength
from engines.speculation.verification import Judged, JudgementLog, Verifier
from engines.tokens.alternatives import AlternativesLog
from engines.tokens.answer import Answer
from engines.tokens.uploads import upload
from evprof.core.errors import Cancelled
from evprof.core.protocols import StopFlag
from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_BONUS, RoundRecord

_MOST_SHAPES = 64
"""Of trees kept for when they come again; a dynamic tree seldom does."""


@dataclass(eq=False)
class Rounds:
    """The rounds of one answer. `target` is prefilled, `answer` holds the first token or more. `context` is the prompt
    for drafters, `log` keeps both models' logits of drafted tokens, `alternatives` other likely tokens."""

    target: CachedModel
    drafter: Drafter
    answer: Answer
    limits: Limits
    _: KW_ONLY
    length: DraftLength
    verifier: Verifier
    clock: StageClock
    stop: StopFlag
    context: PromptContext = field(default_factory=PromptContext)
    log: JudgementLog | None = None
    alternatives: AlternativesLog | None = None
    count: int = field(default=0, init=False)
    _shapes: dict[tuple[int, ...], BlockShape] = field(default_factory=dict, init=False)

    def run(self) -> None:
        """Plays rounds until the answer is complete. Each cache then holds its prompt and the answer without its last
        token. Raises Cancelled when stopped between two draft steps; the unfinished round is dropped."""
        drafter, answer = self.drafter, self.answer
        is_whole = False
        try:
            with self.clock.child_on("prepare draft", drafter.role, drafter.device):
                drafter.start(self.context)
            while not self.limits.is_over(answer):
                self.clock.begin_step("round")
                self._play()
                self.clock.end_step()
            with self.clock.child_on("draft", drafter.role, drafter.device):
                drafter.finish(answer.ids)
            self._note_lengths()
            is_whole = True
        finally:
            self.target.crop_to(answer)
            if not is_whole:
                drafter.abandon(answer.ids)

    def _play(self) -> None:
        clock, drafter, start_ns = self.clock, self.drafter, self.clock.now()
        with clock.child_on("draft", drafter.role, drafter.device) as drafting:
            proposal = self._propose().on(self.target.device)
        if self.stop.is_set():
            raise Cancelled
        with clock.child_on("verify", self.target.role, self.target.device) as verifying:
            logits = self._pass(proposal)
            look = self.verifier.look(proposal, logits[0])
        # The round's one read. Everything before it has happened on the device then, so both spans can settle.
        read: list[int] = look.tolist()
        clock.settle()
        judged = self.verifier.conclude(proposal, read, self.limits.eos_ids)
        block = (self.answer.ids[-1], *read[: proposal.size])
        emitted = self.take(proposal, judged, read[: proposal.size], logits[0])
        rollback_start_ns = clock.now()
        target, size = self.target, proposal.size + 1
        features = target.features if self.drafter.wants_features else None
        target.keep_path(size, judged.path)
        target.crop_to(self.answer)
        target.rolled_back += proposal.size - judged.accepted
        self.drafter.observe(self.answer.ids, Verified(judged.path, features, block, logits[0]))
        rollback_ns = clock.now() - rollback_start_ns
        spent_ns = (drafting.duration_ns, verifying.duration_ns, rollback_ns)
        self.note(proposal, judged, block[1:], emitted, start_ns=start_ns, spent_ns=spent_ns)
        self.length.learn(proposal.size, judged.accepted, drafting.duration_ns, verifying.duration_ns)
        self._note_lengths()

    def take(
        self, proposal: Proposal, judged: Judged, drafted: Sequence[int], logits: torch.Tensor, *, early: int = 0
    ) -> int:
        answer, known_ns = self.answer, self.clock.now()
        start = len(answer.ids) - early
        room = self.limits.max_new_tokens - start
        if self.log is not None:
            reached = judged if len(judged.emitted) <= room else Judged(judged.path, judged.emitted[:room])
            self.log.keep((self.count, start), proposal, reached, drafted, logits)
        for place, token in enumerate(judged.emitted[early:room], early):
            is_drafted = place < judged.accepted
            answer.add(token, ORIGIN_ACCEPTED if is_drafted else ORIGIN_BONUS, self.count, known_ns)
        kept = set(judged.path)
        depths = proposal.depths()
        if self.alternatives is not None:
            self.alternatives.keep(start, logits, judged.path[: min(room, len(judged.emitted))], self.count)
            positions = [start + depth for depth in depths]
            self.alternatives.keep_drafted(positions, drafted, proposal.logits, self.count)
        for place, token in enumerate(drafted, 1):
            if place not in kept:
                answer.reject(token, start + depths[place - 1], self.count, known_ns)
        return min(room, len(judged.emitted))

    def note(
        self,
        proposal: Proposal,
        judged: Judged,
        drafted: Sequence[int],
        emitted: int,
        *,
        start_ns: int,
        spent_ns: tuple[int, int, int],
        hidden: bool = False,
    ) -> None:
        accepted = judged.accepted
        # A way that stands to its leaf, or to the answer's end, rejects nothing.
        is_refused = emitted > accepted and proposal.first_child(judged.path[-1]) is not None
        self.answer.note_round(
            RoundRecord(
                self.answer.run_id,
                self.count,
                start_ns,
                *spent_ns,
                len(drafted),
                accepted,
                emitted,
                ",".join(map(str, drafted)),
                int(hidden),
                max(proposal.depths(), default=-1) + 1,
                accepted + is_refused,
            )
        )
        self.count += 1

    def _propose(self) -> Proposal:
        answer = self.answer
        count = min(self.length.next(), self.limits.max_new_tokens - len(answer.ids) - 1)
        if count < 1:
            return Proposal.nothing()
        return self.drafter.propose(answer.ids, count, self.stop.is_set)

    def _pass(self, proposal: Proposal) -> torch.Tensor:
        last = upload([self.answer.ids[-1]], self.target.device)
        block = torch.cat([last, proposal.ids])[None]
        if proposal.parents is not None:
            return self.target.block(block, self._shape(proposal.parents))
        return self.target.step(block, keep=block.shape[1])

    def _shape(self, parents: tuple[int, ...]) -> BlockShape:
        """The block's shape: drafted trees hang below the answer's last token."""
        found = self._shapes.get(parents)
        if found is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            above = (-1, *(parent + 1 for parent in parents))
            found = self._shapes[parents] = BlockShape(above, self.target.device)
        return found

    def _note_lengths(self) -> None:
        self.target.note_length(self.answer)
        self.drafter.note_length(self.answer)
