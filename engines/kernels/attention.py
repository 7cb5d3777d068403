"""Rotation, cache write and attention of a decode step, as Triton kernels that read the position from the device.

Attention is split over the positions (Flash-Decoding): a program takes one head of keys and a share of what the cache
holds, with all rows of the heads that share those keys, and leaves an average and the log-sum-exp of its scores; a
second kernel weighs the averages (arXiv 2205.14135, section 3.1). The grid is fixed, the shares follow from the
length on the device, and so one captured graph serves every length up to the cache's capacity.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

MOST_POSITIONS = 16
"""New positions of one pass."""

HEAD_SIZES = tuple(range(16, 129, 16))
"""Head sizes the kernels are written for."""

GRAIN = 16
"""A share of the cache is a multiple of so many positions."""

_PROGRAMS_PER_PROCESSOR = 2
_MOST_SPLITS = 64
_MOST_ROWS = 64
_LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class AttentionBuffers:
    """What the kernels write for M new positions of H heads, so that a pass sets nothing aside.

    `queries` [M, H, D] are rotated; `parts` [M·H, splits, D] and `weights` [M·H, splits], in float32, are the averages
    of the shares and the base-2 log-sum-exps of their scores; `attended` [M, H·D] is the result.
    """

    queries: torch.Tensor
    parts: torch.Tensor
    weights: torch.Tensor
    attended: torch.Tensor

    @classmethod
    def like(cls, keys: torch.Tensor, heads: int, new: int, *, splits: int | None = None) -> AttentionBuffers:
        """For a cache's keys [1, kv_heads, capacity, D] and `new` positions; `splits` as suits the device."""
        _, kv_heads, capacity, width = keys.shape
        splits = splits or splits_for(kv_heads, capacity, _processors(keys.device))
        return cls(
            keys.new_empty(new, heads, width),
            keys.new_empty(new * heads, splits, width, dtype=torch.float32),
            keys.new_empty(new * heads, splits, dtype=torch.float32),
            keys.new_empty(new, heads * width),
        )


