"""Layers over many positions, such as a prefill: PyTorch's products and attention, and the rest in our own kernels.

Nine launches a layer instead of 17: norm, rotation with cache write, and SiLU with its product are one each.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from engines.decoder.llama import LlamaLayer, Look, RotaryTable, TakesStates
from engines.kernels.projections import launching_on
from evprof.core.errors import Cancelled
from evprof.core.protocols import StopFlag


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
    """States of positions from `start` on, [1, S, width] -> [1, S, width].

    `keys` and `values` [1, kv_heads, capacity, D] are the layers' parts of a static cache, which has room for them.
    `inputs` is given what enters each layer. Raises Cancelled when `stop` is set between two layers.
    """
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
