"""A forward pass whose shapes do not depend on the position: what a CUDA graph can hold.

The position is a number on the device. Keys and values are written by index; every pass looks at a bucket of the
cache: a `front` that all new positions see whole, and after it a window in which a mask says what is seen. The two
parts are computed apart and joined by their log-sum-exps (arXiv 2205.14135), so the front, where nearly all keys are,
needs no mask and goes to the flash kernel, which splits it over the processors. It knows no graphs, and takes one row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engines.decoder.attention import FLASH, SDPA, attend
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import LlamaDecoder

STRIDE = 512
"""Positions from one bucket to the next."""

_ALIGNED = 16
"""Masks whose rows are so long need no padding by the kernels that take them."""


@dataclass(frozen=True)
class Bucket:
    """`front` positions seen whole, then a window of `window` positions under a mask."""

    front: int
    window: int

    @property
    def end(self) -> int:
        return self.front + self.window


def bucket_of(start: int, new: int, capacity: int) -> Bucket:
    """The bucket for `new` positions from `start` on, in a cache of `capacity`; it holds until the next STRIDE."""
    front = start // STRIDE * STRIDE
    window = -(-(STRIDE + new) // _ALIGNED) * _ALIGNED
    return Bucket(front, min(window, capacity - front))


def bucket_states(
    decoder: LlamaDecoder, ids: torch.Tensor, start: torch.Tensor, cache: StaticKv, bucket: Bucket
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids [1, S] at positions `start` [1] (int64, on the device) onward -> logits [1, S, V] and last hidden
    states [1, S, hidden] before the last norm. Writes into the cache; the caller counts and reaches the rotary
    positions."""
    places = start + torch.arange(ids.shape[1], device=ids.device)
    cos, sin = decoder.rotary.cos.index_select(0, places), decoder.rotary.sin.index_select(0, places)
    is_joined, end = decoder.attention in (SDPA, FLASH), bucket.end
    front = bucket.front if is_joined else 0
    mask = (torch.arange(front, end, device=places.device) <= places[:, None])[None, None]

    def over_bucket(index: int, queries: torch.Tensor, new: torch.Tensor, values_new: torch.Tensor) -> torch.Tensor:
        keys, values = cache.keys[index], cache.values[index]
        keys.index_copy_(2, places, new)
        values.index_copy_(2, places, values_new)
        if is_joined:
            return joined_attention(queries, keys, values, mask, bucket)
        return attend(queries, keys[:, :, :end], values[:, :, :end], mask, is_causal=False, kind=decoder.attention)

    hidden = decoder.run_layers(decoder.embed(ids), cos, sin, over_bucket)
    return decoder.head(hidden), hidden


def joined_attention(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, bucket: Bucket
) -> torch.Tensor:
    """Queries [B, H, S, D] over a cache's keys and values [B, kv_heads, capacity, D] -> [B, H, S, D]. `mask` [1, 1, S,
    window] covers the window. Heads that share keys become rows of one head."""
    batch, heads, new, width = queries.shape
    kv_heads = keys.shape[1]
    shared = heads // kv_heads
    rows = queries.reshape(batch, kv_heads, shared * new, width)
    window = slice(bucket.front, bucket.end)
    seen = mask.repeat(1, 1, shared, 1) if shared > 1 else mask
    scores = _scores(rows, keys[:, :, window]).masked_fill(~seen, -torch.inf)
    found = _weighed(scores, values[:, :, window])
    if bucket.front > 0:
        far, far_weight = _whole_part(rows, keys[:, :, : bucket.front], values[:, :, : bucket.front])
        # Softmax over both parts is each part's own, weighted by its share of the exponentials' sum.
        share = torch.sigmoid(far_weight - scores.logsumexp(dim=-1)).unsqueeze(-1)
        found = torch.lerp(found, far, share)
    return found.to(queries.dtype).view(batch, heads, new, width)


def _whole_part(rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Unmasked attention and its log-sum-exp: [B, h, R, D] and [B, h, R], float32; by the flash kernel in half
    precision on CUDA."""
    if rows.is_cuda and rows.dtype in (torch.float16, torch.bfloat16) and rows.shape[-1] % 8 == 0:
        found: list[torch.Tensor] = torch.ops.aten._scaled_dot_product_flash_attention(rows, keys, values)[:2]
        return found[0].float(), found[1].float()[..., : rows.shape[2]]
    scores = _scores(rows, keys)
    return _weighed(scores, values), scores.logsumexp(dim=-1)


def _scores(rows: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Rounded to bfloat16, a score of 10 would be off by up to 0.03, and its weight by 3 %."""
    scores: torch.Tensor = _product(rows, keys.transpose(-1, -2)) * rows.shape[-1] ** -0.5
    return scores


def _weighed(scores: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return _product(scores.softmax(dim=-1).to(values.dtype), values)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """[B, h, R, K] @ [B, h, K, C], added up and kept in float32 without a copy of what CUDA reads in half precision."""
    if left.is_cuda and left.dtype != torch.float32:
        flat = torch.bmm(left.flatten(0, 1), right.flatten(0, 1), out_dtype=torch.float32)
        return flat.view(*left.shape[:2], *flat.shape[1:])
    return left.float() @ right.float()
