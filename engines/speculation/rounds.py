"""Rounds of speculative decoding: a drafter proposes, the target verifies a block in one pass, both forget the rest.

Lossless: the answer is the target's own, whatever the drafter proposes. At temperature 0 the target's own choice
decides which drafted tokens stand, otherwise rejection sampling. Proposals without a law are compared with a choice of
the target, greedy or drawn: the result is a draw from the target's law. Proposals drawn from a law q stand with
probability min(1, p/q). The first rejected one is replaced by a draw from max(p - q, 0) (Leviathan et al., arXiv
2211.17192, Alg. 1; Chen et al., 2302.01318). A round reads the device once. Judgements keep logits during the rounds;
probabilities are computed after the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field

import torch

from engines.decoder.decoding import CachedModel, Limits
from engines.decoder.llama import BlockShape
from engines.decoder.sampling import Law, Sampler, draw, greedy
from engines.drafters.drafter import Drafter, PromptContext, Proposal, Verified
from engines.measuring.timing import StageClock
from engines.speculation.draft_length import DraftLength
from engines.tokens.answer import AlternativesLog, Answer
from engines.tokens.uploads import upload
from evprof.core.errors import Cancelled
from evprof.core.protocols import StopFlag
from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_BONUS, JudgementRecord, RoundRecord


@dataclass(frozen=True)
class Judged:
    """`path` are the places in the block [last, x1 … xk] that stand, 0 first; `emitted` the tokens the round gives."""

    path: tuple[int, ...]
    emitted: tuple[int, ...]

    @property
    def accepted(self) -> int:
        return len(self.path) - 1


class Verifier:
    """Holds proposals against a target's logits. With a `law`, tokens are drawn from it with `generator`."""

    def __init__(self, law: Law | None = None, generator: torch.Generator | None = None) -> None:
        self._law = law
        self._generator = generator
        self.sample: Sampler = greedy if law is None else lambda logits: draw(law(logits), generator)

    def look(self, proposal: Proposal, logits: torch.Tensor) -> torch.Tensor:
        """The target's logits [k + 1, V] at the block's places -> the numbers `conclude` needs, for the round's one
        read."""
        ids, laws = proposal.ids, _drawn_from(proposal)
        if self._law is None or laws is None:
            return torch.cat([ids, self.sample(logits)[:, 0]])
        return torch.cat([ids, reject(ids, laws, self._law(logits), self._generator)])

    def conclude(self, proposal: Proposal, read: list[int], eos_ids: frozenset[int]) -> Judged:
        """The outcome, on the host. An accepted end of sequence ends the block without a token of the target's own."""
        count = proposal.size
        drafted, told = read[:count], read[count:]
        if self._law is None or _drawn_from(proposal) is None:
            path, following = _walk(drafted, told, proposal.parents)
        else:
            path, following = tuple(range(told[0] + 1)), told[1]
        accepted = [drafted[place - 1] for place in path[1:]]
        for number, token in enumerate(accepted, 1):
            if token in eos_ids:
                return Judged(path[: number + 1], tuple(accepted[:number]))
        return Judged(path, (*accepted, following))


def reject(
    ids: torch.Tensor, drafted: torch.Tensor, law: torch.Tensor, generator: torch.Generator | None
) -> torch.Tensor:
    """Ids [..., k] drawn from `drafted` [..., k, V], under the target's `law` [..., k + 1, V] -> [..., 2]: how many of
    each chain stand, and the token after them."""
    count = ids.shape[-1]
    chances = law[..., :count, :].gather(-1, ids[..., None])[..., 0]
    claimed = drafted.gather(-1, ids[..., None])[..., 0]
    dice = torch.rand(ids.shape, device=law.device, generator=generator)
    # u < p/q without the quotient: what was drawn has q > 0.
    stands = (dice * claimed < chances).long().cumprod(-1).sum(-1, keepdim=True)
    row = stands[..., None].expand(*stands.shape, law.shape[-1])
    own = law.gather(-2, row)
    # After a chain that stands as a whole nothing was drafted, and what is left over is all of the target's law.
    over = torch.nn.functional.pad(drafted, (0, 0, 0, 1)).gather(-2, row)
    residual = (own - over).clamp(min=0)
    # p = q up to rounding leaves nothing over; then p itself is as right.
    rest = torch.where(residual.sum(-1, keepdim=True) > 0, residual, own)
    return torch.cat([stands, draw(rest, generator)[..., 0]], dim=-1)


