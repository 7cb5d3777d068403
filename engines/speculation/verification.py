"""Which drafted tokens stand: by the target's own choice at temperature 0, by rejection sampling otherwise.

Proposals without a law are compared with a choice of the target, greedy or drawn: the result is a draw from the
target's law. Proposals drawn from a law q stand with probability min(1, p/q). The first rejected one is replaced by a
draw from max(p - q, 0) (Leviathan et al., arXiv 2211.17192, Alg. 1; Chen et al., 2302.01318). Nothing here makes the
host wait. Judgements keep logits during the rounds; probabilities are computed after the run. In half precision a
block's sums have another order than single steps, so a near-tie may fall the other way: it is measured here too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Event

import torch

from engines.decoder.decoding import CachedModel
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import Law, Sampler, draw, greedy
from engines.drafters.drafter import Proposal
from engines.loading.weights import load_model
from engines.measuring.timing import NullClock
from engines.stages.model import VisionLanguageModel
from evprof.core.records import TARGET, JudgementRecord
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import ModelChoice


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


NEAR_TIE_ULPS = 16.0
"""Two tokens are a near-tie where their logits are at most so many last places of the larger one apart.

Two bfloat16 passes over 32 layers of random weights chose tokens up to 8 apart. The mean logit was 132 below the
largest.
"""


@dataclass(frozen=True)
class Divergence:
    """The first place where two answers differ, with both tokens (None after the end), and the gap from the plain
    pass's largest logit to the other token's in units in the last place; infinite for an answer that stops without an
    end."""

    position: int
    plain_id: int | None
    other_id: int | None
    gap_ulps: float


def divergence(
    decoder: LlamaDecoder,
    embeddings: torch.Tensor,
    plain: Sequence[int],
    other: Sequence[int],
    *,
    prefill_chunk: int = 0,
) -> Divergence | None:
    """Compares two answers to the prompt `embeddings` [1, S, hidden]; None if equal. The plain prefix is fed token by
    token."""
    place = next((i for i, pair in enumerate(zip(plain, other, strict=False)) if pair[0] != pair[1]), None)
    if place is None:
        if len(plain) == len(other):
            return None
        place = min(len(plain), len(other))
        mine, theirs = (ids[place] if place < len(ids) else None for ids in (plain, other))
        return Divergence(place, mine, theirs, math.inf)
    logits = _logits_behind(decoder, embeddings, plain[:place], prefill_chunk)
    return Divergence(place, plain[place], other[place], gap_ulps(logits, other[place]))


def gap_ulps(logits: torch.Tensor, token: int) -> float:
    """From the largest of some logits [V] to a token's, in units of the last place of the largest, in their dtype."""
    largest = float(logits.max())
    return (largest - float(logits[token])) / ulp(largest, logits.dtype)


def ulp(value: float, dtype: torch.dtype) -> float:
    """The distance to the next number of a floating-point dtype above a value's magnitude."""
    info = torch.finfo(dtype)
    exponent = math.frexp(max(abs(value), info.tiny))[1] - 1
    return float(info.eps) * 2.0**exponent


def _logits_behind(
    decoder: LlamaDecoder, embeddings: torch.Tensor, ids: Sequence[int], prefill_chunk: int
) -> torch.Tensor:
    """[V] of the token that follows a prompt and ids."""
    with torch.inference_mode():
        one = CachedModel.over(decoder, "target")
        one.prefill_chunk = prefill_chunk
        logits = one.prefill(embeddings, Event())
        for token in ids:
            logits = one.step(torch.tensor([[token]], device=one.device))[:, -1]
        return logits[0]


class FlipJudge:
    """Measures how close two tokens were where a drafted answer first differs from the plain one."""

    def __init__(self, choice: ModelChoice) -> None:
        self._choice = choice
        self._model: VisionLanguageModel | None = None

    def __call__(self, request: RunRequest, plain: Sequence[int], drafted: Sequence[int]) -> float:
        """The gap in units in the last place; infinite if an answer ends too soon. Raises UserError for a bad model or
        sample."""
        if self._model is None:
            self._model = load_model(self._choice, TARGET, lambda done, total: None, Event())
        model = self._model
        with torch.inference_mode():
            host = model.load(request.sample, request.settings, NullClock())
            inputs = model.preprocess(host, request.sample.prompt, request.settings, NullClock())
            embeddings = model.embed_prompt(inputs, model.encode_vision(inputs, NullClock()))
            found = divergence(model.language_model, embeddings, plain, drafted)
        return 0.0 if found is None else found.gap_ulps
