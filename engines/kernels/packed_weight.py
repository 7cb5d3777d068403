"""Weights of a Linear in eight or four bits, as our kernels read them: 1 and 0.516 bytes a weight."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention

from engines.kernels.tilings import GROUP, INT4, INT8, row_bytes

_HALF = GROUP // 2


@dataclass(frozen=True)
class PackedWeight:
    """A matrix [rows, columns]; symmetric, zero is zero.

    Eight bits: `data` uint8, a byte a column, holds the number plus 128; `scales` float32 [rows]. Four bits: `data`
    uint8, `scales` bfloat16 [rows, groups] for groups of 128 columns; byte i of a group holds its column i in the lower
    half and column 64 + i in the upper one, each as its number plus 8. Rows are filled up with zeros, to 16 columns or
    to a group.
    """

    data: torch.Tensor
    scales: torch.Tensor
    columns: int
    bits: int

    @classmethod
    def of(cls, weight: torch.Tensor, bits: int) -> PackedWeight:
        """Packs [rows, columns] in 8 or 4 bits, to the nearest number each."""
        rows, columns = weight.shape
        width = row_bytes(columns, bits)
        values = F.pad(weight.detach().float(), (0, width * 8 // bits - columns))
        if bits == INT8:
            scales = (values.abs().amax(1) / 127).clamp_min(torch.finfo(torch.float32).tiny)
            return cls(((values / scales[:, None]).round() + 128).to(torch.uint8), scales, columns, INT8)
        values = values.view(rows, -1, GROUP)
        # The largest becomes -8: all sixteen numbers are used, and only what is opposite and as large is cut to 7.
        largest = values.gather(2, values.abs().argmax(2, keepdim=True))
        scales = (largest / -8).to(torch.bfloat16)
        steps = scales.float()
        inverse = torch.where(steps == 0, 0.0, 1 / steps)
        numbers = (values * inverse).round().clamp(-8, 7).to(torch.int16) + 8
        data = (numbers[..., :_HALF] | numbers[..., _HALF:] << 4).to(torch.uint8)
        return cls(data.view(rows, width), scales.squeeze(2), columns, INT4)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix that is meant."""
        return self.data.shape[0], self.columns

    @property
    def nbytes(self) -> int:
        """Of everything held: numbers and scales."""
        return self.data.nbytes + self.scales.nbytes

    def unpacked(self, dtype: torch.dtype) -> torch.Tensor:
        """The matrix that is multiplied with, [rows, columns]."""
        if self.bits == INT8:
            return ((self.data[:, : self.columns].float() - 128) * self.scales[:, None]).to(dtype)
        rows = self.data.shape[0]
        halves = self.data.view(rows, -1, _HALF)
        numbers = torch.cat([halves & 15, halves >> 4], dim=2).to(torch.float32) - 8
        values = numbers * self.scales.float()[..., None]
        return values.view(rows, -1)[:, : self.columns].to(dtype)
