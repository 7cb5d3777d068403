"""A forward pass whose shapes do not depend on the position: what a CUDA graph can hold.

The position is a number on the device. Keys and values are written by index; every pass looks at a bucket of the
cache: a `front` that all new positions see whole, and after it a window in which a mask says what is seen. The two
parts are computed apart and joined by their log-sum-exps (arXiv 2205.14135), so the front, where nearly all keys are,
needs no mask and goes to the flash kernel, which splits it over the processors. It knows no graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from engines.decoder.attention import EAGER, attend
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import LlamaDecoder, LlamaLayer

LayerPass = Callable[..., torch.Tensor]
HeadPass = Callable[[LlamaDecoder, torch.Tensor], torch.Tensor]

STRIDE = 512
"""Positions from one bucket to the next."""

_ALIGNED = 16
"""Masks whose rows are so long need no padding by the kernels that take them."""

JOINED, MASKED = "joined", "masked"
"""Front and window apart, or one masked attention over both."""


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
    decoder: LlamaDecoder,
    ids: torch.Tensor,
    start: torch.Tensor,
    cache: StaticKv,
    bucket: Bucket,
    *,
    way: str = JOINED,
    layer_pass: LayerPass | None = None,
    head_pass: HeadPass | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids [B, S] at positions `start` [1] (int64, on the device) onward -> logits [B, S, V] and last hidden
    states [B, S, hidden] before the last norm. Writes into the cache; the caller counts and reaches the rotary
    positions. `way` is JOINED or MASKED; padded rows are MASKED. `layer_pass` and `head_pass` may be compiled."""
    new, padding, device = ids.shape[1], cache.padding, ids.device
    places = start + torch.arange(new, device=device)
    cos, sin = _rotation(decoder, places, padding)
    is_joined = way == JOINED and padding is None and decoder.attention != EAGER
    front = bucket.front if is_joined else 0
    mask = _mask(places, front, bucket.end, padding)
    hidden, run = decoder.embed(ids), layer_pass or layer_in_bucket
    kind = JOINED if is_joined else decoder.attention
    for layer, keys, values in zip(decoder.ordered, cache.keys, cache.values, strict=True):
        hidden = run(
            layer, hidden, cos, sin, keys=keys, values=values, places=places, mask=mask, front=front, kind=kind
        )
    return (head_pass or head_of)(decoder, hidden), hidden


def layer_in_bucket(
    layer: LlamaLayer,
    hidden: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *,
    keys: torch.Tensor,
    values: torch.Tensor,
    places: torch.Tensor,
    mask: torch.Tensor,
    front: int,
    kind: str,
) -> torch.Tensor:
    def over_bucket(_: int, queries: torch.Tensor, new: torch.Tensor, values_new: torch.Tensor) -> torch.Tensor:
        keys.index_copy_(2, places, new)
        values.index_copy_(2, places, values_new)
        if kind == JOINED:
            return joined_attention(queries, keys, values, mask, Bucket(front, mask.shape[-1]))
        end = mask.shape[-1]
        return attend(queries, keys[:, :, :end], values[:, :, :end], mask, is_causal=False, kind=kind)

    projected: torch.Tensor = layer(hidden, cos, sin, over_bucket, 0)
    return projected


def head_of(decoder: LlamaDecoder, hidden: torch.Tensor) -> torch.Tensor:
    """[B, S, hidden] -> logits [B, S, V]."""
    return decoder.head(hidden)


def _rotation(
    decoder: LlamaDecoder, places: torch.Tensor, padding: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    table = decoder.rotary
    if padding is None:
        return table.cos.index_select(0, places), table.sin.index_select(0, places)
    own = (places - padding[:, None]).clamp(min=0)
    return table.cos[own].unsqueeze(1), table.sin[own].unsqueeze(1)


def _mask(places: torch.Tensor, first: int, end: int, padding: torch.Tensor | None) -> torch.Tensor:
    """Which of the positions `first` to `end` each new one sees: [1 or B, 1, S, end - first]."""
    seen = torch.arange(first, end, device=places.device)
    mask = seen <= places[:, None]
    if padding is None:
        return mask[None, None]
    mask = mask & (seen >= padding[:, None, None]) | (seen == places[:, None])
    return mask[:, None]


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
    # inductor turns a product of one row into a sum, which reads half precision and forgets what it is to give.
    is_sum = torch.compiler.is_compiling() and left.shape[2] == 1
    if left.is_cuda and left.dtype != torch.float32 and not is_sum:
        flat = torch.bmm(left.flatten(0, 1), right.flatten(0, 1), out_dtype=torch.float32)
        return flat.view(*left.shape[:2], *flat.shape[1:])
    return left.float() @ right.float()


def attention_alone(
    queries: torch.Tensor, cache: StaticKv, places: torch.Tensor, bucket: Bucket, way: str
) -> torch.Tensor:
    """One layer's attention of a pass, for choosing between the two ways by the clock: [B, H, S, D]."""
    keys, values = cache.keys[0], cache.values[0]
    if way == JOINED:
        return joined_attention(queries, keys, values, _mask(places, bucket.front, bucket.end, None), bucket)
    mask = _mask(places, 0, bucket.end, None)
    shares = queries.shape[1] != keys.shape[1]
    return F.scaled_dot_product_attention(
        queries, keys[:, :, : bucket.end], values[:, :, : bucket.end], attn_mask=mask, enable_gqa=shares
    )
