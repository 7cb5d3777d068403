"""What surrounds the products of many positions, as one Triton kernel each: add with RMS norm, SiLU · up, and rows as
floats of eight bits.

Tensors are contiguous and of one dtype; sums are float32. The matrix products around them are PyTorch's.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from engines.kernels.packed_weight import LARGEST_FLOAT8

_BLOCK = 1024


def add_norm(
    hidden: torch.Tensor, update: torch.Tensor, norm_weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """`hidden` [..., W] + `update` [..., W] -> the sum, and its RMS norm."""
    width = hidden.shape[-1]
    total, normed = torch.empty_like(hidden), torch.empty_like(hidden)
    block = triton.next_power_of_2(width)
    _add_norm[(hidden.numel() // width,)](
        hidden, update, norm_weight, total, normed, eps, width=width, block=block, num_warps=8 if block > _BLOCK else 4
    )
    return total, normed


def silu_product(gate_up: torch.Tensor) -> torch.Tensor:
    """[..., 2 · I], gate first -> SiLU(gate) · up [..., I]."""
    width = gate_up.shape[-1] // 2
    gated = gate_up.new_empty(*gate_up.shape[:-1], width)
    _silu_product[(gated.numel() // width, triton.cdiv(width, _BLOCK))](
        gate_up, gated, width=width, block=_BLOCK, num_warps=4
    )
    return gated


def quantize_rows(states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As `engines.kernels.packed_weight.float8_rows`."""
    rows, width = states.shape
    numbers, scales = (
        states.new_empty(rows, width, dtype=torch.float8_e4m3fn),
        states.new_empty(rows, dtype=torch.float32),
    )
    _quantize_rows[(rows,)](
        states,
        numbers,
        scales,
        largest=LARGEST_FLOAT8,
        width=width,
        block=triton.next_power_of_2(width),
        num_warps=8,
    )
    return numbers, scales


@triton.jit
def _quantize_rows(states, numbers, scales, largest: tl.constexpr, width: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    inside = columns < width
    values = tl.load(states + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(values), 0) / largest, 1.1754944e-38)
    tl.store(scales + row, scale)
    values = tl.minimum(tl.maximum(values / scale, -largest), largest)
    tl.store(numbers + row * width + columns, values.to(numbers.dtype.element_ty), mask=inside)


@triton.jit
def _add_norm(hidden, update, norm, total, normed, eps, width: tl.constexpr, block: tl.constexpr):
    """One row. The norm is that of the rounded sum, which the next layer reads."""
    columns = tl.arange(0, block)
    inside = columns < width
    places = tl.program_id(0).to(tl.int64) * width + columns
    sums = tl.load(hidden + places, mask=inside, other=0.0).to(tl.float32)
    sums += tl.load(update + places, mask=inside, other=0.0).to(tl.float32)
    rounded = sums.to(total.dtype.element_ty)
    tl.store(total + places, rounded, mask=inside)
    values = rounded.to(tl.float32)
    scaled = values * tl.rsqrt(tl.sum(values * values, 0) / width + eps)
    scaled *= tl.load(norm + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(normed + places, scaled.to(normed.dtype.element_ty), mask=inside)


@triton.jit
def _silu_product(gate_up, gated, width: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    inside = columns < width
    gate = tl.load(gate_up + row * 2 * width + columns, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + (row * 2 + 1) * width + columns, mask=inside, other=0.0).to(tl.float32)
    product = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(gated + row * width + columns, product.to(gated.dtype.element_ty), mask=inside)
