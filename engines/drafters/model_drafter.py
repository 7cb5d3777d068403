"""Language models with a cache of their own as drafters: the draft, the draft under the target's head, the target.

A draft model has its own prompt. Ids pass between the models, or text where vocabularies differ. Rejected tokens are
cropped from its cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count as numbered
from typing import Any

import torch

from engines.adapters.hidden_states import AdaptedDecoder, load_hidden
from engines.decoder.decoding import CachedModel
from engines.decoder.kv_cache import STATIC
from engines.decoder.quantized_kv import make_cache
from engines.decoder.sampling import Law, draw
from engines.drafters.drafter import Drafted, Drafter, DraftSide, PromptContext, Proposal, Verified
from engines.tokens.answer import Answer
from engines.tokens.tokenization import Vocabulary
from engines.tokens.uploads import upload
from engines.tokens.vocabulary_alignment import Alignment, ends_of, first_shared
from evprof.core.errors import Cancelled, UserError
from evprof.core.records import TARGET
from evprof.core.run_info import REENCODED

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
        drafted = (found or [])[:count]
        return Proposal(upload(drafted, self.model.device)) if drafted else Proposal.nothing()

    def observe(self, ids: Sequence[int], verified: Verified) -> None:
        self.model.rolled_back += self._keep(self._heard(ids))

    def abandon(self, ids: Sequence[int]) -> None:
        self._keep(self._heard(ids))

    def note_length(self, answer: Answer) -> None:
        self.model.note_length(answer)

    def _text(self, ids: Sequence[int]) -> str:
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


_WAYS_ON = 4


class ModelDrafter(Drafter):
    """Drafts greedily, or draws from `law` with `generator`, with a prefilled `model`. Stops after one of the target's
    `eos_ids` if the host can read it without waiting."""

    def __init__(
        self,
        name: str,
        model: CachedModel,
        alignment: Alignment,
        eos_ids: frozenset[int],
        *,
        law: Law | None = None,
        generator: torch.Generator | None = None,
        target_rows: int = 0,
    ) -> None:
        super().__init__(name, model.device)
        self.role = model.role
        self.model = model
        self._alignment = alignment
        self._eos_ids = eos_ids
        self._law, self._generator = law, generator
        self._rows = target_rows
        self._branch: list[int] | None = None
        alignment.bring_to(self.device)

    def see(self, visual: torch.Tensor) -> None:
        """The target's visual embeddings [V, hidden], once it has them; another thread may draft meanwhile."""

    def heard(self, logits: torch.Tensor) -> torch.Tensor:
        """The model's logits [1, V] -> [1, V'] by the target's ids."""
        return self._alignment.logits_for_target(logits)

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        if is_stopped():
            raise Cancelled
        reads_freely = self.device.type == "cpu"
        chosen: list[Drafted] = []
        for one in self.drafted(self.model.step(self._for_draft(self._waiting(ids)))[:, -1]):
            chosen.append(one)
            if len(chosen) == count or (reads_freely and int(one.token) in self._eos_ids):
                break  # nothing follows the end
            if is_stopped():
                raise Cancelled
        return self.proposal(chosen)

    def drafted(self, logits: torch.Tensor) -> Iterator[Drafted]:
        """Token after token after the cache, whose logits [1, V] these are; one step for each but the first. Never
        waits for a GPU."""
        while True:
            seen = self.heard(logits)
            # Captured steps write every result into one buffer; copies outlive the next step.
            kept = seen if self.model.own_step is None else seen.clone()
            law = None if self._law is None else self._law(seen)
            token = seen.argmax(dim=-1, keepdim=True) if law is None else draw(law, self._generator)
            yield Drafted(token, law, kept)
            logits = self.model.step(self._alignment.ids_for_draft(token))[:, -1]

    def grown(self, logits: torch.Tensor) -> Iterator[Drafted]:
        """A tree after the cache, with these logits [1, V], likeliest path first. Each token but the first takes a pass
        over what its path does not share with the previous one. The host reads the likeliest after each pass."""
        numbers = numbered()  # of two equally likely ones the first
        ways: list[list[int]] = []
        open_ends: list[tuple[float, int, int, int, torch.Tensor]] = []
        way: list[int] = []
        parent, chance = -1, 0.0
        while True:
            if not way or way[-1] not in self._eos_ids:
                seen = self.heard(logits)
                kept = seen if self.model.own_step is None else seen.clone()
                law = seen.float().softmax(-1) if self._law is None else self._law(seen)
                found = law.log()[0].topk(min(_WAYS_ON, law.shape[-1]))
                for more, token in zip(found.values.tolist(), found.indices.tolist(), strict=True):
                    if more > -math.inf:
                        heappush(open_ends, (-chance - more, next(numbers), parent, token, kept))
            if not open_ends:
                return
            less, _, parent, token, kept = heappop(open_ends)
            way, chance = [*(ways[parent] if parent >= 0 else ()), token], -less
            yield Drafted(upload([[token]], self.device), None, kept, parent)
            parent = len(ways)
            ways.append(way)
            if token not in self._eos_ids:
                shared = min(_shared(self._branch or (), way), len(way) - 1)
                self.model.crop(self.model.prompt_length + shared)
                self._branch = way
                logits = self.model.step(self._for_draft(way[shared:]))[:, -1]

    def proposal(self, chosen: Sequence[Drafted]) -> Proposal:
        laws = [one.law for one in chosen if one.law is not None]
        ids = torch.cat([one.token for one in chosen])[:, 0]
        parents = tuple(one.parent for one in chosen if one.parent is not None) or None
        return Proposal(ids, self._stacked(laws), parents, logits=[one.logits for one in chosen])

    def observe(self, ids: Sequence[int], verified: Verified) -> None:
        """Cuts what was rejected off the cache; of a tree's last way what the answer does not begin with."""
        kept = len(ids) - 1
        if self._branch is not None:
            kept, self._branch = _shared(self._branch, ids[:-1]), None
        self.model.rolled_back += self.model.crop(self.model.prompt_length + kept)

    def finish(self, ids: Sequence[int]) -> None:
        if waiting := self._waiting(ids)[:-1]:
            self.model.step(self._for_draft(waiting))
        self.model.crop(self.model.prompt_length + len(ids) - 1)

    def abandon(self, ids: Sequence[int]) -> None:
        self.model.crop(self.model.prompt_length + len(ids) - 1)

    def note_length(self, answer: Answer) -> None:
        self.model.note_length(answer)

    def _waiting(self, ids: Sequence[int]) -> Sequence[int]:
        return ids[self.model.length - self.model.prompt_length :]

    def _for_draft(self, ids: Sequence[int]) -> torch.Tensor:
        return upload([self._alignment.for_draft(ids)], self.device)

    def _stacked(self, laws: list[torch.Tensor]) -> torch.Tensor | None:
        if not laws:
            return None
        stacked = torch.cat(laws)
        lacking = self._rows - stacked.shape[-1]
        return torch.nn.functional.pad(stacked, (0, lacking)) if lacking > 0 else stacked


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def make_model(side: DraftSide) -> Drafter:
    """The draft model as it is loaded: ids pass where enough of them meet the target's, else text does."""
    draft, cached = side.drafting
    alignment = side.alignment
    if alignment.kind == REENCODED:
        return ReencodingDrafter(side.draft_name, cached, draft.vocabulary, side.target.vocabulary)
    return ModelDrafter(side.draft_name, cached, alignment, side.eos_ids, **side.drawn)


