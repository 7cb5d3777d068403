"""Whether two tensors are equal but for rounding, whatever their dtype, their values' size and the processor."""

from __future__ import annotations

import torch

_SUMMING = 64
"""Roundings to float32 that the sums of a layer add up to at worst: products are added in other orders elsewhere."""


def rounding(found: torch.Tensor, expected: torch.Tensor, layers: int = 4) -> float:
    """How far apart rounding may bring two computations through `layers` layers, in the unit of the values.

    Each layer rounds twice to the dtype and sums in float32 (or finer); errors are as large as the largest value's.
    """
    coarse = max(torch.finfo(tensor.dtype).eps for tensor in (found, expected))
    each = 2 * coarse + _SUMMING * min(coarse, torch.finfo(torch.float32).eps)
    return layers * each * float(expected.detach().abs().max() if expected.numel() else 0)


def is_close(found: torch.Tensor, expected: torch.Tensor, layers: int = 4) -> bool:
    """Equal but for rounding. A difference that is meant to be there is seen by its being no rounding."""
    apart = (found - expected).detach().abs().max()
    return float(apart) <= rounding(found, expected, layers)


def assert_close(found: torch.Tensor, expected: torch.Tensor, layers: int = 4) -> None:
    """Fails, with the places that differ most, for values that differ by more than rounding, and for other shapes."""
    torch.testing.assert_close(
        found.double(), expected.double(), rtol=0, atol=rounding(found, expected, layers), check_device=False
    )
