"""The draft model speaking with the target's head: drafts as any model, over an adapter that sees what the target sees.

In the target's prefill it may begin before the target has encoded its frames; until then it drafts without them.
"""

from __future__ import annotations

import torch

from engines.adapters.hidden import AdaptedDecoder
from engines.decoder.decoding import CachedModel
from engines.decoder.sampling import Law
from engines.drafters.drafter import PromptContext
from engines.drafters.model_drafter import ModelDrafter
from engines.tokens.vocabulary_alignment import Alignment


class HiddenDrafter(ModelDrafter):
    """Over `decoder`, which from now on is the draft's own in `model`; other arguments as `ModelDrafter`'s."""

    def __init__(
        self,
        name: str,
        model: CachedModel,
        decoder: AdaptedDecoder,
        alignment: Alignment,
        eos_ids: frozenset[int],
        *,
        law: Law | None = None,
        generator: torch.Generator | None = None,
        target_rows: int = 0,
    ) -> None:
        super().__init__(name, model, alignment, eos_ids, law=law, generator=generator, target_rows=target_rows)
        # Compiled and captured steps end in the draft's own head.
        model.decoder, model.own_step = decoder, None
        self._adapted = decoder

    def start(self, context: PromptContext) -> None:
        """Looks at what the target sees."""
        if context.visual is not None:
            self.see(context.visual)

    def see(self, visual: torch.Tensor) -> None:
        """Taken up by the next step."""
        self._adapted.look(visual)

    def heard(self, logits: torch.Tensor) -> torch.Tensor:
        """They are the target's head's; what the draft cannot be fed is left out."""
        return self._alignment.spoken(logits)
