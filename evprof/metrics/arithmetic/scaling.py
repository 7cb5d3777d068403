"""How a figure grows: straight lines fitted to it, with what the fit is worth.

Ordinary least squares; the interval of a slope is Student's, for independent deviations of one size. Where points
belong to samples, a slope is as sure as samples agree on it: the deviations of a sample are taken together (Liang and
Zeger, Biometrika 73, 1986). Arithmetic on numbers only: what grows with what is the caller's to say.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evprof.metrics.arithmetic.statistics import FEWEST, student_quantile

Values = npt.NDArray[np.float64]

FLAT_SHARE = 0.05
"""A change over the whole range of less than this part of the mean is small."""

FEWEST_OF_TWO = FEWEST
"""Points at each of only two x that an interval needs, as any comparison of two sides does: with fewer, how much one
side varies is guessed from the other."""


@dataclass(frozen=True)
class FittedLine:
    """y = intercept + slope · x, from `low_x` to `high_x`.

    The slope rests on `count` points at `places` different x, at least `fewest` at each. `slope_interval` holds it with
    95 % confidence; None where too few points tell (two, or two x with fewer than FEWEST_OF_TWO at one). `mean_y` is
    the points' mean.
    """

    slope: float
    intercept: float
    count: int
    places: int
    fewest: int
    low_x: float
    high_x: float
    mean_y: float
    slope_interval: tuple[float, float] | None = None

    def at(self, x: float) -> float:
        return self.intercept + self.slope * x

    @property
    def change(self) -> float:
        return self.slope * (self.high_x - self.low_x)

    @property
    def is_small(self) -> bool:
        """Whether the change over the range is below FLAT_SHARE of the mean."""
        return abs(self.change) <= FLAT_SHARE * abs(self.mean_y)

    @property
    def holds_zero(self) -> bool:
        """Whether a slope of 0 is within the interval; without one, whether the slope is 0."""
        low, high = self.slope_interval or (self.slope, self.slope)
        return low <= 0 <= high

    @property
    def is_flat(self) -> bool:
        """Whether y does not change with x as far as these points tell: the interval holds 0, and the change is
        small. A wide interval around a large slope is no flatness but a lack of points."""
        return self.holds_zero and self.is_small


def fit_line(x: Sequence[float], y: Sequence[float], groups: Sequence[Hashable] | None = None) -> FittedLine | None:
    """The line of least squares through points; None unless at least two different x are there.

    `groups` names what each point belongs to (its sample): every group then has a level of its own, which takes no part
    in the slope, and the intercept is their mean; from three groups on that have different x the interval is from group
    to group. Raises ValueError for lists of different length.
    """
    if len(x) != len(y) or (groups is not None and len(groups) != len(x)):
        raise ValueError(f"{len(x)} x and {len(y)} y are no points")
    across: Values = np.asarray(x, dtype=np.float64)
    up: Values = np.asarray(y, dtype=np.float64)
    if len(across) < 2 or across.min() == across.max():
        return None
    places = _places(groups, len(across))
    aside, above = _centred(across, places), _centred(up, places)
    levels = int(places.max()) + 1
    spread = float(aside @ aside)
    if spread <= 1e-12 * float(across @ across):
        return None
    slope = float(aside @ above) / spread
    left = above - slope * aside
    # A group of one x has a level and tells nothing of the slope.
    telling = np.bincount(places, aside * aside) > 1e-12 * spread
    _, counts = np.unique(across[telling[places]], return_counts=True)
    reach = None
    is_told = len(counts) > 2 or int(counts.min()) >= FEWEST_OF_TWO
    if is_told and int(telling.sum()) >= FEWEST:
        reach = _reach_between(np.bincount(places, aside * left)[telling].astype(np.float64), spread)
    elif is_told and (freedom := len(across) - levels - 1) >= 1:
        reach = student_quantile(freedom) * math.sqrt(float(left @ left) / freedom / spread)
    return FittedLine(
        slope=slope,
        intercept=float(up.mean()) - slope * float(across.mean()),
        count=int(counts.sum()),
        places=len(counts),
        fewest=int(counts.min()),
        low_x=float(across.min()),
        high_x=float(across.max()),
        mean_y=float(up.mean()),
        slope_interval=None if reach is None else (slope - reach, slope + reach),
    )


def _reach_between(told: Values, spread: float) -> float:
    """Half the interval of a slope, from what the deviations of every group tell of it together."""
    count = len(told)
    return student_quantile(count - 1) * math.sqrt(float(told @ told) * count / (count - 1)) / spread


def _places(groups: Sequence[Hashable] | None, count: int) -> npt.NDArray[np.int64]:
    if groups is None:
        return np.zeros(count, dtype=np.int64)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups))}
    return np.array([numbers[name] for name in groups], dtype=np.int64)


def _centred(values: Values, places: npt.NDArray[np.int64]) -> Values:
    centred: Values = values - (np.bincount(places, values) / np.bincount(places))[places]
    return centred
