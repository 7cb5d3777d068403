"""A Linear whose weights are kept in eight or four bits and read by our own kernels where these run.

Up to 16 rows on a CUDA device go to them, eager, captured or compiled. More rows are multiplied with the matrix as it
is unpacked for the moment. A prefill over floats of eight bits is multiplied as such floats.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from engines.kernels.availability import kernels_problem
from engines.kernels.packed_weight import PackedWeight, float8_rows, unpacked_numbers
from engines.kernels.projections import MOST_TOKENS, launch, launching_on
from engines.kernels.tilings import FLOAT8, INT4

_LEAST_FLOAT8_ROWS = 128
"""Fewer may be a verified block, which must round as single steps do: its inputs stay as they are."""


class PackedLinear(nn.Module):
    """[..., columns] -> [..., rows], on the device and in the dtype of the Linear it was packed from."""

    def __init__(self, weight: PackedWeight, bias: nn.Parameter | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.bits = weight.bits
        self.weight = nn.Parameter(weight.data, requires_grad=False)
        self.scales = nn.Parameter(weight.scales, requires_grad=False)
        self.bias = bias
        # Tensor cores take such floats by 16.
        self._multiplies_float8 = weight.bits == FLOAT8 and not any(size % 16 for size in weight.shape)
        self._has_kernel = tuple(not kernels_problem(torch.device(kind)) for kind in ("cpu", "cuda"))

    @classmethod
    def of(cls, linear: nn.Linear, bits: int, device: torch.device) -> PackedLinear:
        """Packed on the device that keeps it."""
        moved = linear.to(device)
        return cls(PackedWeight.of(moved.weight, bits), moved.bias)

    @property
    def packed(self) -> PackedWeight:
        """The weight as kernels take it."""
        return PackedWeight(self.weight, self.scales, self.in_features, self.bits)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[..., columns] -> [..., rows]."""
        if self._has_kernel[inputs.is_cuda] and inputs.numel() <= MOST_TOKENS * self.in_features:
            multiply = _few_rows_compiled if torch.compiler.is_compiling() else _few_rows
            return multiply(inputs, self.weight, self.scales, self.bias, self.bits)
        if self._multiplies_float8 and inputs.numel() >= _LEAST_FLOAT8_ROWS * self.in_features:
            multiplied = self._float8_product(inputs.reshape(-1, self.in_features).contiguous()).to(inputs.dtype)
            product = multiplied.view(*inputs.shape[:-1], self.out_features)
            return product if self.bias is None else product + self.bias
        numbers = unpacked_numbers(self.weight, self.scales, self.in_features, self.bits, inputs.dtype)
        if self.bits != INT4 and inputs.dtype != torch.float16:
            product = (F.linear(inputs, numbers) * self.scales).to(inputs.dtype)
            return product if self.bias is None else product + self.bias
        if self.bits != INT4:
            # Sums of numbers up to 127 or 448 could leave what float16 holds.
            numbers.mul_(self.scales[:, None])
        return F.linear(inputs, numbers, self.bias)

    def _float8_product(self, inputs: torch.Tensor) -> torch.Tensor:
        """[M, columns] -> [M, rows] in bfloat16, the only dtype in which GPUs add up scaled rows."""
        if self._has_kernel[inputs.is_cuda] and not torch.compiler.is_compiling():
            from engines.kernels.elementwise import quantize_rows

            with launching_on(inputs.device):
                numbers, scales = quantize_rows(inputs)
        else:
            numbers, scales = float8_rows(inputs)
        return torch._scaled_mm(
            numbers, self.weight.t(), scales[:, None], self.scales[None], out_dtype=torch.bfloat16, use_fast_accum=True
        )


def _few_rows(
    inputs: torch.Tensor, data: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int
) -> torch.Tensor:
    columns = inputs.shape[-1]
    states = launch(inputs.reshape(-1, columns), PackedWeight(data, scales, columns, bits), bias=bias)
    return states.view(*inputs.shape[:-1], data.shape[0])


_few_rows_compiled = torch.library.custom_op("evprof::few_rows", _few_rows, mutates_args=())
"""The same as one operation to torch.compile, which does not look into it."""


@_few_rows_compiled.register_fake
def _(
    inputs: torch.Tensor, data: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None, bits: int
) -> torch.Tensor:
    return inputs.new_empty(*inputs.shape[:-1], data.shape[0])
