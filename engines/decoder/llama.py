"""Llama's forward pass over a KV cache, written for speed of dispatch: one short list of calls per layer.

transformers' module spends most of a small step on bookkeeping; here queries, keys and values come out of one matrix
product, gate and up out of another, and masks are made only where there is something to hide. The tokens are the same
(tests). It knows neither pictures nor prompts, and what a cache does with keys and values is the cache's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import torch
import torch.nn.functional as F
from torch import nn

from engines.decoder.attention import added, attend, causal_mask, choosing_kernel
from engines.decoder.kv_cache import KvCache, StaticKv
from engines.kernels.projections import MOST_TOKENS
from engines.tokens.uploads import upload
from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import StopFlag

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Layer index, queries [B, H, S, D], new keys and values [B, kv_heads, S, D] -> attended [B, H, S, D]."""

Look = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Queries [B, H, S, D] over keys and values [B, kv_heads, L, D] -> attended [B, H, S, D]."""

LongPass = Callable[..., torch.Tensor]
"""Runs layers over many positions, as `engines.decoder.fused_pass.run_fused_layers` does."""

_LENGTH_DEPENDENT = ("dynamic", "longrope")


class TakesStates(Protocol):
    """What is given the states that enter a decoder's layers, in order, such as a list."""

    def append(self, hidden: torch.Tensor, /) -> None:
        """Takes those of the next layer, [B, S, hidden]."""


class BlockShape:
    """A block of S positions as a tree: `parents[i]` indexes i's parent within the block (-1: none). A position sees
    what came before the block, its ancestors and itself, and is rotated by its depth."""

    def __init__(self, parents: Sequence[int], device: torch.device) -> None:
        count = len(parents)
        seen = torch.eye(count, dtype=torch.bool)
        depths: list[int] = []
        for index, parent in enumerate(parents):
            depths.append(0 if parent < 0 else depths[parent] + 1)
            if parent >= 0:
                seen[index] |= seen[parent]
        self.parents = tuple(parents)
        self.depths = upload(depths, device)
        self._seen = upload(seen.tolist(), device, torch.bool)

    @cached_property
    def bits(self) -> torch.Tensor:
        """[S] int32, bit j of number i set where position i of the block may look at j. For up to 31 positions."""
        weights = 1 << torch.arange(len(self.parents), device=self._seen.device)
        return (self._seen * weights).sum(1).to(torch.int32)

    def mask(self, start: int) -> torch.Tensor:
        """[1, 1, S, start + S] True where a position may look, after `start` positions that all may be seen."""
        before = self._seen.new_ones(len(self.parents), start)
        return torch.cat([before, self._seen], dim=1)[None, None]


