"""Which drafted tokens stand: by the target's own choice at temperature 0, by rejection sampling otherwise.

What is proposed for certain is held against a choice of the target's, made or drawn: that is a draw from the target's
own law whatever was proposed. What was drawn from a law q stands with probability min(1, p/q), and the first that does
not is replaced by a draw from max(p - q, 0) (Leviathan et al., arXiv 2211.17192, Alg. 1; Chen et al., 2302.01318). It
knows no cache and no model; nothing here makes the host wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engines.decoder.sampling import Law, Sampler, draw, greedy
from engines.drafters.drafter import Proposal


@dataclass(frozen=True)
class Judged:
    """`path` are the places in the block [last, x1 … xk] that stand, 0 first; `emitted` the tokens the round gives."""

    path: tuple[int, ...]
    emitted: tuple[int, ...]

    @property
    def accepted(self) -> int:
        """Drafted tokens that stand."""
        return len(self.path) - 1


class Verifier:
    """Holds proposals against a target's logits. With a `law`, tokens are drawn from it with `generator`."""

    def __init__(self, law: Law | None = None, generator: torch.Generator | None = None) -> None:
        self._law = law
        self._generator = generator
        self.sample: Sampler = greedy if law is None else lambda logits: draw(law(logits), generator)

    def look(self, proposal: Proposal, logits: torch.Tensor) -> torch.Tensor:
        """Target's logits [k + 1, V] at the block's places -> what `conclude` has to know, for the round's one read.

        Proposal and logits lie on one device.
        """
        ids, laws = proposal.ids, _drawn_from(proposal)
        if self._law is None or laws is None:
            return torch.cat([ids, self.sample(logits)[:, 0]])
        return torch.cat([ids, reject(ids, laws, self._law(logits), self._generator)])

    def conclude(self, proposal: Proposal, read: list[int], eos_ids: frozenset[int]) -> Judged:
        """The outcome, given what `look` left, on the host. An accepted end of sequence ends the block: nothing after
        it stands and no token of the target's own follows."""
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
    """Ids [..., k] drawn from `drafted` [..., k, V], under the target's `law` [..., k + 1, V] -> [..., 2].

    That is how many of each chain stand, and the token that follows them.
    """
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
    """The laws of a drawn chain. A drawn tree is held against draws of the target's own as if proposed for certain,
    which is as exact."""
    return proposal.laws if proposal.parents is None else None


def _walk(drafted: list[int], choices: list[int], parents: tuple[int, ...] | None) -> tuple[tuple[int, ...], int]:
    """Down from the block's first place as long as the choice made there was drafted below it.

    `choices[i]` is the target's token after the block's place i; returns the places and the choice after the last.
    """
    above = parents if parents is not None else range(-1, len(drafted) - 1)
    below: dict[tuple[int, int], int] = {}
    for node, parent in enumerate(above):
        below.setdefault((parent + 1, drafted[node]), node + 1)
    path, place = [0], 0
    while (following := below.get((place, choices[place]))) is not None:
        path.append(following)
        place = following
    return tuple(path), choices[place]
