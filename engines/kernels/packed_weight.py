"""Weights of a Linear in eight or four bits, as our kernels read them, and whether the kernels can run.

How much of a matrix one program takes follows from its shape; `docs/decode-step.md` argues the numbers. A product with
few rows is one reading of the weights: it is as fast as its loads are wide, many and evenly spread.
Packed weights take 1.001 and 0.516 bytes each. 8-bit floats are e4m3 (arXiv 2209.05433), with a scale for each row.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F

GROUP = 128
"""Weights in four bits that share a scale."""

FULL, INT8, INT4, FLOAT8 = 0, 8, 4, 1
"""How weights are held: in the activations' dtype, in so many bits, or (FLOAT8) as floats of eight bits."""

MULTIPROCESSORS = 132
"""Of an H100 or H200; an A100 has 108."""

_TILE_BYTES = 8192
"""Of weights, asked for together by one program."""

_WIDEST = 1024
"""Bytes of one row in a tile: two loads of a whole warp, 16 bytes a thread."""


@dataclass(frozen=True)
class Tiling:
    """Rows of the output and columns of the weights (bytes where two share one) that a program takes at once, its
    warps, and the tiles that are under way at once."""

    rows: int
    columns: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Product:
    """The product of activations [tokens, columns] with weights [rows, columns]; gated: [2 · rows, columns].

    `tokens` is 1, or 16 for any more; `itemsize` in bytes of the activations; `bits` one of FULL, INT8, INT4, FLOAT8.
    """

    tokens: int
    rows: int
    columns: int
    itemsize: int
    bits: int = FULL
    gated: bool = False

    @property
    def row_bytes(self) -> int:
        return row_bytes(self.columns, self.bits) if self.bits else self.columns * self.itemsize

    @property
    def element_bytes(self) -> int:
        """One element of the matrix as it is stored."""
        return self.itemsize if self.bits == FULL else 1

    @property
    def matrices(self) -> int:
        """Rows of weights behind one number of the output."""
        return 2 if self.gated else 1


def row_bytes(columns: int, bits: int) -> int:
    """Bytes of one packed row: as many as columns in FLOAT8, up to 16 more in eight bits, whole groups in four."""
    if bits == FLOAT8:
        return columns
    return -(-columns // 16) * 16 if bits == INT8 else -(-columns // GROUP) * GROUP // 2


def default_tiling(product: Product) -> Tiling:
    """Tiles of about 8 KiB, narrower rows before fewer programs than multiprocessors."""
    if product.tokens == 1:
        return _for_one(product)
    return _for_several(product)


def _for_one(product: Product) -> Tiling:
    per_row = min(_WIDEST, _power_above(product.row_bytes))
    rows = max(1, _TILE_BYTES // per_row // product.matrices)
    while rows > 4 and product.rows < 2 * MULTIPROCESSORS * rows:
        rows //= 2
    return Tiling(rows, per_row // product.element_bytes, 4, 4)


def _for_several(product: Product) -> Tiling:
    """Tensor cores take 16 tokens. Every program reads all inputs, as much as eight rows of weights and more: many rows
    where that leaves a program for each multiprocessor, and more of them the narrower the weights are."""
    if product.bits == INT4:
        columns, stages, enough = GROUP, 6, MULTIPROCESSORS
    else:
        columns = max(16, min(256 // product.element_bytes, _power_above(product.columns)))
        stages, enough = 6, 2 * MULTIPROCESSORS
    rows = 64 // product.matrices
    while rows > 32 // product.matrices and product.rows < enough * rows:
        rows //= 2
    if rows * product.matrices > 32 and product.bits != INT4:
        # 99 KiB of shared memory are all that a GeForce grants.
        stages = min(stages, 5)
    return Tiling(rows, columns, 4, stages)


def _power_above(count: int) -> int:
    return 1 << (count - 1).bit_length()


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