class LlamaLayer(nn.Module):
    def __init__(self, source: LlamaDecoderLayer, config: LlamaConfig) -> None:
        from transformers.activations import ACT2FN

        super().__init__()
        attention, mlp = source.self_attn, source.mlp
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads or config.num_attention_heads
        self.head_dim = config.head_dim or config.hidden_size // config.num_attention_heads
        self.width = config.hidden_size
        self.eps = config.rms_norm_eps
        self.qkv = fuse(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = attention.o_proj
        self.gate_up = fuse(mlp.gate_proj, mlp.up_proj)
        self.down = mlp.down_proj
        self.activation = F.silu if config.hidden_act == "silu" else ACT2FN[config.hidden_act]
        self.input_norm = source.input_layernorm.weight
        self.post_norm = source.post_attention_layernorm.weight

    def forward(
        self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, attend: Attend, index: int
    ) -> torch.Tensor:
        """[B, S, width] -> [B, S, width]; `cos` and `sin` [S, D] or [B, 1, S, D], `sin` signed (see `RotaryTable`)."""
        batch, new, _ = hidden.shape
        turned, values = self.project(hidden, cos, sin)
        seen = attend(index, turned[:, : self.heads], turned[:, self.heads :], values)
        hidden = hidden + self.out(seen.transpose(1, 2).reshape(batch, new, -1))
        gate, up = self.gate_up(F.rms_norm(hidden, (self.width,), self.post_norm, self.eps)).chunk(2, -1)
        projected: torch.Tensor = hidden + self.down(self.activation(gate) * up)
        return projected

    def project(self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rotated queries and keys [B, heads + kv_heads, S, D] in one tensor, and values [B, kv_heads, S, D]."""
        batch, new, _ = hidden.shape
        both = self.heads + self.kv_heads
        states = self.qkv(F.rms_norm(hidden, (self.width,), self.input_norm, self.eps))
        states = states.view(batch, new, both + self.kv_heads, self.head_dim).transpose(1, 2)
        turned = states[:, :both]
        # Rotating halves is rolling by half a head once the sine carries the sign.
        return turned * cos + turned.roll(self.head_dim // 2, -1) * sin, states[:, both:]


class RotaryTable(nn.Module):
    """Cosines and sines of rotary positions, [positions, D] each; the first half of the sine is negative. transformers
    computes them, so its scalings apply. Grows on demand."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, config: LlamaConfig, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self._config = config
        self._dtype = dtype
        self._fill(config.max_position_embeddings, device)

    def rows(self, start: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and signed sines [count, D] of positions from `start`."""
        self.reach(start + count)
        return self.cos[start : start + count], self.sin[start : start + count]

    def reach(self, positions: int) -> None:
        """Sees to it that so many positions are there; past the trained range they are computed as any other."""
        if positions > self.cos.shape[0]:
            self._fill(2 * positions, self.cos.device)

    def _fill(self, positions: int, device: torch.device) -> None:
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        rotary = LlamaRotaryEmbedding(config=self._config).to(device)
        with torch.inference_mode(False), torch.no_grad():
            like = torch.empty(0, device=device, dtype=self._dtype)
            cos, sin = rotary(like, torch.arange(positions, device=device).unsqueeze(0))
            half = sin.shape[-1] // 2
            signed = torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
            self.register_buffer("cos", cos[0].contiguous(), persistent=False)
            self.register_buffer("sin", signed[0].contiguous(), persistent=False)


class LlamaDecoder(nn.Module):
    """A causal Llama at run time. `attention` is "sdpa", "flash", "cudnn" or "eager" and may be set between runs."""

    def __init__(self, source: LlamaForCausalLM) -> None:
        super().__init__()
        config: LlamaConfig = source.config
        check_rope(config)
        self.config = config
        self.attention = "sdpa"
        self.embed_tokens: nn.Embedding = source.model.embed_tokens
        # The same layers twice: a list is walked and cut faster than torch's own.
        self.ordered = [LlamaLayer(layer, config) for layer in source.model.layers]
        self.layers = nn.ModuleList(self.ordered)
        self.norm = source.model.norm.weight
        self.lm_head: nn.Linear = source.lm_head
        weight = self.embed_tokens.weight
        self.rotary = RotaryTable(config, weight.device, weight.dtype)

    @classmethod
    def take_over(cls, source: LlamaForCausalLM) -> LlamaDecoder:
        """The decoder of a loaded transformers model without a second copy of any weight; `source` becomes views.
        Raises UserError for rotary scalings that change with a prompt's length."""
        return cls(source)

    @property
    def device(self) -> torch.device:
        return self.embed_tokens.weight.device

    @property
    def rows(self) -> int:
        """Rows of the head: ids it can choose, padding included."""
        return int(self.lm_head.weight.shape[0])

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """[..., S] -> [..., S, hidden]."""
        embedded: torch.Tensor = F.embedding(ids, self.embed_tokens.weight)
        return embedded

    def forward(
        self, hidden: torch.Tensor, cache: KvCache, *, keep: int = 1, stop: StopFlag | None = None
    ) -> torch.Tensor:
        """[B, S, hidden] -> logits [B, keep, V] of the last `keep` positions. Raises Cancelled when `stop` is set
        between layers."""
        return self.head(self.trunk(hidden, cache, stop=stop)[:, -keep:])

    def trunk(
        self,
        hidden: torch.Tensor,
        cache: KvCache,
        *,
        stop: StopFlag | None = None,
        shape: BlockShape | None = None,
        inputs: TakesStates | None = None,
        long_pass: LongPass | None = None,
    ) -> torch.Tensor:
        """All layers and no head: [B, S, hidden] -> [B, S, hidden] before the last norm; the cache grows by S. `shape`
        places the positions as a tree. `inputs` receives what enters each layer. `long_pass` runs the layers of a
        prefill with more than 16 positions of one row over a static cache. Raises Cancelled when `stop` is set between
        two layers."""
        start, new, padding = cache.length, hidden.shape[1], cache.padding
        if shape is None:
            cos, sin = self.rotation(start, new, padding)
        else:
            self.rotary.reach(start + new)
            places = shape.depths + start
            cos, sin = self.rotary.cos[places], self.rotary.sin[places]
        is_first = start == 0 and new > 1 and padding is None and shape is None
        mask = None if is_first else causal_mask(start, new, padding, hidden.device)
        if shape is not None:
            mask = shape.mask(start)
        if mask is not None:
            mask = added(mask, hidden.dtype)

        def look(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return attend(queries, keys, values, mask, is_causal=is_first, kind=self.attention)

        def over_cache(index: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return look(queries, *cache.append(index, keys, values))

        is_long = new > MOST_TOKENS and len(hidden) == 1 and padding is None and shape is None
        with choosing_kernel(self.attention, mask, is_causal=is_first):
            if long_pass is not None and is_long and isinstance(cache, StaticKv):
                cache.reserve(start + new)
                held = {"keys": cache.keys, "values": cache.values}
                hidden = long_pass(self.ordered, hidden, self.rotary, start, look, **held, stop=stop, inputs=inputs)
            else:
                hidden = self.run_layers(hidden, cos, sin, over_cache, stop, inputs=inputs)
        cache.advance(new)
        return hidden

    def run_layers(
        self,
        hidden: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        attend: Attend,
        stop: StopFlag | None = None,
        *,
        first: int = 0,
        last: int | None = None,
        inputs: TakesStates | None = None,
    ) -> torch.Tensor:
        """Layers `first` up to `last`: [B, S, hidden] -> [B, S, hidden]. `attend` keeps keys and values; `inputs`
        receives what enters."""
        for index, layer in enumerate(self.ordered[first:last], first):
            if stop is not None and stop.is_set():
                raise Cancelled
            if inputs is not None:
                inputs.append(hidden)
            hidden = layer(hidden, cos, sin, attend, index)
        return hidden

    def fill_layers(
        self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, cache: KvCache, layers: range
    ) -> None:
        """Gives the cache keys and values of some layers, all made from one hidden state [B, S, hidden]."""
        for index in layers:
            layer = self.ordered[index]
            turned, values = layer.project(hidden, cos, sin)
            cache.append(index, turned[:, layer.heads :], values)

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """[B, S, hidden] -> logits [B, S, V]."""
        normed = F.rms_norm(hidden, (self.config.hidden_size,), self.norm, self.config.rms_norm_eps)
        logits: torch.Tensor = self.lm_head(normed)
        return logits

    def rotation(self, start: int, new: int, padding: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and signed sines of the next positions: [S, D], or [B, 1, S, D] where rows are padded."""
        cos, sin = self.rotary.rows(start, new)
        if padding is None:
            return cos, sin
        places = torch.arange(start, start + new, device=padding.device) - padding[:, None]
        places = places.clamp(min=0)
        return self.rotary.cos[places].unsqueeze(1), self.rotary.sin[places].unsqueeze(1)


def fuse(*linears: nn.Linear) -> nn.Linear:
    """One Linear whose rows are those of the given ones, in order; these become views of it."""
    rows = [linear.out_features for linear in linears]
    first = linears[0]
    with torch.device("meta"):
        fused = nn.Linear(first.in_features, sum(rows), bias=first.bias is not None)
    for name, _ in first.named_parameters():
        joined = torch.cat([getattr(linear, name).detach() for linear in linears])
        setattr(fused, name, nn.Parameter(joined, requires_grad=False))
        for linear, part in zip(linears, joined.split(rows), strict=True):
            setattr(linear, name, nn.Parameter(part, requires_grad=False))
    return fused


def check_rope(config: LlamaConfig) -> None:
    """Raises UserError for a rotary scaling whose table changes with the length of the sequence."""
    kind = (config.rope_parameters or {}).get("rope_type", "default")
    if kind in _LENGTH_DEPENDENT:
        raise UserError(
            f"The checkpoint scales rotary positions by '{kind}', which changes with a prompt's length and is not "
            "supported; use a checkpoint with default, linear, yarn or llama3 scaling."
        )
