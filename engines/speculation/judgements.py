"""What draft and target thought of drafted tokens: logits kept during the rounds, probabilities worked out after.

Keeping is a reference; everything that costs time happens when the run is over. Past a bound on memory no more is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from engines.decoder.sampling import Law
from engines.drafters.drafter import Proposal
from engines.speculation.verification import Judged
from evprof.core.records import JudgementRecord

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
    """Collects rounds; `law` is what tokens are drawn from, by default the softmax."""

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
        """Takes a round: `place` is its number and the answer's length before it, `logits` [k + 1, V] the target's.

        `judged` tells the tokens that reached the answer.
        """
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
        """A record for every judged token of every round kept, in order."""
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
    """What a reference keeps from being freed: all of what a view is a view of."""
    return int(tensor.untyped_storage().nbytes())


def _ppm(chance: torch.Tensor) -> int:
    return round(min(1.0, float(chance)) * _PPM)
