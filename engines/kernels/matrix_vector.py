"""Triton's matrix products for one and for up to 16 tokens, with what surrounds them in a decoder layer.

Every program takes some rows of the weights and all of their columns, so each weight is read once and nothing is
added up between programs. Sums are float32. The scale of an RMS norm multiplies the product instead of its input: the
squares are summed in the loop that multiplies, and the input is read once. Importing this needs Triton.

Gated, the weights are [2 · ROWS, COLUMNS], gate first. BITS is 0 for all weights that are numbers of their own,
floats of eight bits included. Four bits: see `engines.kernels.packed_weight`.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["TOKENS"])
def one_token(
    inputs,
    norm,
    weight,
    scales,
    bias,
    residual,
    out,
    TOKENS,
    ROWS,
    eps,
    COLUMNS: tl.constexpr,
    BITS: tl.constexpr,
    NORMED: tl.constexpr,
    GATED: tl.constexpr,
    BIASED: tl.constexpr,
    ADDED: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """inputs [1, COLUMNS] -> out [1, ROWS]; every thread sums for itself, and all of them together once at the end."""
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    held = tl.minimum(rows, ROWS - 1).to(tl.int64)
    if BITS:
        sums, ups, squares = _sums_of_words(
            inputs, norm, weight, scales, held, ROWS, COLUMNS, BITS, NORMED, GATED, BLOCK_ROWS, BLOCK_COLUMNS, STAGES
        )
    else:
        sums, ups, squares = _sums_of_numbers(
            inputs, norm, weight, held, ROWS, COLUMNS, NORMED, GATED, BLOCK_ROWS, BLOCK_COLUMNS, STAGES
        )
    if NORMED:
        scale = tl.rsqrt(squares / COLUMNS + eps)
        sums *= scale
        ups *= scale
    if BITS != 4 and scales is not None:
        sums *= tl.load(scales + held)
        if GATED:
            ups *= tl.load(scales + ROWS + held)
    _store(sums[None, :], ups[None, :], rows, tl.arange(0, 1), TOKENS, ROWS, bias, residual, out, GATED, BIASED, ADDED)


@triton.jit
def _sums_of_numbers(
    inputs,
    norm,
    weight,
    rows,
    ROWS,
    COLUMNS: tl.constexpr,
    NORMED: tl.constexpr,
    GATED: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Products with rows [BLOCK_ROWS] of whole numbers or floats, with those `ROWS` further if gated; squares' sum."""
    begins = weight + rows[:, None] * COLUMNS
    up_begins = begins + ROWS.to(tl.int64) * COLUMNS
    sums = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS], tl.float32)
    ups = tl.zeros([BLOCK_ROWS, BLOCK_COLUMNS if GATED else 1], tl.float32)
    squares = tl.zeros([BLOCK_COLUMNS], tl.float32)
    for start in tl.range(0, COLUMNS, BLOCK_COLUMNS, num_stages=STAGES):
        columns = start + tl.arange(0, BLOCK_COLUMNS)
        inside = columns < COLUMNS
        tile = tl.load(begins + columns[None, :], mask=inside[None, :], other=0.0, eviction_policy="evict_first")
        values = tl.load(inputs + columns, mask=inside, other=0.0).to(tl.float32)
        if NORMED:
            squares += values * values
            values *= tl.load(norm + columns, mask=inside, other=0.0).to(tl.float32)
        sums += tile.to(tl.float32) * values[None, :]
        if GATED:
            tile = tl.load(up_begins + columns[None, :], mask=inside[None, :], other=0.0, eviction_policy="evict_first")
            ups += tile.to(tl.float32) * values[None, :]
    return tl.sum(sums, 1), tl.sum(ups, 1), tl.sum(squares, 0)


