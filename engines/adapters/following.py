"""Heads that follow a target's hidden states: one decoder layer, and its passes over a cache while drafting.

Place i holds what the head takes of the target's state at i, with the embedding of token i + 1. The output stands for
the state at i + 1 and chooses token i + 2. Kinds differ in what they take, in how state and token are joined, and in
whose norm and head choose. The cache and the passes over it are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import Attend, LlamaDecoder, LlamaLayer, RotaryTable

if TYPE_CHECKING:
    from transformers import LlamaConfig

Entered = tuple[torch.Tensor, torch.Tensor]
"""What the layer's projections take, [..., W], and what its outputs are added to, [..., H]."""


class FollowingHead(nn.Module, ABC):
    """`window` is how many of a prompt's last places it looks back at (None: all). `reads` are the target layers whose
    inputs it takes (the number of layers: the last output); empty: the last hidden state. `choices` is how many tokens
    it chooses among (0: all). `embedding` [V, H] are its own embeddings, None for the target's. `sees_pictures`: visual
    embeddings enter its layer unchanged."""

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

    def projected(
        self, entering: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """[B, S, W] -> rotated queries and keys [B, heads + kv_heads, S, D] in one tensor, values [B, kv_heads,
        S, D]."""
        layer, (batch, new, _) = self.layer, entering.shape
        both = layer.heads + layer.kv_heads
        states = layer.qkv(entering).view(batch, new, both + layer.kv_heads, layer.head_dim).transpose(1, 2)
        turned = states[:, :both]
        return turned * cos + turned.roll(layer.head_dim // 2, -1) * sin, states[:, both:]

    def forward(self, entered: Entered, cos: torch.Tensor, sin: torch.Tensor, attend: Attend) -> torch.Tensor:
        """The pass of training, [B, S, W] and [B, S, H] -> guesses [B, S, H]. `attend` keeps keys and values."""
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


class HeadPass:
    """Between passes `length` places are known; what was guessed is cut off with `crop`."""

    def __init__(self, head: FollowingHead, target: LlamaDecoder, capacity: int) -> None:
        self._head = head
        self._target = target
        layer, weight = head.layer, target.embed_tokens.weight
        self.cache = StaticKv(head.llama, capacity, device=weight.device, dtype=weight.dtype)
        self._heads, self._both = layer.heads, layer.heads + layer.kv_heads
        self._states = (-1, layer.heads + 2 * layer.kv_heads, layer.head_dim)
        self._half, self._width, self._eps = layer.head_dim // 2, (layer.width,), layer.eps
        self._qkv, self._gate_up = layer.qkv.weight, layer.gate_up.weight
        self._out, self._down = layer.out.weight.t(), layer.down.weight.t()
        self._is_grouped = layer.heads != layer.kv_heads

    @property
    def length(self) -> int:
        return self.cache.length

    def crop(self, length: int) -> None:
        self.cache.crop(length)

    def look_back(self, states: torch.Tensor, embeddings: torch.Tensor, pictures: torch.Tensor | None = None) -> None:
        """Adds keys and values of places [S, H] that need no guess. `pictures` [S] is True for visual embeddings."""
        if not states.shape[0]:
            return
        entering, _ = self._head.entered(states, embeddings)
        if pictures is not None and self._head.sees_pictures:
            entering = torch.where(pictures[:, None], embeddings, entering)
        self._keep(*self._project(entering, *self._head.rotary.rows(self.length, states.shape[0])))

    def follow(self, states: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """True or guessed states [S, H] and the tokens after them [S] -> the guess after the last, [1, H]."""
        count, start = ids.shape[0], self.cache.length
        entering, residual = self._head.entered(states, self._head.embed(ids, self._target))
        rows = self._head.rotary.rows(start, count) if count > 1 else self._head.row(start)
        turned, told = self._project(entering, *rows)
        keys, values = self._keep(turned, told)
        if count > 1:
            # Of one layer only the last place's output is ever looked at.
            residual, turned = residual[-1:], turned[:, -1:]
        return self._finish(residual, turned, keys, values, None)

    def spread(self, states: torch.Tensor, ids: torch.Tensor, place: int, mask: torch.Tensor | None) -> torch.Tensor:
        """One tree level at one place: states [S, H], tokens [S] -> guesses [S, H]. `mask` [S, places + S]; None: all
        see all."""
        entering, residual = self._head.entered(states, self._head.embed(ids, self._target))
        turned, told = self._project(entering, *self._head.row(place))
        keys, values = self._keep(turned, told)
        return self._finish(residual, turned, keys, values, mask)

    def logits(self, guesses: torch.Tensor) -> torch.Tensor:
        """Guesses [S, H] -> logits [S, V] over the target's rows."""
        return self._head.logits(guesses, self._target)

    def _project(
        self, entering: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """[S, W] -> rotated queries and keys [heads + kv_heads, S, D] in one tensor, and values [kv_heads, S, D]."""
        states = F.linear(entering, self._qkv).view(self._states).transpose(0, 1)
        turned = states[: self._both]
        return torch.addcmul(turned * cos, turned.roll(self._half, -1), sin), states[self._both :]

    def _keep(self, turned: torch.Tensor, told: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        held = self.cache.append(0, turned[None, self._heads :], told[None])
        self.cache.length += told.shape[1]
        return held

    def _finish(
        self,
        residual: torch.Tensor,
        turned: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        seen = F.scaled_dot_product_attention(
            turned[None, : self._heads], keys, values, attn_mask=mask, enable_gqa=self._is_grouped
        )
        hidden = torch.addmm(residual, seen[0].transpose(0, 1).reshape(residual.shape[0], -1), self._out)
        normed = F.rms_norm(hidden, self._width, self._head.layer.post_norm, self._eps)
        gate, up = F.linear(normed, self._gate_up).chunk(2, -1)
        return self._head.left(torch.addmm(hidden, F.silu(gate).mul_(up), self._down))
