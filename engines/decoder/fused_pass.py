"""A decode step in seven kernels a layer, over a static cache: what a CUDA graph of any length can hold.

Norm and QKV; rotation and cache write; attention over shares of the cache; their weighing; output projection and
residual; norm, gate, up and SiLU; down projection and residual. The position is read on the device, positions of a
block may hang together as a tree, and all buffers are made once per size of block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import BlockShape, LlamaDecoder
from engines.decoder.packed_linear import PackedLinear
from engines.kernels.availability import kernels_problem

if TYPE_CHECKING:
    from engines.kernels.attention import AttentionBuffers

FUSED = "fused"

MOST_POSITIONS = 16
"""Positions of one pass; longer blocks go the decoder's own way."""

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@dataclass(frozen=True)
class _Buffers:
    """What a pass over M positions writes, each [M, …]: the last hidden states and logits are its results."""

    hidden: torch.Tensor
    states: torch.Tensor
    gated: torch.Tensor
    logits: torch.Tensor
    attention: AttentionBuffers


class FusedPass:
    """The pass of one decoder. `arrange` says how the positions of the next blocks hang together."""

    most_positions = MOST_POSITIONS

    def __init__(self, decoder: LlamaDecoder) -> None:
        self._decoder = decoder
        self._shape: BlockShape | None = None
        self._made: dict[tuple[int, int], _Buffers] = {}
        places = torch.arange(MOST_POSITIONS, device=decoder.device)
        self._chain = (places, ((2 << places) - 1).to(torch.int32))
        self._depths, self._seen = (part.clone() for part in self._chain)

    @torch.inference_mode()
    def arrange(self, shape: BlockShape | None) -> None:
        """Places the next blocks as a tree; None: their positions follow one another. Never waits."""
        if shape is self._shape:
            return
        for held, chain in zip((self._depths, self._seen), self._chain, strict=True):
            held.copy_(chain)
        if shape is not None:
            self._depths[: len(shape.parents)] = shape.depths
            self._seen[: len(shape.parents)] = shape.bits
        self._shape = shape

    def __call__(
        self, decoder: LlamaDecoder, ids: torch.Tensor, start: torch.Tensor, cache: StaticKv
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids [1, S] at `start` [1] (int64, on the device) onward, S up to 16 -> logits [1, S, V] and the last
        hidden states [1, S, hidden] before the last norm, both good until the next pass of that size.

        Writes into the cache but does not count. Rotary positions must have been reached by the caller.
        """
        from engines.kernels.attention import attend_to_cache, rotate_and_write
        from engines.kernels.projections import norm_gate_up, norm_project, project_add

        new = ids.shape[1]
        held = self._buffers(new, cache)
        hidden, attention, table = held.hidden, held.attention, decoder.rotary
        torch.index_select(decoder.embed_tokens.weight, 0, ids[0], out=hidden)
        for layer, keys, values in zip(decoder.ordered, cache.keys, cache.values, strict=True):
            norm_project(hidden, layer.input_norm, weight_of(layer.qkv), layer.eps, layer.qkv.bias, out=held.states)
            rotate_and_write(
                held.states,
                table.cos,
                table.sin,
                start,
                self._depths,
                keys=keys,
                values=values,
                queries=attention.queries,
            )
            attended = attend_to_cache(keys, values, start, self._seen, attention)
            project_add(attended, weight_of(layer.out), hidden, layer.out.bias, out=hidden)
            norm_gate_up(hidden, layer.post_norm, weight_of(layer.gate_up), layer.eps, out=held.gated)
            project_add(held.gated, weight_of(layer.down), hidden, layer.down.bias, out=hidden)
        head, eps = decoder.lm_head, decoder.config.rms_norm_eps
        norm_project(hidden, decoder.norm, weight_of(head), eps, head.bias, out=held.logits)
        return held.logits[None], hidden[None]

    def release(self) -> None:
        """Gives the buffers back."""
        self._made.clear()

    def _buffers(self, new: int, cache: StaticKv) -> _Buffers:
        from engines.kernels.attention import AttentionBuffers

        key = (new, cache.capacity)
        if key not in self._made:
            decoder, layer = self._decoder, self._decoder.ordered[0]
            like = decoder.embed_tokens.weight
            rows = (layer.heads + 2 * layer.kv_heads) * layer.head_dim
            self._made[key] = _Buffers(
                like.new_empty(new, layer.width),
                like.new_empty(new, rows),
                like.new_empty(new, decoder.config.intermediate_size),
                like.new_empty(new, decoder.rows),
                AttentionBuffers.like(cache.keys[0], layer.heads, new),
            )
        return self._made[key]


def weight_of(linear: Any) -> Any:
    """A projection's weight as the kernels take it."""
    return linear.packed if isinstance(linear, PackedLinear) else linear.weight


def fusing_problem(decoder: LlamaDecoder) -> str:
    """Why a decoder's step cannot be fused where it is, without a full stop; "" where it can."""
    if problem := kernels_problem(decoder.device):
        return problem
    from engines.kernels.attention import HEAD_SIZES

    config, layer, dtype = decoder.config, decoder.ordered[0], decoder.embed_tokens.weight.dtype
    linears = [getattr(layer, name) for layer in decoder.ordered for name in ("qkv", "out", "gate_up", "down")]
    unread = next((linear for linear in [*linears, decoder.lm_head] if not _is_readable(linear)), None)
    reasons = {
        f"its kernels compute in bfloat16, float16 or float32, not in {str(dtype).removeprefix('torch.')}": (
            dtype not in _DTYPES
        ),
        f"its kernels compute SiLU, and this model's activation is {config.hidden_act}": config.hidden_act != "silu",
        f"its kernels take heads of {HEAD_SIZES[0]} to {HEAD_SIZES[-1]} in steps of 16, not of {layer.head_dim}": (
            layer.head_dim not in HEAD_SIZES
        ),
        f"its kernels do not read the weights of {type(unread).__name__}": unread is not None,
        "this model's gate has a bias, which its kernels do not add": getattr(layer.gate_up, "bias", None) is not None,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _is_readable(linear: nn.Module) -> bool:
    if isinstance(linear, PackedLinear):
        return True
    return type(linear) is nn.Linear and type(linear.weight) in (nn.Parameter, torch.Tensor)