def _drawn_from(proposal: Proposal) -> torch.Tensor | None:
    """The laws of a drawn chain. A drawn tree is compared with the target's draws as if certain, which is as exact."""
    return proposal.laws if proposal.parents is None else None


def _walk(drafted: list[int], choices: list[int], parents: tuple[int, ...] | None) -> tuple[tuple[int, ...], int]:
    above = parents if parents is not None else range(-1, len(drafted) - 1)
    below: dict[tuple[int, int], int] = {}
    for node, parent in enumerate(above):
        below.setdefault((parent + 1, drafted[node]), node + 1)
    path, place = [0], 0
    while (following := below.get((place, choices[place]))) is not None:
        path.append(following)
        place = following
    return tuple(path), choices[place]


MOST_BYTES = 256 << 20
"""Logits held at most: about a thousand rounds of five tokens of a 32,000-piece vocabulary in 16 bit."""

_PPM = 1_000_000
UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class _Kept:
    round_index: int
    position: int
    proposal: Proposal
    judged: Judged
    drafted: tuple[int, ...]
    logits: torch.Tensor


class JudgementLog:
    def __init__(self, law: Law | None = None, *, clones: bool = False, most_bytes: int = MOST_BYTES) -> None:
        self._law: Law = law or (lambda logits: logits.float().softmax(dim=-1))
        self._clones = clones
        self._left = most_bytes
        self._kept: list[_Kept] = []
        self.dropped = 0

    def keep(
        self,
        place: tuple[int, int],
        proposal: Proposal,
        judged: Judged,
        drafted: Sequence[int],
        logits: torch.Tensor,
    ) -> None:
        """Keeps a round: `place` is its number and the answer's length before it, `logits` [k + 1, V] the target's."""
        if not proposal.size:
            return
        nbytes = (logits.nbytes if self._clones else _held_bytes(logits)) + sum(map(_held_bytes, proposal.logits or ()))
        if proposal.laws is not None:
            nbytes += _held_bytes(proposal.laws)
        if nbytes > self._left:
            self.dropped += 1
            return
        self._left -= nbytes
        held = logits.clone() if self._clones else logits
        self._kept.append(_Kept(*place, proposal, judged, tuple(drafted), held))

    def records(self, run_id: int, pieces: Sequence[str]) -> Iterator[JudgementRecord]:
        for kept in self._kept:
            yield from self._of(kept, run_id, pieces)

    def _of(self, kept: _Kept, run_id: int, pieces: Sequence[str]) -> Iterator[JudgementRecord]:
        """The accepted ones, then the first rejected: of a tree the preferred child where the path ended."""
        laws = self._law(kept.logits)
        judged = kept.judged
        for depth, place in enumerate(judged.path):
            is_last = depth == judged.accepted
            node = kept.proposal.first_child(place) if is_last else judged.path[depth + 1] - 1
            if node is None or depth >= len(judged.emitted):
                return  # nothing was drafted there, or the answer ended before
            drafted, emitted = kept.drafted[node], judged.emitted[depth]
            law = laws[place]
            own = self._draft_law(kept.proposal, node)
            yield JudgementRecord(
                run_id,
                kept.round_index,
                depth,
                kept.position + depth,
                drafted,
                emitted,
                int(not is_last),
                UNKNOWN if own is None or drafted >= own.shape[0] else _ppm(own[drafted]),
                _ppm(law[drafted]),
                _ppm(law[emitted]),
                UNKNOWN if own is None else _ppm(torch.minimum(own, law[: own.shape[0]]).sum()),
                pieces[drafted] if drafted < len(pieces) else "",
                pieces[emitted] if emitted < len(pieces) else "",
            )

    def _draft_law(self, proposal: Proposal, node: int) -> torch.Tensor | None:
        """[V'] of the draft at a node, on the CPU's or the target's device, whichever the logits are compared on."""
        if proposal.laws is not None:
            return proposal.laws[node].to(self._device())
        if proposal.logits is None or node >= len(proposal.logits):
            return None
        return self._law(proposal.logits[node].reshape(1, -1))[0].to(self._device())

    def _device(self) -> torch.device:
        return self._kept[0].logits.device


def _held_bytes(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().nbytes())


def _ppm(chance: torch.Tensor) -> int:
    return round(min(1.0, float(chance)) * _PPM)


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
