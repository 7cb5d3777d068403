"""The matrix products of a decode step, each with what surrounds it in one launch.

Tensors are contiguous; M, the tokens of the step, is 1 to 16; activations and full weights are bfloat16, float16 or
float32 of one dtype. Nothing here waits for the device, and nothing but `out` is allocated. Numerics:
`matrix_vector`.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from engines.kernels.packed_weight import FLOAT8, FULL, PackedWeight, Product, Tiling, default_tiling

Weight = torch.Tensor | PackedWeight
"""[rows, columns] in full or packed."""

MOST_TOKENS = 16
"""Rows of the smallest tile that tensor cores multiply."""

chosen_tilings: dict[tuple[torch.device, Product], Tiling] = {}
"""What was measured in this process (`engines.kernels.tuning`); all other products take `default_tiling`."""


def norm_project(
    hidden: torch.Tensor,
    norm_weight: torch.Tensor,
    weight: Weight,
    eps: float,
    bias: torch.Tensor | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """RMS norm and product: hidden [M, W], weight [N, W] -> [M, N]. `out` is not `hidden`."""
    return launch(hidden, weight, norm=norm_weight, eps=eps, bias=bias, out=out)


def project_add(
    inputs: torch.Tensor,
    weight: Weight,
    residual: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Product and sum: inputs [M, K], weight [N, K], residual [M, N] -> [M, N]. `out` may be `residual`."""
    return launch(inputs, weight, residual=residual, bias=bias, out=out)


def norm_gate_up(
    hidden: torch.Tensor,
    norm_weight: torch.Tensor,
    weight: Weight,
    eps: float,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """RMS norm, both products and SiLU(gate) · up: hidden [M, W], weight [2 · I, W], gate's rows first -> [M, I]."""
    return launch(hidden, weight, norm=norm_weight, eps=eps, is_gated=True, out=out)


def product_of(tokens: int, weight: Weight, dtype: torch.dtype, *, is_gated: bool = False) -> Product:
    rows, columns = weight.shape
    bits = weight.bits if isinstance(weight, PackedWeight) else FULL
    padded = 1 if tokens == 1 else MOST_TOKENS
    return Product(padded, rows // 2 if is_gated else rows, columns, dtype.itemsize, bits, is_gated)


def tiling_of(product: Product, device: torch.device) -> Tiling:
    return chosen_tilings.get((device, product)) or default_tiling(product)


def launch(
    inputs: torch.Tensor,
    weight: Weight,
    *,
    norm: torch.Tensor | None = None,
    eps: float = 0.0,
    residual: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    is_gated: bool = False,
    out: torch.Tensor | None = None,
    tiling: Tiling | None = None,
) -> torch.Tensor:
    """Any of the three above, by what is given; `tiling` is for those who look for the best one."""
    from engines.kernels import matrix_vector

    tokens = inputs.shape[0]
    if tokens > MOST_TOKENS:
        raise ValueError(f"{tokens} tokens at once; the kernels take up to {MOST_TOKENS}")
    product = product_of(tokens, weight, inputs.dtype, is_gated=is_gated)
    tiling = tiling or tiling_of(product, inputs.device)
    if out is None:
        out = inputs.new_empty(tokens, product.rows)
    data, scales = (weight.data, weight.scales) if isinstance(weight, PackedWeight) else (weight, None)
    kernel = matrix_vector.one_token if tokens == 1 else matrix_vector.several_tokens
    with launching_on(inputs.device):
        kernel[(-(-product.rows // tiling.rows),)](
            inputs,
            norm,
            data,
            scales,
            bias,
            residual,
            out,
            tokens,
            product.rows,
            eps,
            COLUMNS=product.columns,
            BITS=FULL if product.bits == FLOAT8 else product.bits,
            NORMED=norm is not None,
            GATED=is_gated,
            BIASED=bias is not None,
            ADDED=residual is not None,
            BLOCK_ROWS=tiling.rows,
            BLOCK_COLUMNS=tiling.columns,
            STAGES=tiling.stages,
            num_warps=tiling.warps,
        )
    return out


def launching_on(device: torch.device) -> Any:
    """Makes a device the current one, on which Triton launches."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
