"""Distributions as shapes: cumulative steps, percentiles, a logarithmic axis, and acceptance by drafted position.

Numbers in, numbers out; it knows no run, model or toolkit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, log10
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MOST_STEPS = 2000
"""Steps of a drawn curve; one more would not show on any screen."""


class CumulativeShares(NamedTuple):
    """An empirical cumulative distribution: `shares[i]` percent of all values are at most `values[i]`; both rise."""

    values: Floats
    shares: Floats

    def share(self, value: float) -> float:
        """How many percent of all values are at most `value`."""
        place = int(np.searchsorted(self.values, value, side="right"))
        return float(self.shares[place - 1]) if place else 0.0


def cumulative(values: Sequence[float] | Floats, *, most: int = MOST_STEPS) -> CumulativeShares | None:
    """The cumulative distribution of `values` in at most `most` (2 or more) steps, or None of nothing.

    Where steps are left out, those that stay are exact, the first and the last among them.
    """
    if not len(values):
        return None
    found, counts = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    shares = 100.0 * np.cumsum(counts) / len(values)
    if len(found) > most:
        kept = np.unique(np.linspace(0, len(found) - 1, most).astype(np.int64))
        found, shares = found[kept], shares[kept]
    return CumulativeShares(found, shares)


def log_bounds(values: Sequence[float] | Floats) -> tuple[float, float] | None:
    """Ends for a logarithmic axis that shows all positive `values` with some air; None when there are none.

    At least a factor of four, so that a narrow distribution looks narrow.
    """
    array = np.asarray(values, dtype=np.float64)
    positive = array[array > 0]
    if not len(positive):
        return None
    low, high = log10(float(positive.min())), log10(float(positive.max()))
    missing = max(0.0, log10(4.0) - (high - low)) / 2
    air = 0.04 * (high - low + 2 * missing)
    return 10 ** (low - missing - air), 10 ** (high + missing + air)


def log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Ticks between two positive ends: 1, 2 and 5 of each decade, more within one, decades alone beyond three."""
    decades = range(floor(log10(low)), floor(log10(high)) + 1)
    width = log10(high) - log10(low)
    parts = (1, 1.5, 2, 3, 4, 5, 6, 8) if width < 1 else (1, 2, 5) if width < 3 else (1,)
    every = 1 + len(decades) // 12
    exponents = [exponent for exponent in decades if exponent % every == 0]
    marks = [float(f"{part}e{exponent}") for exponent in exponents for part in parts]
    return [(mark, f"{mark:,g}" if mark < 1e6 else f"{mark:.0e}") for mark in marks if low <= mark <= high]


def staircase(steps: CumulativeShares, low: float, high: float) -> tuple[Floats, Floats]:
    """Corners of the curve from `low` to `high` on a log10 axis: x as log10, y in percent.

    Values of `low` and less, zeros among them, have no place on the axis: the curve begins at their share.
    """
    start = steps.share(low)
    inside = (steps.values > low) & (steps.values <= high)
    x = np.repeat(np.log10(steps.values[inside]), 2)
    y = np.repeat(steps.shares[inside], 2)
    # Each step is reached at the height of the one before it.
    return np.concatenate(([log10(low)], x, [log10(high)])), np.concatenate(([start, start], y))


class PlaceOutcomes(NamedTuple):
    """What became of the tokens drafted as the `place`-th (from 1) of their rounds."""

    place: int
    accepted: int
    drafted: int

    @property
    def share(self) -> float | None:
        """accepted / drafted in percent; None when nothing was drafted there."""
        return 100.0 * self.accepted / self.drafted if self.drafted else None


def by_position(rounds: Iterable[tuple[int, int]]) -> list[PlaceOutcomes]:
    """Accepted of drafted tokens by their position in the round, from (drafted, accepted) of each round.

    A round that drafted n tokens counts for positions 1…n and its first `accepted` were accepted. Empty without drafts.
    """
    listed = list(rounds)
    longest = max((drafted for drafted, _ in listed), default=0)
    return [
        PlaceOutcomes(
            place,
            accepted=sum(accepted >= place for _, accepted in listed),
            drafted=sum(drafted >= place for drafted, _ in listed),
        )
        for place in range(1, longest + 1)
    ]
