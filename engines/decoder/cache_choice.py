"""Which KV cache a kind means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from engines.decoder.kv_cache import DYNAMIC, STATIC, DynamicKv, KvCache, StaticKv
from engines.decoder.quantized_kv import FP8, QUANTIZED, Fp8Kv, HqqKv

if TYPE_CHECKING:
    from transformers import LlamaConfig


def make_cache(
    kind: str,
    config: LlamaConfig,
    *,
    capacity: int,
    batch: int = 1,
    device: torch.device,
    dtype: torch.dtype,
) -> KvCache:
    """An empty cache of a kind; `capacity` is what a static or fp8 one sets aside.

    Raises UserError when the kind's library is missing.
    """
    if kind == DYNAMIC:
        return DynamicKv(config.num_hidden_layers)
    if kind == STATIC:
        return StaticKv(config, capacity, batch=batch, device=device, dtype=dtype)
    if kind == FP8:
        return Fp8Kv(config, capacity, batch=batch, device=device, dtype=dtype)
    if kind in QUANTIZED:
        return HqqKv(kind, config, dtype=dtype)
    raise ValueError(f"unknown kind of cache: {kind}")
