"""Weights of a Linear in eight or four bits, as our kernels read them, and whether the kernels can run.

Packed weights take 1.001 and 0.516 bytes each. 8-bit floats are e4m3 (arXiv 2209.05433), with a scale for each row.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from engines.kernels.tilings import FLOAT8, GROUP, INT4, INT8, row_bytes

INTERPRETER = "TRITON_INTERPRET"
"""The variable that makes Triton compute on a CPU; Triton reads it when it is imported."""


def is_interpreted() -> bool:
    """Whether kernels are interpreted on a CPU: right, and thousands of times slower. Only for tests."""
    return os.environ.get(INTERPRETER, "") == "1"


def kernels_problem(device: torch.device) -> str:
    """Why the kernels cannot run on a device, without a full stop; "" where they can."""
    if device.type != "cuda" and not is_interpreted():
        return f"its kernels need a CUDA device, and the model is on {device}"
    try:
        importlib.import_module("triton")
    except (ImportError, OSError, RuntimeError):
        return "Triton, in which its kernels are written, is not installed"
    return ""


LARGEST_FLOAT8 = 448.0
"""Of float8_e4m3fn, which has no infinity."""

_HALF = GROUP // 2
_ROWS = 1024
"""Rows packed at once: a large matrix in float32 would be twice itself."""


@dataclass(frozen=True)
class PackedWeight:
    """A matrix [rows, columns]; symmetric, zero is zero.

    Eight bits: `data` uint8, a byte a column, holds the number plus 128; `scales` float32 [rows]. Four bits: `data`
    uint8, `scales` bfloat16 [rows, groups] for groups of 128 columns; byte i of a group holds its column i in the lower
    half and column 64 + i in the upper one, each as its number plus 8. Rows are filled up with zeros, to 16 columns or
    to a group. FLOAT8: `data` float8_e4m3fn [rows, columns], `scales` float32 [rows].
    """

    data: torch.Tensor
    scales: torch.Tensor
    columns: int
    bits: int

    @classmethod
    def of(cls, weight: torch.Tensor, bits: int) -> PackedWeight:
        """Packs [rows, columns] as INT8, INT4 or FLOAT8, to the nearest number each."""
        pack = {INT8: _eight_bits, INT4: _four_bits, FLOAT8: float8_rows}[bits]
        parts = [pack(part.float()) for part in weight.detach().split(_ROWS)]
        data, scales = (torch.cat(each) for each in zip(*parts, strict=True))
        return cls(data, scales, weight.shape[1], bits)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix that is meant."""
        return self.data.shape[0], self.columns

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.scales.nbytes

    def unpacked(self, dtype: torch.dtype) -> torch.Tensor:
        """The matrix that is multiplied with, [rows, columns]."""
        numbers = unpacked_numbers(self.data, self.scales, self.columns, self.bits, dtype)
        return numbers if self.bits == INT4 else numbers * self.scales[:, None].to(dtype)


def unpacked_numbers(
    data: torch.Tensor, scales: torch.Tensor, columns: int, bits: int, dtype: torch.dtype
) -> torch.Tensor:
    """[rows, columns] in `dtype`: in eight bits without the rows' scales, which belong to the product as well."""
    if bits == FLOAT8:
        return data.to(dtype)
    if bits == INT8:
        return data[:, :columns].to(dtype).sub_(128)
    halves = data.unflatten(1, (-1, _HALF))
    numbers = torch.cat([halves & 15, halves >> 4], dim=2).to(dtype).sub_(8).mul_(scales[..., None])
    return numbers.flatten(1)[:, :columns]


def float8_rows(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, columns] -> the same over `scales` as float8_e4m3fn, and `scales` float32 [rows]."""
    scales = (values.abs().amax(1).float() / LARGEST_FLOAT8).clamp_min(torch.finfo(torch.float32).tiny)
    return (values / scales[:, None]).clamp_(-LARGEST_FLOAT8, LARGEST_FLOAT8).to(torch.float8_e4m3fn), scales


def _eight_bits(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scales = (values.abs().amax(1) / 127).clamp_min(torch.finfo(torch.float32).tiny)
    numbers = values.div(scales[:, None]).round_().add_(128)
    return F.pad(numbers, (0, row_bytes(values.shape[1], INT8) - values.shape[1]), value=128).to(torch.uint8), scales


def _four_bits(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = values.shape
    width = row_bytes(columns, INT4)
    groups = F.pad(values, (0, 2 * width - columns)).view(rows, -1, GROUP)
    # The largest becomes -8: all sixteen numbers are used, and only what is opposite and as large is cut to 7.
    largest = groups.gather(2, groups.abs().argmax(2, keepdim=True))
    scales = (largest / -8).to(torch.bfloat16)
    inverse = torch.where(scales == 0, 0.0, 1 / scales.float())
    numbers = (groups * inverse).round_().clamp_(-8, 7).add_(8).to(torch.uint8)
    return (numbers[..., :_HALF] | numbers[..., _HALF:] << 4).view(rows, width), scales.squeeze(2)
