"""How the ids of a draft meet those of its target: compared by content, id by id; knows no model.

Where the shared ids are the first ones of both, a draft's logits are cut and its ids pass as they are; otherwise they
are mapped through tables on the draft's device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from engines.tokenization import Vocabulary
from evprof.core.speculation import SAME, SHARED

UNKNOWN_ID = 0
"""Fed to the draft for a target's token that its vocabulary lacks: sentencepiece's <unk>."""

LACKING = -1


@dataclass(eq=False)
class Alignment:
    """`to_draft[i]` is the draft's id for the target's id i, UNKNOWN_ID where it has none; `to_target[j]` the target's
    id for the draft's id j, LACKING where it has none. `shared` ids meet, all of them the first ones of both where
    `is_prefix`."""

    to_draft: Sequence[int]
    to_target: Sequence[int]
    shared: int
    is_prefix: bool
    _cached: tuple[torch.Tensor, torch.Tensor] | None = field(default=None, init=False)

    @property
    def kind(self) -> str:
        """SAME where every id of either means the same in the other, else SHARED."""
        is_same = self.is_prefix and self.shared == len(self.to_draft) == len(self.to_target)
        return SAME if is_same else SHARED

    def for_draft(self, ids: Sequence[int]) -> list[int]:
        """Target's ids as the draft is to be fed them."""
        if self.is_prefix:
            return [token if token < self.shared else UNKNOWN_ID for token in ids]
        return [self.to_draft[token] if token < len(self.to_draft) else UNKNOWN_ID for token in ids]

    def logits_for_target(self, logits: torch.Tensor) -> torch.Tensor:
        """Draft's logits [..., V_draft] -> [..., V'] by the target's ids; ids that do not meet are -inf or cut off."""
        if self.is_prefix:
            return logits[..., : self.shared]
        places = self._places(logits.device)
        spread = logits.new_full((*logits.shape[:-1], len(self.to_draft)), -torch.inf)
        spread[..., places[1]] = logits[..., places[0]]
        return spread

    def ids_for_draft(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids the target knows and the draft proposed itself, as the draft is to be fed them; on the same device."""
        if self.is_prefix:
            return ids
        return torch.tensor(list(self.to_draft), device=ids.device)[ids]

    def _places(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """The draft's ids that meet one of the target's, and those."""
        if self._cached is None or self._cached[0].device != device:
            met = [(own, other) for own, other in enumerate(self.to_target) if other != LACKING]
            self._cached = (
                torch.tensor([own for own, _ in met], device=device, dtype=torch.long),
                torch.tensor([other for _, other in met], device=device, dtype=torch.long),
            )
        return self._cached


def first_shared(count: int) -> Alignment:
    """The alignment of vocabularies whose first `count` ids mean the same, and of which nothing more is known."""
    same = range(count)
    return Alignment(same, same, count, is_prefix=True)


def align(draft: Vocabulary, target: Vocabulary) -> Alignment:
    """Ids that spell the same piece meet; of several of one vocabulary the first, which is what text is encoded to.

    Special tokens meet by role: begin and end of sequence.
    """
    mine, theirs = _by_content(draft), _by_content(target)
    to_target = [LACKING] * draft.size
    to_draft = [UNKNOWN_ID] * target.size
    count = 0
    for content, own in mine.items():
        other = theirs.get(content)
        if other is not None:
            to_target[own], to_draft[other] = other, own
            count += 1
    first = min(draft.size, target.size)
    is_prefix = count == first and all(to_target[index] == index for index in range(count))
    return Alignment(to_draft, to_target, count, is_prefix)


def _by_content(vocabulary: Vocabulary) -> dict[str, int]:
    """What a piece is known by -> its id."""
    found: dict[str, int] = {}
    for index, piece in enumerate(vocabulary.pieces):
        if index == vocabulary.bos_id:
            found.setdefault("\0begin", index)
        elif index in vocabulary.eos_ids:
            found.setdefault("\0end", index)
        elif piece:
            found.setdefault(piece, index)
    return found
