"""How the ids of a draft meet those of its target: compared by content, id by id; knows no model.

Where the shared ids are the first ones of both, a draft's logits are cut and its ids pass as they are; otherwise they
are mapped through tables on the draft's device. Where too few meet for that, only text passes; see
`drafters.model_drafter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch

from engines.tokens.tokenization import Vocabulary
from engines.tokens.uploads import upload
from evprof.core.run_info import REENCODED, SAME, SHARED
from evprof.core.texts import is_byte

UNKNOWN_ID = 0
"""Fed to the draft for a target's token that its vocabulary lacks: sentencepiece's <unk>."""

LACKING = -1

LEAST_COVERAGE = 0.9
"""Share of the draft's pieces that the target must know for ids to be mapped: a draft that cannot say one word in ten
writes other text than it was trained to."""

_TOLD = 10


@dataclass(eq=False)
class Alignment:
    """`to_draft[i]` is the draft's id for the target's id i (or UNKNOWN_ID); `to_target[j]` the target's id for the
    draft's id j (or LACKING). `shared` ids meet, the first ones of both if `is_prefix`. `coverage` is the share of the
    draft's text pieces among them."""

    to_draft: Sequence[int]
    to_target: Sequence[int]
    shared: int
    is_prefix: bool
    coverage: float = 1.0
    _cached: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor] | None = field(default=None, init=False)

    @property
    def kind(self) -> str:
        """SAME where every id of either means the same in the other, REENCODED where too few do, else SHARED."""
        if self.coverage < LEAST_COVERAGE:
            return REENCODED
        is_same = self.is_prefix and self.shared == len(self.to_draft) == len(self.to_target)
        return SAME if is_same else SHARED

    def for_draft(self, ids: Sequence[int]) -> list[int]:
        if self.is_prefix:
            return [token if token < self.shared else UNKNOWN_ID for token in ids]
        return [self.to_draft[token] if token < len(self.to_draft) else UNKNOWN_ID for token in ids]

    def logits_for_target(self, logits: torch.Tensor) -> torch.Tensor:
        """Draft's logits [..., V_draft] -> [..., V'] by the target's ids; ids that do not meet are -inf or cut off."""
        if self.is_prefix:
            return logits[..., : self.shared]
        own, others, *_ = self._tables(logits.device)
        spread = logits.new_full((*logits.shape[:-1], len(self.to_draft)), -torch.inf)
        spread[..., others] = logits[..., own]
        return spread

    def spoken(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [..., V] of the target's own head -> [..., V'], without ids that the draft cannot be fed."""
        if self.is_prefix:
            return logits[..., : self.shared]
        return logits[..., : len(self.to_draft)].masked_fill(self._tables(logits.device)[3], -torch.inf)

    def ids_for_draft(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids the target knows and the draft proposed itself, as the draft is to be fed them; on the same device."""
        return ids if self.is_prefix else self._tables(ids.device)[2][ids]

    def bring_to(self, device: torch.device) -> None:
        if not self.is_prefix:
            self._tables(device)

    def _tables(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        if self._cached is None or self._cached[0].device != device:
            met = [(own, other) for own, other in enumerate(self.to_target) if other != LACKING]
            columns = ([own for own, _ in met], [other for _, other in met], list(self.to_draft))
            own, others, to_draft = (upload(column, device) for column in columns)
            known = {other for _, other in met}
            lacks = upload([token not in known for token in range(len(self.to_draft))], device, torch.bool)
            self._cached = own, others, to_draft, lacks
        return self._cached


def first_shared(count: int) -> Alignment:
    """The alignment of vocabularies whose first `count` ids mean the same, and of which nothing more is known."""
    same = range(count)
    return Alignment(same, same, count, is_prefix=True)


def align(draft: Vocabulary, target: Vocabulary) -> Alignment:
    """Ids that spell the same piece meet, the first one if several do. Special tokens meet by role: begin and ends."""
    spelled, others = _contents(draft), _contents(target)
    mine, theirs = _by_content(spelled), _by_content(others)
    to_target = [LACKING] * draft.size
    to_draft = [UNKNOWN_ID] * target.size
    count = with_text = 0
    for content, own in mine.items():
        other = theirs.get(content)
        if other is not None:
            to_target[own], to_draft[other] = other, own
            count += 1
            with_text += _is_text(content)
    spoken = sum(map(_is_text, mine))
    # After them either may have ids of its own: published vocabularies add theirs above the 32,000 shared ones.
    # Special tokens without a role may stand among them, as ChatML's beginning of a turn does.
    first = max((own for own, other in enumerate(to_target) if other != LACKING), default=-1) + 1
    is_prefix = spelled[:first] == others[:first]
    if is_prefix:
        to_target[:first] = to_draft[:first] = range(first)
        count = first
    return Alignment(to_draft, to_target, count, is_prefix, with_text / spoken if spoken else 1.0)


def ends_of(vocabulary: Vocabulary) -> list[int]:
    return sorted(vocabulary.eos_ids, reverse=True)


def vocabulary_facts(draft: Vocabulary, target: Vocabulary) -> dict[str, Any]:
    """How two vocabularies meet, as plain values; the keys are those of "vocabulary" in `evprof inspect --against`."""
    alignment = align(draft, target)
    differing = [
        {"id": index, "draft": mine, "target": theirs}
        for index, (mine, theirs) in enumerate(zip(_spelled(draft), _spelled(target), strict=False))
        if mine != theirs
    ]
    only_draft = [index for index, other in enumerate(alignment.to_target) if other == LACKING]
    met = set(alignment.to_target)
    only_target = [index for index in range(target.size) if index not in met]
    return {
        "alignment": alignment.kind,
        "coverage": alignment.coverage,
        "draft_ids": draft.size,
        "target_ids": target.size,
        "shared_ids": alignment.shared,
        "same_number": alignment.is_prefix,
        "only_draft_count": len(only_draft),
        "only_draft": _told(only_draft, draft),
        "only_target_count": len(only_target),
        "only_target": _told(only_target, target),
        "differing_count": len(differing),
        "differing": differing[:_TOLD],
    }


_ROLE = "\0"
_BEGIN, _END = f"{_ROLE}begin", f"{_ROLE}end"
"""Stand for special tokens among contents, ends with their number; no piece is spelled so."""

_ROLE_NAMES = {_BEGIN: "<begin of sequence>", "": "<special>"}


def _by_content(contents: Sequence[str]) -> dict[str, int]:
    """What a piece is known by -> its id."""
    found: dict[str, int] = {}
    for index, content in enumerate(contents):
        if content:
            found.setdefault(content, index)
    return found


def _is_text(content: str) -> bool:
    return not content.startswith(_ROLE) and not is_byte(content)


def _contents(vocabulary: Vocabulary) -> list[str]:
    contents = list(vocabulary.pieces)
    for number, index in enumerate(ends_of(vocabulary)):
        contents[index] = f"{_END}{number}"
    if vocabulary.bos_id is not None:
        contents[vocabulary.bos_id] = _BEGIN
    return contents


def _spelled(vocabulary: Vocabulary) -> list[str]:
    return [
        "<end of sequence>" if content.startswith(_END) else _ROLE_NAMES.get(content, content)
        for content in _contents(vocabulary)
    ]


def _told(ids: Sequence[int], vocabulary: Vocabulary) -> list[dict[str, Any]]:
    spelled = _spelled(vocabulary)
    return [{"id": index, "piece": spelled[index]} for index in islice(ids, _TOLD)]
