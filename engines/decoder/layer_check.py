"""Compares one part of a faster pass, such as a layer, with the same part of the eager pass.

Both passes get the same inputs, and both results are compared with the exact result: that part in a wider dtype.
The comparison goes part by part, because the rounding at the end of all layers depends on the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

MOST_RATIO = 1.25
"""The largest distance of a right pass from the exact result, in distances of the eager pass.

Over fewer than 256 numbers a position rounding alone can reach it: see `PartDistances.most`.
"""

_LEAST = 2e-6
"""A distance that float32 sums in another order explain; an eager pass counts as at least so far."""


@dataclass(frozen=True)
class PartDistances:
    part: str
    eager: float
    candidate: float
    width: int

    @property
    def most(self) -> float:
        return max(MOST_RATIO, 1 + 4 / math.sqrt(self.width))

    @property
    def ratio(self) -> float:
        return self.candidate / max(self.eager, _LEAST)

    @property
    def problem(self) -> str:
        """What is wrong with the candidate, without a full stop; "" where it is as exact as the eager pass."""
        # A distance that is not a number fails as well.
        if self.ratio <= self.most:
            return ""
        return (
            f"{self.part} is {self.ratio:.3g} times as far from the exact result as in the eager pass, "
            f"and {self.most:.3g} times is allowed"
        )


def exact_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype in (torch.float32, torch.float64) else torch.float32


def compare(
    part: str,
    exact: torch.Tensor,
    *,
    eager: torch.Tensor,
    candidate: torch.Tensor,
    entered: torch.Tensor | None = None,
) -> PartDistances:
    """Compares results [..., S, width] of one part; reads two numbers from the device. A distance is the largest RMS
    error of a position, over the RMS of what the part adds to `entered`, or of its result."""
    added = exact if entered is None else exact - entered
    size = _root_mean_square(added)
    eager_distance, candidate_distance = (
        float((_root_mean_square(result - exact) / size).max()) for result in (eager, candidate)
    )
    return PartDistances(part, eager_distance, candidate_distance, exact.shape[-1])


def _root_mean_square(values: torch.Tensor) -> torch.Tensor:
    return values.square().mean(-1).sqrt()
