"""A language model with a cache of its own as drafter: it has its own prompt, and only ids pass to and fro.

Every token the target emits is fed to it sooner or later; what was rejected is cut off its cache again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from engines.answer import Answer
from engines.decoding import CachedModel
from engines.drafters.drafter import PromptContext, Proposal, Verified
from engines.sampling import Law, draw
from engines.vocabulary_alignment import Alignment
from evprof.core.errors import Cancelled


class ModelDrafter:
    """Drafts greedily, or draws from `law` with `generator` where there is one.

    `model` is prefilled. `eos_ids` are the target's; drafting stops behind one where the host may look.
    """

    wants_features = False

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
        self.name, self.role, self.device = name, model.role, model.device
        self.model = model
        self._alignment = alignment
        self._eos_ids = eos_ids
        self._law, self._generator = law, generator
        self._rows = target_rows

    def start(self, context: PromptContext) -> None:
        """The draft has a prompt of its own."""

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        """One step per token; the first also feeds what the target added meanwhile."""
        reads_freely = self.device.type == "cpu"
        fed = self._for_draft(self._waiting(ids))
        chosen: list[torch.Tensor] = []
        laws: list[torch.Tensor] = []
        seen: list[torch.Tensor] = []
        while len(chosen) < count:
            if is_stopped():
                raise Cancelled
            logits = self._alignment.logits_for_target(self.model.step(fed)[:, -1])
            seen.append(logits)
            if self._law is None:
                token = logits.argmax(dim=-1, keepdim=True)
            else:
                law = self._law(logits)
                laws.append(law)
                token = draw(law, self._generator)
            chosen.append(token)
            if reads_freely and int(token) in self._eos_ids:
                break  # nothing follows the end
            fed = self._alignment.ids_for_draft(token)
        return Proposal(torch.cat(chosen)[:, 0], self._stacked(laws), logits=self._kept(seen))

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
        return torch.tensor([self._alignment.for_draft(ids)], device=self.device)

    def _stacked(self, laws: list[torch.Tensor]) -> torch.Tensor | None:
        """[k, V] over all of the target's rows: what the draft lacks has no chance."""
        if not laws:
            return None
        stacked = torch.cat(laws)
        lacking = self._rows - stacked.shape[-1]
        return torch.nn.functional.pad(stacked, (0, lacking)) if lacking > 0 else stacked

    def _kept(self, seen: list[torch.Tensor]) -> list[torch.Tensor]:
        """Captured steps write every result into one buffer; copies outlive the next step."""
        return seen if self.model.own_step is None else [logits.clone() for logits in seen]
