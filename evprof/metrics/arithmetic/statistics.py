"""Statistics of plain numbers: summaries, Student's intervals and warm-up.

A statistic over nothing is None, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)

FEWEST = 3
"""Fewer values have no interval."""

OUTLIER_SCORE = 3.5
"""Modified z-score from which a value is an outlier (Iglewicz & Hoaglin, How to Detect and Handle Outliers, 1993)."""

WARMUP_GAIN = 1.2
"""A first value below this many times the steady ones is no warm-up."""

FEWEST_STEADY = 4
"""Values that have to follow a warm-up value."""

_MAD_TO_SD = 1.4826
"""A normal distribution's standard deviation in median and in mean absolute deviations."""

_FEW_WIDEN = 10.0
"""With it, one in a hundred noise sequences of five to two hundred values seems to warm up."""

Values: TypeAlias = "npt.NDArray[np.float64]"
Interval = tuple[float, float]


@dataclass(frozen=True)
class Summary:
    """`count` values: `std` is the sample's (n - 1), None of one value; `percentiles` those of `PERCENTILES`,
    interpolated linearly."""

    count: int
    mean: float
    std: float | None
    median: float
    minimum: float
    maximum: float
    percentiles: dict[int, float]


def summarize(values: Sequence[float]) -> Summary | None:
    """The summary of values; None over nothing. Raises ValueError for values that are not finite numbers."""
    array = _array(values)
    if not array.size:
        return None
    at = np.percentile(array, PERCENTILES)
    return Summary(
        count=array.size,
        mean=float(array.mean()),
        std=float(array.std(ddof=1)) if array.size > 1 else None,
        median=float(np.median(array)),
        minimum=float(array.min()),
        maximum=float(array.max()),
        percentiles={percent: float(value) for percent, value in zip(PERCENTILES, at, strict=True)},
    )


def warmup_count(values: Sequence[float]) -> int:
    """How many leading times, in the order they were measured, are still warming up; 0: none.

    A time is while it is more than `WARMUP_GAIN` times the median of those that follow and lies above it by more than
    `OUTLIER_SCORE` of their robust standard deviations, widened for what few values know of their spread; both in
    logarithms, because times are skewed. The first that is not ends the warm-up, and so does the middle: what half of
    the values do is not warm-up but how it runs. At least `FEWEST_STEADY` values have to follow.
    """
    array = _array(values)
    if array.size <= FEWEST_STEADY or array.min() <= 0:
        return 0
    logs = np.log(array)
    for place in range(array.size // 2):
        rest = logs[place + 1 :]
        middle = np.median(rest)
        spread = _MAD_TO_SD * float(np.median(np.abs(rest - middle)))
        widened = OUTLIER_SCORE * spread * (1 + _FEW_WIDEN / rest.size)
        if rest.size < FEWEST_STEADY or logs[place] - middle <= max(math.log(WARMUP_GAIN), widened):
            return place
    return array.size // 2


def _array(values: Sequence[float]) -> Values:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError("statistics need a flat sequence of finite numbers")
    return array


def holm(p_values: Sequence[float]) -> list[bool]:
    """Which of several tests hold, so that of tests without any effect one in 20 families has one that does (Holm,
    Scand. J. Statist. 6, 1979)."""
    found = [False] * len(p_values)
    for count, place in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[place] * (len(found) - count) > _FALSE:
            break
        found[place] = True
    return found


_FALSE = 0.05


def student_p(score: float, freedom: float) -> float:
    """How often Student's t is at least this far from 0 on either side; from 1 to 10,000 degrees of freedom."""
    freedom = min(max(freedom, 1.0), 1e4)
    reach = math.atan2(math.sqrt(freedom), abs(score))
    angles = reach * (_NODES + 1) / 2
    norm = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    return min(1.0, norm * reach * float(_WEIGHTS @ np.sin(angles) ** (freedom - 1)))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


@lru_cache(maxsize=4096)
def student_quantile(freedom: float) -> float:
    """The 97.5th percentile of Student's t, within 1e-5."""
    low, high = 0.0, 13.0
    for _ in range(32):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > 0.05 else (low, middle)
    return (low + high) / 2


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
