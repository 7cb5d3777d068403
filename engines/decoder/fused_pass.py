"""A decode step in seven kernels a layer over a static cache, and a prefill with our kernels beside PyTorch's products.

The seven kernels: norm and QKV; rotation and cache write; attention over shares of the cache; their weighing; output
projection and residual; norm, gate, up and SiLU; down projection and residual. The position is read on the device,
positions of a block may form a tree, and all buffers are made once for each size of block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import BlockShape, LlamaDecoder, LlamaLayer, Look, RotaryTable, TakesStates
from engines.decoder.quantization import PackedLinear
from engines.kernels.packed_weight import kernels_problem
from engines.kernels.projections import launching_on
from evprof.core.errors import Cancelled
from evprof.core.protocols import StopFlag

if TYPE_CHECKING:
    from engines.kernels.attention import AttentionBuffers


def run_fused_layers(
    layers: Sequence[LlamaLayer],
    hidden: torch.Tensor,
    rotary: RotaryTable,
    start: int,
    look: Look,
    *,
    keys: Sequence[torch.Tensor],
    values: Sequence[torch.Tensor],
    stop: StopFlag | None = None,
    inputs: TakesStates | None = None,
) -> torch.Tensor:
    """States of positions from `start` on, [1, S, width] -> [1, S, width]. `keys` and `values` [1, kv_heads, capacity,
    D] belong to a static cache with enough room. Raises Cancelled when `stop` is set between two layers."""
    from engines.kernels.attention import rotate_and_write
    from engines.kernels.elementwise import add_norm, silu_product

    device, new, end = hidden.device, hidden.shape[1], start + hidden.shape[1]
    hidden = hidden.contiguous()
    rotary.reach(end)
    first = layers[0]
    before = torch.full((1,), start, device=device)
    depths = torch.arange(new, device=device)
    queries = hidden.new_empty(new, first.heads, first.head_dim)
    with launching_on(device):
        normed = F.rms_norm(hidden, (first.width,), first.input_norm, first.eps)
        for index, (layer, held_keys, held_values) in enumerate(zip(layers, keys, values, strict=True)):
            if stop is not None and stop.is_set():
                raise Cancelled
            if inputs is not None:
                inputs.append(hidden)
            rotate_and_write(
                layer.qkv(normed)[0],
                rotary.cos,
                rotary.sin,
                before,
                depths,
                keys=held_keys,
                values=held_values,
                queries=queries,
            )
            attended = look(queries[None].transpose(1, 2), held_keys[:, :, :end], held_values[:, :, :end])
            update = layer.out(attended.transpose(1, 2).reshape(1, new, -1))
            hidden, normed = add_norm(hidden, update, layer.post_norm, layer.eps)
            update = layer.down(silu_product(layer.gate_up(normed)))
            if index + 1 < len(layers):
                hidden, normed = add_norm(hidden, update, layers[index + 1].input_norm, layer.eps)
    last: torch.Tensor = hidden + update
    return last


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


class FusedPass:
    most_positions = MOST_POSITIONS

    def __init__(self, decoder: LlamaDecoder) -> None:
        self._decoder = decoder
        self._shape: BlockShape | None = None
        self._made: dict[int, _Buffers] = {}
        self._attention: dict[tuple[int, int], AttentionBuffers] = {}
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
        """Token ids [1, S] at `start` [1] (int64, on the device) onward, S up to 16 -> logits [1, S, V] and last hidden
        states [1, S, hidden] before the last norm, valid until the next pass of that size. Writes into the cache but
        does not count."""
        hidden = self.embed(ids)
        for layer, keys, values in zip(decoder.ordered, cache.keys, cache.values, strict=True):
            self.run_layer(layer, hidden, start, keys, values)
        return self.head(hidden)[None], hidden[None]

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Token ids [1, S] -> [S, hidden], good until the next pass of that size."""
        hidden = self._buffers(ids.shape[1]).hidden
        return torch.index_select(self._decoder.embed_tokens.weight, 0, ids[0], out=hidden)

    def run_layer(
        self, layer: LlamaLayer, hidden: torch.Tensor, start: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """One layer in place: states [S, hidden] at `start` [1] onward; `keys` and `values` are its static cache."""
        from engines.kernels.attention import attend_to_cache, rotate_and_write
        from engines.kernels.projections import norm_gate_up, norm_project, project_add

        held, table = self._buffers(hidden.shape[0]), self._decoder.rotary
        attention = self._attention_buffers(hidden.shape[0], keys)
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

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """The last norm and the head: states [S, hidden] -> logits [S, V], good until the next pass of that size."""
        from engines.kernels.projections import norm_project

        decoder, logits = self._decoder, self._buffers(hidden.shape[0]).logits
        head, eps = decoder.lm_head, decoder.config.rms_norm_eps
        return norm_project(hidden, decoder.norm, weight_of(head), eps, head.bias, out=logits)

    def release(self) -> None:
        self._made.clear()
        self._attention.clear()

    def _buffers(self, new: int) -> _Buffers:
        if new not in self._made:
            decoder, layer = self._decoder, self._decoder.ordered[0]
            like = decoder.embed_tokens.weight
            rows = (layer.heads + 2 * layer.kv_heads) * layer.head_dim
            widths = (layer.width, rows, decoder.config.intermediate_size, decoder.rows)
            self._made[new] = _Buffers(*(like.new_empty(new, width) for width in widths))
        return self._made[new]

    def _attention_buffers(self, new: int, keys: torch.Tensor) -> AttentionBuffers:
        from engines.kernels.attention import AttentionBuffers

        key = (new, keys.shape[2])
        if key not in self._attention:
            self._attention[key] = AttentionBuffers.like(keys, self._decoder.ordered[0].heads, new)
        return self._attention[key]


def weight_of(linear: Any) -> Any:
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
