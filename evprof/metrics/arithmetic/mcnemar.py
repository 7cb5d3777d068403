"""McNemar's test of paired right and wrong answers (McNemar, Psychometrika 12, 1947): is one side right more often?

Only pairs of which one side was right and the other wrong tell anything. Pairs are taken as independent of each other:
several questions about one recording are not quite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class McNemar:
    """Pairs by outcome: `both` right, only the baseline (`base`), only the other (`other`), `neither`."""

    both: int = 0
    base: int = 0
    other: int = 0
    neither: int = 0

    @staticmethod
    def of(pairs: Iterable[tuple[bool, bool]]) -> McNemar:
        """Counts pairs of whether the baseline and whether the other were right."""
        counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
        for pair in pairs:
            counts[pair] += 1
        return McNemar(*counts.values())

    @property
    def pairs(self) -> int:
        return self.both + self.base + self.other + self.neither

    @property
    def exact_p(self) -> float | None:
        """Two-sided p of the exact binomial test over the pairs that differ; None over no pairs."""
        if not self.pairs:
            return None
        count, less = self.base + self.other, min(self.base, self.other)
        below = sum(math.comb(count, wins) for wins in range(less + 1))
        return min(1.0, 2 * below / (1 << count))

    @property
    def chi2(self) -> float | None:
        """The statistic with continuity correction (Edwards 1948), (|b - c| - 1)² / (b + c), 0 where b equals c; None
        where no pair differs."""
        count, apart = self.base + self.other, abs(self.base - self.other)
        return float(max(0, apart - 1)) ** 2 / count if count else None

    @property
    def chi2_p(self) -> float | None:
        return None if self.chi2 is None else math.erfc(math.sqrt(self.chi2 / 2))