@triton.jit
def _sums_of_words(
    inputs,
    norm,
    weight,
    scales,
    rows,
    ROWS,
    COLUMNS: tl.constexpr,
    BITS: tl.constexpr,
    NORMED: tl.constexpr,
    GATED: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The same over packed rows, BLOCK_COLUMNS bytes at once, read as words of 32 bits in chunks of four words."""
    ROW_CHUNKS: tl.constexpr = (COLUMNS + 15) // 16 if BITS == 8 else (COLUMNS + 127) // 128 * 4
    CHUNKS: tl.constexpr = BLOCK_COLUMNS // 16
    words = weight.to(tl.pointer_type(tl.int32))
    begins = words + rows[:, None, None] * (ROW_CHUNKS * 4) + tl.arange(0, 4)[None, None, :]
    scale_begins = scales + rows[:, None] * (ROW_CHUNKS // 4)
    further = ROWS.to(tl.int64) * ROW_CHUNKS
    sums = tl.zeros([BLOCK_ROWS, CHUNKS], tl.float32)
    ups = tl.zeros([BLOCK_ROWS, CHUNKS if GATED else 1], tl.float32)
    squares = tl.zeros([CHUNKS, 16], tl.float32)
    for start in tl.range(0, ROW_CHUNKS, CHUNKS, num_stages=STAGES):
        chunks = start + tl.arange(0, CHUNKS)
        firsts = chunks * 16 if BITS == 8 else chunks // 4 * 128 + chunks % 4 * 16
        low, squares = _chunk(inputs, norm, firsts, squares, COLUMNS, NORMED)
        high = low
        if BITS == 4:
            high, squares = _chunk(inputs, norm, firsts + 64, squares, COLUMNS, NORMED)
        inside = chunks < ROW_CHUNKS
        places = begins + chunks[None, :, None] * 4
        groups = scale_begins + (chunks // 4)[None, :]
        sums += _products(places, groups, inside, low, high, BITS)
        if GATED:
            ups += _products(places + further * 4, groups + further // 4, inside, low, high, BITS)
    return tl.sum(sums, 1), tl.sum(ups, 1), tl.sum(tl.sum(squares, 1), 0)


@triton.jit
def _chunk(inputs, norm, firsts, squares, COLUMNS: tl.constexpr, NORMED: tl.constexpr):
    """16 inputs from each of `firsts` [chunks] on, times the norm's weight, and `squares` [chunks, 16] with theirs."""
    columns = firsts[:, None] + tl.arange(0, 16)[None, :]
    values = tl.load(inputs + columns, mask=columns < COLUMNS, other=0.0).to(tl.float32)
    if NORMED:
        squares += values * values
        values *= tl.load(norm + columns, mask=columns < COLUMNS, other=0.0).to(tl.float32)
    return values, squares


@triton.jit
def _products(places, groups, inside, low, high, BITS: tl.constexpr):
    """Products of words [rows, chunks, 4] with their inputs [chunks, 16], summed over each chunk."""
    words = tl.load(places, mask=inside[None, :, None], other=0, eviction_policy="evict_first")
    # With the bits of 2^23 set, each number below is one instruction away.
    upper = (words >> 16) | 0x4B000000
    words = words | 0x4B000000
    # Input 4j + q belongs to byte q of word j: split by the last bit of q, then by its first.
    even, odd = tl.split(tl.reshape(low, [low.shape[0], 4, 2, 2]))
    low_0, low_2 = tl.split(even)
    low_1, low_3 = tl.split(odd)
    total = _field(words, low_0, 0, BITS)
    total += _field(words, low_1, 8, BITS)
    total += _field(upper, low_2, 0, BITS)
    total += _field(upper, low_3, 8, BITS)
    if BITS == 8:
        return tl.sum(total, 2)
    even, odd = tl.split(tl.reshape(high, [high.shape[0], 4, 2, 2]))
    high_0, high_2 = tl.split(even)
    high_1, high_3 = tl.split(odd)
    total += _field(words, high_0, 4, BITS)
    total += _field(words, high_1, 12, BITS)
    total += _field(upper, high_2, 4, BITS)
    total += _field(upper, high_3, 12, BITS)
    return tl.sum(total, 2) * tl.load(groups, mask=inside[None, :], other=0.0).to(tl.float32)


@triton.jit
def _field(words, values, SHIFT: tl.constexpr, BITS: tl.constexpr):
    """The numbers at bit SHIFT of each word times `values` [chunks, 4].

    No conversion: a number's bits are the last ones of a float of 2^23, from which that is taken with the offset.
    """
    MASK: tl.constexpr = 0x4B000000 | ((1 << BITS) - 1) << SHIFT
    OFFSET: tl.constexpr = 8388608.0 + (1 << (BITS - 1 + SHIFT))
    numbers = (words & MASK).to(tl.float32, bitcast=True) - OFFSET
    return numbers * (values * (1.0 / (1 << SHIFT)))[None, :, :]


@triton.jit(do_not_specialize=["TOKENS"])
def several_tokens(
    inputs,
    norm,
    weight,
    scales,
    bias,
    residual,
    out,
    TOKENS,
    ROWS,
    eps,
    COLUMNS: tl.constexpr,
    BITS: tl.constexpr,
    NORMED: tl.constexpr,
    GATED: tl.constexpr,
    BIASED: tl.constexpr,
    ADDED: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """inputs [TOKENS, COLUMNS], TOKENS up to 16 -> out [TOKENS, ROWS], by tensor cores."""
    tokens = tl.arange(0, 16)
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    held = tl.minimum(rows, ROWS - 1).to(tl.int64)
    further = ROWS.to(tl.int64)
    sums = tl.zeros([16, BLOCK_ROWS], tl.float32)
    ups = tl.zeros([16, BLOCK_ROWS if GATED else 1], tl.float32)
    # Both halves of a packed byte have their inputs 64 columns apart; a tile of bytes is some groups with a scale each.
    PART: tl.constexpr = 64 if BITS == 4 else BLOCK_COLUMNS
    WIDTH: tl.constexpr = (
        COLUMNS if BITS == 0 else (COLUMNS + 15) // 16 * 16 if BITS == 8 else (COLUMNS + 127) // 128 * 64
    )
    squares = tl.zeros([16, PART], tl.float32)
    for tile in tl.range(0, WIDTH, BLOCK_COLUMNS, num_stages=STAGES):
        for part in tl.static_range(BLOCK_COLUMNS // PART):
            start = tile + part * PART
            begin = start * 2 if BITS == 4 else start
            low, squares = _normed(inputs, norm, begin, squares, tokens, TOKENS, COLUMNS, NORMED, PART)
            high = low
            if BITS == 4:
                high, squares = _normed(inputs, norm, begin + 64, squares, tokens, TOKENS, COLUMNS, NORMED, PART)
            sums = _added_product(sums, low, high, weight, scales, held, start, WIDTH, BITS, PART)
            if GATED:
                ups = _added_product(ups, low, high, weight, scales, held + further, start, WIDTH, BITS, PART)
    if NORMED:
        scale = tl.rsqrt(tl.sum(squares, 1) / COLUMNS + eps)
        sums *= scale[:, None]
        ups *= scale[:, None]
    if BITS != 4 and scales is not None:
        sums *= tl.load(scales + held)[None, :]
        if GATED:
            ups *= tl.load(scales + ROWS + held)[None, :]
    _store(sums, ups, rows, tokens, TOKENS, ROWS, bias, residual, out, GATED, BIASED, ADDED)


@triton.jit
def _normed(
    inputs,
    norm,
    begin,
    squares,
    tokens,
    TOKENS,
    COLUMNS: tl.constexpr,
    NORMED: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):
    """Inputs [16, BLOCK_COLUMNS] times the norm's weight in their own dtype, and `squares` with theirs."""
    columns = begin + tl.arange(0, BLOCK_COLUMNS)
    inside = columns < COLUMNS
    places = inputs + tokens[:, None] * COLUMNS + columns[None, :]
    taken = tl.load(places, mask=(tokens < TOKENS)[:, None] & inside[None, :], other=0.0)
    if NORMED:
        values = taken.to(tl.float32)
        squares += values * values
        values *= tl.load(norm + columns, mask=inside, other=0.0).to(tl.float32)[None, :]
        if inputs.dtype.element_ty == tl.float16:
            # The scale comes later: only now may a number exceed what float16 holds.
            values = tl.minimum(tl.maximum(values, -65504.0), 65504.0)
        taken = values.to(inputs.dtype.element_ty)
    return taken, squares


@triton.jit
def _added_product(
    sums, low, high, weight, scales, rows, start, WIDTH: tl.constexpr, BITS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr
):
    """`sums` [16, rows] and the products with one tile of the weights."""
    columns = start + tl.arange(0, BLOCK_COLUMNS)
    places = weight + rows[:, None] * WIDTH + columns[None, :]
    inside = (columns < WIDTH)[None, :]
    tile = tl.load(places, mask=inside, other=0 if BITS else 0.0, eviction_policy="evict_first")
    if BITS == 4:
        first = ((tile & 15).to(tl.float32) - 8.0).to(low.dtype)
        second = ((tile >> 4).to(tl.float32) - 8.0).to(low.dtype)
        product = tl.dot(low, tl.trans(first), input_precision="ieee")
        product = tl.dot(high, tl.trans(second), product, input_precision="ieee")
        scale = tl.load(scales + rows * (WIDTH // 64) + start // 64, mask=(rows >= 0) & (start < WIDTH), other=0.0)
        sums += product * scale.to(tl.float32)[None, :]
    else:
        if BITS == 8:
            tile = tile.to(tl.float32) - 128.0
        sums = tl.dot(low, tl.trans(tile.to(low.dtype)), sums, input_precision="ieee")
    return sums


@triton.jit
def _store(
    sums,
    ups,
    rows,
    tokens,
    TOKENS,
    ROWS,
    bias,
    residual,
    out,
    GATED: tl.constexpr,
    BIASED: tl.constexpr,
    ADDED: tl.constexpr,
):
    """Bias, SiLU · up or residual, and the only store: [tokens, rows]."""
    inside = (tokens < TOKENS)[:, None] & (rows < ROWS)[None, :]
    places = tokens[:, None] * ROWS + rows[None, :]
    if GATED:
        sums = sums / (1.0 + tl.exp(-sums)) * ups
    if BIASED:
        sums += tl.load(bias + rows, mask=rows < ROWS, other=0.0).to(tl.float32)[None, :]
    if ADDED:
        sums += tl.load(residual + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + places, sums.to(out.dtype.element_ty), mask=inside)
