"""What every head that follows a target's hidden states has: one decoder layer over what its kind makes of a place.

Place i holds what the head takes of the target's state at i, with the embedding of token i + 1; what comes out stands
for the state at i + 1 and chooses token i + 2. Kinds differ in what they take, in how state and token are joined, and
in whose norm and head choose; the cache and the passes over it (`head_pass`) are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
from torch import nn

from engines.decoder.llama import Attend, LlamaDecoder, LlamaLayer, RotaryTable

if TYPE_CHECKING:
    from transformers import LlamaConfig

Entered = tuple[torch.Tensor, torch.Tensor]
"""What the layer's projections take, [..., W], and what its outputs are added to, [..., H]."""


class FollowingHead(nn.Module, ABC):
    """`window` is how many of a prompt's last places it looks back at, None: at all.

    `reads` are the target's layers whose inputs it takes, side by side (the number of layers: what leaves the last);
    empty: the last hidden state alone. `choices` is how many tokens it chooses among (0: all of the target's).
    `embedding` [V, H] are embeddings of its own, None where it takes the target's. `sees_pictures`: a visual embedding
    enters its layer as it is.
    """

    window: int | None = None
    reads: tuple[int, ...] = ()
    choices: int = 0
    sees_pictures = False

    def __init__(self, llama: LlamaConfig, layer: LlamaLayer, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.llama, self.layer = llama, layer
        self.rotary = RotaryTable(llama, device, dtype)
        self.embedding: torch.Tensor | None = None
        self._rows: list[tuple[torch.Tensor, torch.Tensor]] = []

    def taken(self, features: torch.Tensor, target: LlamaDecoder) -> torch.Tensor:
        """What places hold [..., H] of the target's true states: the last ones before its norm, or those of `reads`."""
        return features

    def embed(self, ids: torch.Tensor, target: LlamaDecoder) -> torch.Tensor:
        """[S] -> [S, H]."""
        return target.embed(ids) if self.embedding is None else nn.functional.embedding(ids, self.embedding)

    @abstractmethod
    def entered(self, states: torch.Tensor, embeddings: torch.Tensor) -> Entered:
        """States and the embeddings of the tokens after them, [..., H] each -> what the layer takes."""

    def entered_by(self, states: torch.Tensor, ids: torch.Tensor, target: LlamaDecoder) -> Entered:
        """The same by the tokens' ids [S]."""
        return self.entered(states, self.embed(ids, target))

    def projected(
        self, entering: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What the layer takes [B, S, W] -> rotated queries and keys [B, heads + kv_heads, S, D] in one tensor, and
        values [B, kv_heads, S, D]."""
        layer, (batch, new, _) = self.layer, entering.shape
        both = layer.heads + layer.kv_heads
        states = layer.qkv(entering).view(batch, new, both + layer.kv_heads, layer.head_dim).transpose(1, 2)
        turned = states[:, :both]
        return turned * cos + turned.roll(layer.head_dim // 2, -1) * sin, states[:, both:]

    def forward(self, entered: Entered, cos: torch.Tensor, sin: torch.Tensor, attend: Attend) -> torch.Tensor:
        """The pass that teaching takes, [B, S, W] and [B, S, H] -> guesses [B, S, H]; drafting's is `HeadPass`.

        How keys and values are kept and seen is up to `attend`.
        """
        layer, (entering, residual) = self.layer, entered
        turned, told = self.projected(entering, cos, sin)
        seen = attend(0, turned[:, : layer.heads], turned[:, layer.heads :], told)
        hidden = residual + layer.out(seen.transpose(1, 2).flatten(2))
        gate, up = layer.gate_up(nn.functional.rms_norm(hidden, (layer.width,), layer.post_norm, layer.eps)).chunk(
            2, -1
        )
        return self.left(hidden + layer.down(layer.activation(gate) * up))

    def left(self, hidden: torch.Tensor) -> torch.Tensor:
        """What leaves the layer [..., H] -> the guesses, which a draft goes on from."""
        return hidden

    @abstractmethod
    def logits(self, guesses: torch.Tensor, target: LlamaDecoder) -> torch.Tensor:
        """Guesses [..., H] -> logits [..., V] over the target's rows."""

    def row(self, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and signed sines [1, D] of one place: cut once, for a pass takes little longer than cutting."""
        if place >= len(self._rows):
            self.rotary.reach(place + 1)
            self._rows = list(zip(self.rotary.cos.split(1), self.rotary.sin.split(1), strict=True))
        return self._rows[place]