def splits_for(kv_heads: int, capacity: int, processors: int) -> int:
    """Shares of a cache: as many as keep every processor at work, none of which is smaller than a grain when full."""
    wanted = _PROGRAMS_PER_PROCESSOR * processors // kv_heads
    return max(1, min(wanted, capacity // GRAIN, _MOST_SPLITS))


def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def rotate_and_write(
    states: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    start: torch.Tensor,
    depths: torch.Tensor,
    *,
    keys: torch.Tensor,
    values: torch.Tensor,
    queries: torch.Tensor,
) -> None:
    """Rotates queries and keys of a layer and writes keys and values into its cache.

    `states` [M, (H + 2·kv_heads)·D] is the product of the fused projection; `cos` and `sin` [positions, D], the sine
    signed (see `engines.decoder.llama.RotaryTable`). New position i lies at `start` [1] + i in the cache `keys` and
    `values` [1, kv_heads, capacity, D] and is rotated as `start` + `depths`[i]; both are integers on the device.
    `queries` [M, H, D] is filled. What would lie past the capacity is not written.
    """
    new, heads, width = queries.shape
    kv_heads, capacity = keys.shape[1], keys.shape[2]
    # A decode step needs many programs, a prefill large ones.
    block_new = 1 if new <= MOST_POSITIONS else 16
    _rotate_and_write[(triton.cdiv(new, block_new), heads + 2 * kv_heads)](
        states,
        cos,
        sin,
        start,
        depths,
        keys,
        values,
        queries,
        new,
        capacity,
        heads=heads,
        kv_heads=kv_heads,
        width=width,
        block_new=block_new,
        block_width=triton.next_power_of_2(width),
        num_warps=1 if block_new == 1 else 4,
    )


def attend_to_cache(
    keys: torch.Tensor, values: torch.Tensor, start: torch.Tensor, seen: torch.Tensor, buffers: AttentionBuffers
) -> torch.Tensor:
    """Attention of M new positions over the cache that holds them already -> `buffers.attended` [M, H·D].

    `keys` and `values` [1, kv_heads, capacity, D]; `start` [1] is how many positions came before, all of which are
    seen; of the new ones position i sees j where bit j of `seen`[i] (int32) is set. `buffers.queries` are the rotated
    queries. Two launches, whatever the length.
    """
    queries = buffers.queries
    new, heads, width = queries.shape
    kv_heads, capacity = keys.shape[1], keys.shape[2]
    splits = buffers.parts.shape[1]
    rows = new * heads // kv_heads
    block_rows = min(max(16, triton.next_power_of_2(rows)), _MOST_ROWS)
    block_width = triton.next_power_of_2(width)
    is_wide = keys.dtype == torch.float32
    _attend_to_shares[(kv_heads, splits, triton.cdiv(rows, block_rows))](
        queries,
        keys,
        values,
        start,
        seen,
        buffers.parts,
        buffers.weights,
        new,
        capacity,
        _LOG2_E * width**-0.5,
        heads=heads,
        kv_heads=kv_heads,
        width=width,
        splits=splits,
        grain=GRAIN,
        block_rows=block_rows,
        block_keys=16 if is_wide else 64,
        block_width=block_width,
        num_warps=8 if is_wide else 4,
        num_stages=3,
    )
    _weigh_shares[(new * heads,)](
        buffers.parts,
        buffers.weights,
        start,
        buffers.attended,
        new,
        width=width,
        splits=splits,
        grain=GRAIN,
        block_splits=triton.next_power_of_2(splits),
        block_width=block_width,
        num_warps=4,
    )
    return buffers.attended


@triton.jit(do_not_specialize=["count", "capacity"])
def _rotate_and_write(
    states,
    cos,
    sin,
    start,
    depths,
    keys,
    values,
    queries,
    count,
    capacity,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    width: tl.constexpr,
    block_new: tl.constexpr,
    block_width: tl.constexpr,
):
    """One head of a block of the `count` new positions: a query, a key or a value."""
    new = tl.program_id(0) * block_new + tl.arange(0, block_new)
    head = tl.program_id(1)
    is_new = new < count
    place = tl.load(start).to(tl.int64) + new
    columns = tl.arange(0, block_width)[None, :]
    inside = is_new[:, None] & (columns < width)
    own = states + (new.to(tl.int64)[:, None] * (heads + 2 * kv_heads) + head) * width
    state = tl.load(own + columns, mask=inside, other=0.0).to(tl.float32)
    if head < heads + kv_heads:
        # Rotating halves is reading half a head further on, once the sine carries the sign.
        half: tl.constexpr = width // 2
        across = tl.load(own + (columns + half) % width, mask=inside, other=0.0).to(tl.float32)
        rotated = tl.load(start) + tl.load(depths + new, mask=is_new, other=0)
        angle = rotated[:, None] * width + columns
        state = state * tl.load(cos + angle, mask=inside, other=0.0).to(tl.float32)
        state += across * tl.load(sin + angle, mask=inside, other=0.0).to(tl.float32)
    held = inside & (place < capacity)[:, None]
    if head < heads:
        row = queries + (new.to(tl.int64)[:, None] * heads + head) * width
        tl.store(row + columns, state.to(queries.dtype.element_ty), mask=inside)
    elif head < heads + kv_heads:
        row = keys + ((head - heads) * capacity + place)[:, None] * width
        tl.store(row + columns, state.to(keys.dtype.element_ty), mask=held)
    else:
        row = values + ((head - heads - kv_heads) * capacity + place)[:, None] * width
        tl.store(row + columns, state.to(values.dtype.element_ty), mask=held)


@triton.jit
def _share_of(length, splits: tl.constexpr, grain: tl.constexpr):
    """Positions of one share, so that `splits` of them hold `length`."""
    return tl.cdiv(tl.cdiv(length, splits), grain) * grain


@triton.jit(do_not_specialize=["new", "capacity"])
def _attend_to_shares(
    queries,
    keys,
    values,
    start,
    seen,
    parts,
    weights,
    new,
    capacity,
    scale,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    width: tl.constexpr,
    splits: tl.constexpr,
    grain: tl.constexpr,
    block_rows: tl.constexpr,
    block_keys: tl.constexpr,
    block_width: tl.constexpr,
):
    """One head of keys and one share of its positions, for the rows of all heads that share them.

    Row r is new position r // shared of head r % shared. Rows that see nothing of the share leave a weight of -inf.
    """
    kv_head, split = tl.program_id(0), tl.program_id(1)
    before = tl.load(start).to(tl.int32)
    length = before + new
    share = _share_of(length, splits, grain)
    first = split * share
    if first >= length:
        return
    last = tl.minimum(first + share, length)
    shared: tl.constexpr = heads // kv_heads
    rows = tl.program_id(2) * block_rows + tl.arange(0, block_rows)
    is_row = rows < new * shared
    position = rows // shared
    row = position * heads + kv_head * shared + rows % shared
    columns = tl.arange(0, block_width)
    is_column = columns < width
    is_cell = is_row[:, None] & is_column[None, :]
    asked = tl.load(queries + row[:, None] * width + columns[None, :], mask=is_cell, other=0.0)
    bits = tl.load(seen + position, mask=is_row, other=0)
    highest = tl.full([block_rows], float("-inf"), tl.float32)
    total = tl.zeros([block_rows], tl.float32)
    average = tl.zeros([block_rows, block_width], tl.float32)
    head_start = kv_head.to(tl.int64) * capacity * width
    for begin in range(first, last, block_keys):
        places = begin + tl.arange(0, block_keys)
        is_held = places < last
        across = head_start + columns[:, None] + places[None, :] * width
        key = tl.load(keys + across, mask=is_column[:, None] & is_held[None, :], other=0.0)
        scores = tl.dot(asked, key, input_precision="ieee") * scale
        # What came before the block is seen by all; a bit says it of every position within.
        ahead = places - before
        bit = (bits[:, None] >> tl.minimum(tl.maximum(ahead, 0), 31)[None, :]) & 1
        is_seen = ((ahead < 0)[None, :] | (bit != 0)) & is_held[None, :]
        scores = tl.where(is_seen, scores, float("-inf"))
        now = tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(now == float("-inf"), 0.0, now)
        chances = tl.exp2(scores - base[:, None])
        fading = tl.exp2(highest - base)
        along = head_start + places[:, None] * width + columns[None, :]
        value = tl.load(values + along, mask=is_held[:, None] & is_column[None, :], other=0.0)
        average = average * fading[:, None] + tl.dot(chances.to(value.dtype), value, input_precision="ieee")
        total = total * fading + tl.sum(chances, 1)
        highest = now
    total = tl.where(total > 0, total, 1.0)
    tl.store(weights + row * splits + split, highest + tl.log2(total), mask=is_row)
    cells = parts + (row * splits + split)[:, None] * width + columns[None, :]
    tl.store(cells, average / total[:, None], mask=is_cell)


@triton.jit(do_not_specialize=["new"])
def _weigh_shares(
    parts,
    weights,
    start,
    attended,
    new,
    width: tl.constexpr,
    splits: tl.constexpr,
    grain: tl.constexpr,
    block_splits: tl.constexpr,
    block_width: tl.constexpr,
):
    """One row: the averages of the shares in use, each weighed by its part of all exponentials."""
    row = tl.program_id(0)
    length = tl.load(start).to(tl.int32) + new
    used = tl.cdiv(length, _share_of(length, splits, grain))
    split = tl.arange(0, block_splits)
    is_used = split < used
    weight = tl.load(weights + row * splits + split, mask=is_used, other=float("-inf"))
    weight = tl.exp2(weight - tl.max(weight, 0))
    columns = tl.arange(0, block_width)
    cells = parts + (row * splits + split)[:, None] * width + columns[None, :]
    part = tl.load(cells, mask=is_used[:, None] & (columns < width)[None, :], other=0.0)
    average = tl.sum(part * weight[:, None], 0) / tl.sum(weight, 0)
    tl.store(attended + row * width + columns, average.to(attended.dtype.element_ty), mask=columns < width)
