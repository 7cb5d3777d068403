"""The draft model speaking with the target's head: drafts as any model, over an adapter that sees what the target sees.

In the target's prefill it may begin before the target has encoded its frames; until then it drafts without them.
"""

from __future__ import annotations

from typing import Any

import torch

from engines.adapters.hidden import AdaptedDecoder, load_hidden
from engines.decoder.decoding import CachedModel
from engines.drafters.draft_side import DraftSide
from engines.drafters.drafter import PromptContext
from engines.drafters.model_drafter import ModelDrafter
from engines.tokens.vocabulary_alignment import Alignment
from evprof.core.errors import UserError
from evprof.core.speculation import REENCODED


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
        """Looks at what the target sees."""
        if context.visual is not None:
            self.see(context.visual)

    def see(self, visual: torch.Tensor) -> None:
        """Taken up by the next step."""
        self._adapted.look(visual)

    def heard(self, logits: torch.Tensor) -> torch.Tensor:
        """They are the target's head's; what the draft cannot be fed is left out."""
        return self._alignment.spoken(logits)


def make(side: DraftSide) -> HiddenDrafter:
    """The draft's layers under the target's head. Raises UserError where the draft cannot be fed the target's ids."""
    draft, cached = side.drafting
    if side.alignment.kind == REENCODED:
        raise UserError(
            f"{side.draft_name} knows too few of the words of {side.target.facts.name} to go on behind them; drafter "
            f"{side.trained.kind} needs a pair with a shared vocabulary."
        )
    decoder = load_hidden(side.trained, draft.language_model, side.target.language_model)
    return HiddenDrafter(side.draft_name, cached, decoder, side.alignment, side.eos_ids, **side.drawn)
