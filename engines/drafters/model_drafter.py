"""A language model with a cache of its own as drafter: it has its own prompt, and only ids pass to and fro.

Every token the target emits is fed to it sooner or later; what was rejected is cut off its cache again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from engines.decoder.decoding import CachedModel
from engines.decoder.sampling import Law, draw
from engines.drafters.draft_side import DraftSide
from engines.drafters.drafter import Drafted, Drafter, Proposal, Verified
from engines.drafters.reencoding_drafter import ReencodingDrafter
from engines.tokens.answer import Answer
from engines.tokens.uploads import upload
from engines.tokens.vocabulary_alignment import Alignment
from evprof.core.errors import Cancelled
from evprof.core.speculation import REENCODED


class ModelDrafter(Drafter):
    """Drafts greedily, or draws from `law` with `generator` where there is one.

    `model` is prefilled. `eos_ids` are the target's; drafting stops after one where the host may look.
    """

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
        alignment.bring_to(self.device)

    def see(self, visual: torch.Tensor) -> None:
        """The target's visual embeddings [V, hidden], once it has them; another thread may draft meanwhile."""

    def heard(self, logits: torch.Tensor) -> torch.Tensor:
        """The model's logits [1, V] -> [1, V'] by the target's ids."""
        return self._alignment.logits_for_target(logits)

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        """One step per token; the first also feeds what the target added meanwhile."""
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
        """Token after token after what the cache holds, whose logits [1, V] these are; a step for each but the first,
        taken when the next is asked for. Never waits for a GPU."""
        while True:
            seen = self.heard(logits)
            # Captured steps write every result into one buffer; copies outlive the next step.
            kept = seen if self.model.own_step is None else seen.clone()
            law = None if self._law is None else self._law(seen)
            token = seen.argmax(dim=-1, keepdim=True) if law is None else draw(law, self._generator)
            yield Drafted(token, law, kept)
            logits = self.model.step(self._alignment.ids_for_draft(token))[:, -1]

    def proposal(self, chosen: Sequence[Drafted]) -> Proposal:
        """Drafted tokens (at least one) as the target is to judge them."""
        laws = [one.law for one in chosen if one.law is not None]
        ids = torch.cat([one.token for one in chosen])[:, 0]
        return Proposal(ids, self._stacked(laws), logits=[one.logits for one in chosen])

    def observe(self, ids: Sequence[int], verified: Verified) -> None:
        """Cuts what was rejected off the cache."""
        self.model.rolled_back += self.model.crop(self.model.prompt_length + len(ids) - 1)

    def finish(self, ids: Sequence[int]) -> None:
        """Feeds what a fully accepted last round left out."""
        if waiting := self._waiting(ids)[:-1]:
            self.model.step(self._for_draft(waiting))
        self.model.crop(self.model.prompt_length + len(ids) - 1)

    def abandon(self, ids: Sequence[int]) -> None:
        """Cuts off what was drafted last."""
        self.model.crop(self.model.prompt_length + len(ids) - 1)

    def note_length(self, answer: Answer) -> None:
        """The draft's cache."""
        self.model.note_length(answer)

    def _waiting(self, ids: Sequence[int]) -> Sequence[int]:
        """Tokens of the answer that the cache lacks: at least the last one."""
        return ids[self.model.length - self.model.prompt_length :]

    def _for_draft(self, ids: Sequence[int]) -> torch.Tensor:
        return upload([self._alignment.for_draft(ids)], self.device)

    def _stacked(self, laws: list[torch.Tensor]) -> torch.Tensor | None:
        """[k, V] over all of the target's rows: what the draft lacks has no chance."""
        if not laws:
            return None
        stacked = torch.cat(laws)
        lacking = self._rows - stacked.shape[-1]
        return torch.nn.functional.pad(stacked, (0, lacking)) if lacking > 0 else stacked


def make(side: DraftSide) -> Drafter:
    """The draft model as it is loaded: ids pass where enough of them meet the target's, else text does."""
    draft, cached = side.drafting
    alignment = side.alignment
    if alignment.kind == REENCODED:
        return ReencodingDrafter(side.draft_name, cached, draft.vocabulary, side.target.vocabulary)
    return ModelDrafter(side.draft_name, cached, alignment, side.eos_ids, **side.drawn)
