"""What the scripts work out of pairs of answers: the share of equal tokens, the cost ratio, and a speedup by formula.

The formula is theirs: (1 - α^(γ+1)) / (1 - α) expected tokens over γ·c + 1, where α is the share of tokens equal at
their place and c the ratio of whole answers' times. It is no measured speedup.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evprof.loaders.legacy.checks import finite

MOST_GAMMA = 1000


@dataclass(frozen=True)
class Again:
    """The same figures from rows; None where their rows do not give them. Times in the file's unit."""

    matched: float | None
    compared: float | None
    draft_time: float | None
    target_time: float | None
    gamma: float | None

    @property
    def rate(self) -> float | None:
        """Equal tokens over compared ones."""
        return self.matched / self.compared if self.matched is not None and self.compared else None

    @property
    def cost(self) -> float | None:
        """The draft's mean time over the target's."""
        return self.draft_time / self.target_time if self.draft_time is not None and self.target_time else None

    @property
    def speedup(self) -> float | None:
        """By the formula above."""
        rate, cost, gamma = self.rate, self.cost, self.gamma
        if rate is None or cost is None or gamma is None or not 0 <= gamma <= MOST_GAMMA or not 0 <= rate <= 1:
            return None
        expected = gamma + 1 if rate == 1 else (1 - rate ** (gamma + 1)) / (1 - rate)
        return expected / (cost * gamma + 1) if cost >= 0 else None


def speculation_again(
    rows: Sequence[dict[str, Any]], counts: tuple[str, str], times: tuple[str, str], gamma: float | None
) -> Again:
    """From rows with these keys: equal and compared tokens, the draft's time and the target's."""
    columns = [[finite(row.get(key)) for row in rows] for key in (*counts, *times)]
    sums = [
        math.fsum(value for value in column if value is not None) if _is_whole(column) else None for column in columns
    ]
    means = [None if total is None else total / len(rows) for total in sums[2:]]
    return Again(sums[0], sums[1], means[0], means[1], gamma)


def _is_whole(column: Sequence[float | None]) -> bool:
    return bool(column) and all(value is not None and abs(value) < 1e15 for value in column)