class HiddenDrafter(ModelDrafter):
    """Over `decoder`, which from now on is the draft's own in `model`; other arguments as `ModelDrafter`'s."""

    def __init__(
        self,
        name: str,
        model: CachedModel,
        decoder: AdaptedDecoder,
        alignment: Alignment,
        eos_ids: frozenset[int],
        **drawn: Any,
    ) -> None:
        super().__init__(name, model, alignment, eos_ids, **drawn)
        # Compiled and captured steps end in the draft's own head.
        model.decoder, model.own_step = decoder, None
        self._adapted = decoder

    def start(self, context: PromptContext) -> None:
        if context.visual is not None:
            self.see(context.visual)

    def see(self, visual: torch.Tensor) -> None:
        self._adapted.look(visual)

    def heard(self, logits: torch.Tensor) -> torch.Tensor:
        return self._alignment.spoken(logits)


def make_hidden(side: DraftSide) -> HiddenDrafter:
    """The draft's layers under the target's head. Raises UserError where the draft cannot be fed the target's ids."""
    draft, cached = side.drafting
    if side.alignment.kind == REENCODED:
        raise UserError(
            f"{side.draft_name} knows too few of the words of {side.target.facts.name} to go on after them; drafter "
            f"{side.trained.kind} needs a pair with a shared vocabulary."
        )
    decoder = load_hidden(side.trained, draft.language_model, side.target.language_model)
    return HiddenDrafter(side.draft_name, cached, decoder, side.alignment, side.eos_ids, **side.drawn)


class SelfDrafter(ModelDrafter):
    """The target drafts with a second cache of the same prompt."""

    wants_features = True

    def __init__(
        self,
        target: CachedModel,
        eos_ids: frozenset[int] = frozenset(),
        *,
        law: Law | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        rows = target.vocabulary_size
        own = CachedModel(target.decoder, TARGET, target.device, rows)
        drawn: dict[str, Any] = {"law": law, "generator": generator, "target_rows": rows}
        super().__init__("the target itself", own, first_shared(rows), eos_ids, **drawn)

    def start(self, context: PromptContext) -> None:
        """Fills the cache. Raises RuntimeError without the prompt's embeddings."""
        prompt, model = context.embeddings, self.model
        if prompt is None:
            raise RuntimeError("the target drafts from its prompt's embeddings")
        model.cache = make_cache(
            STATIC, model.decoder.config, capacity=prompt.shape[1] + 256, device=prompt.device, dtype=prompt.dtype
        )
        model.decoder.trunk(prompt, model.cache)
        model.prompt_length = model.length

    def finish(self, ids: Sequence[int]) -> None:
        return

    def note_length(self, answer: Answer) -> None:
        return


def make_self(side: DraftSide) -> SelfDrafter:
    return SelfDrafter(side.cached_target, side.eos_ids, law=side.law, generator=side.generator)
