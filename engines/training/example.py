"""One collected answer: what both models saw and thought while the target said it. It knows no file."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from evprof.core.errors import UserError


@dataclass(frozen=True, eq=False)
class Example:
    """`answer_ids` [n] is the target's greedy answer, end of sequence included where it came.

    `target_embeddings` [S, H] is the prompt as the target's decoder got it, its visual positions `target_visual` =
    (first, count); `target_features` [S + n - 1, H] its last hidden states, before the last norm, at the prompt's
    positions and those of the answer's tokens save the last, `target_layers` there what enters some of its layers, side
    by side, where that was kept. `draft_embeddings`, `draft_visual`, `draft_features` are
    the same of the draft fed with the target's answer, in the draft's ids; None where no draft took part.
    `text_ids` are the target's ids of the prompt without visual slots.
    """

    name: str
    prompt: str
    answer_ids: torch.Tensor
    text_ids: torch.Tensor
    target_embeddings: torch.Tensor
    target_features: torch.Tensor
    target_visual: tuple[int, int]
    draft_embeddings: torch.Tensor | None = None
    draft_features: torch.Tensor | None = None
    draft_visual: tuple[int, int] | None = None
    target_layers: torch.Tensor | None = None

    def shortened(self, positions: int) -> Example:
        """As if the target's prompt had begun so many positions before its end: enough for what looks back no farther.

        Visual positions that were left out count no more; the draft's part stays as it is.
        """
        left_out = max(0, self.target_prompt - positions)
        first, count = self.target_visual
        begin = max(0, first - left_out)
        return replace(
            self,
            target_embeddings=self.target_embeddings[left_out:],
            target_features=self.target_features[left_out:],
            target_layers=None if self.target_layers is None else self.target_layers[left_out:],
            target_visual=(begin, max(0, first + count - left_out - begin)),
        )

    @property
    def layers(self) -> torch.Tensor:
        """`target_layers`. Raises UserError where they were not kept."""
        if self.target_layers is None:
            raise UserError(f"Example '{self.name}' holds no layers of the target; collect with --keep-layers auto.")
        return self.target_layers

    @property
    def target_prompt(self) -> int:
        """Positions of the target's prompt."""
        return self.target_embeddings.shape[0]
