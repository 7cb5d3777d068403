"""A draft whose vocabulary cuts text differently: it hears the answer's text, and its own comes back as text.

Every round the answer is encoded anew with the draft's vocabulary; what of it stands in the draft's cache already is
not computed again. What it drafts is encoded with the target's vocabulary after the answer and proposed for certain,
so the answer is the target's own whatever gets lost on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from engines.decoder.decoding import CachedModel
from engines.drafters.drafter import Drafter, Proposal, Verified
from engines.drafters.lookup_drafter import certain
from engines.tokens.answer import Answer
from engines.tokens.tokenization import Vocabulary
from engines.tokens.uploads import upload
from engines.tokens.vocabulary_alignment import ends_of
from evprof.core.errors import Cancelled

_BROKEN = "\ufffd"
"""What the bytes of an unfinished character decode to."""

_ANCHORS = ("\n", ".")
"""Put before a stretch of text that continues another, so that no space is put there; what they encode to is cut off
again. Neither is part of longer pieces in Llama-like vocabularies."""

_MOST_STEPS = 4
"""Of the draft for one id of the target, however short its own are."""


class ReencodingDrafter(Drafter):
    """Drafts greedily with the prefilled `model` in vocabulary `own`; the answer is in vocabulary `target`. The host
    reads the drafted ids once a round. `finish` and `abandon` leave at most all of the answer's text but the last id in
    the cache."""

    def __init__(self, name: str, model: CachedModel, own: Vocabulary, target: Vocabulary) -> None:
        super().__init__(name, model.device)
        self.role = model.role
        self.model = model
        self._own, self._target = own, target
        self._fed: list[int] = []

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        """Text of about `count` of the target's ids, by how long either's ids were so far; what is more is cut."""
        text, heard = self._text(ids), self._heard(ids)
        if not heard:
            return Proposal.nothing()  # what the draft would begin with was known when it was prefilled, not now
        self._keep(heard)
        steps = min(-(-count * len(heard) // len(ids)), _MOST_STEPS * count)
        drafted = self._drafted(heard[len(self._fed) :], steps, is_stopped)
        self._fed = [*heard, *drafted[:-1]]
        ending = next((place for place, token in enumerate(drafted) if token in self._own.eos_ids), None)
        before = self._own.decode(heard)
        after = self._own.decode([*heard, *drafted[:ending]]).rstrip(_BROKEN)
        if not after.startswith(before):
            return Proposal.nothing()
        # A vocabulary may drop a space at the end, and then write it before the next word.
        dropped = text.removeprefix(before) if text.rstrip() == before else ""
        found = self._behind(ids, text, after[len(before) :].removeprefix(dropped))
        if found is not None and ending is not None and self._target.eos_ids:
            found = [*found, ends_of(self._target)[0]]
        return certain((found or [])[:count], self.model.device)

    def observe(self, ids: Sequence[int], verified: Verified) -> None:
        self.model.rolled_back += self._keep(self._heard(ids))

    def abandon(self, ids: Sequence[int]) -> None:
        self._keep(self._heard(ids))

    def note_length(self, answer: Answer) -> None:
        self.model.note_length(answer)

    def _text(self, ids: Sequence[int]) -> str:
        """The answer's text up to its last whole character."""
        return self._target.decode(ids).rstrip(_BROKEN)

    def _heard(self, ids: Sequence[int]) -> list[int]:
        text = self._text(ids)
        return self._own.encode(text) if text else []

    def _keep(self, heard: Sequence[int]) -> int:
        """Cuts the cache to what of `heard` it begins with, all but the last at most. Returns how many went."""
        same = 0
        for mine, said in zip(self._fed, heard[:-1], strict=False):
            if mine != said:
                break
            same += 1
        self._fed = self._fed[:same]
        return self.model.crop(self.model.prompt_length + same)

    def _drafted(self, waiting: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> list[int]:
        """The draft's likeliest ids after those that wait, up to the end of sequence on a CPU. The cache then lacks the
        last one."""
        reads_freely = self.device.type == "cpu"
        fed = upload([list(waiting)], self.device)
        chosen: list[torch.Tensor] = []
        while len(chosen) < count:
            if is_stopped():
                raise Cancelled
            fed = self.model.step(fed)[:, -1, : self._own.size].argmax(dim=-1, keepdim=True)
            chosen.append(fed)
            if reads_freely and int(fed) in self._own.eos_ids:
                break
        drafted: list[int] = torch.cat(chosen)[:, 0].tolist()
        return drafted

    def _behind(self, ids: Sequence[int], text: str, added: str) -> list[int] | None:
        """The target's ids for `added` after the answer `ids`, which spell `text`; None if there are none. It encodes
        the whole text first, then the continuation alone."""
        if not added:
            return []
        vocabulary = self._target
        whole = vocabulary.encode(text + added)
        if whole[: len(ids)] == list(ids):
            return whole[len(ids) :]
        for anchor in _ANCHORS:
            alone, joined = vocabulary.encode(anchor), vocabulary.encode(anchor + added)
            found = joined[len(alone) :]
            if joined[: len(alone)] == alone and vocabulary.decode([*ids, *found]) == text + added:
                return found
        return None
