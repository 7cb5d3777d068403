"""Levels and trends of values measured one after the other, of which neighbours are alike.

A linear model whose errors are an AR(1) process of unknown correlation: y = X b + e, corr(e_i, e_j) = rho^|i - j|. A
few values hardly tell rho, so it is not estimated but averaged over: every rho of a grid counts by its restricted
likelihood (Harville, J. Am. Stat. Assoc. 72, 1977), and the interval is that of the mixture of Student's t which the
generalized least squares of each give. Few values thus have wide intervals, as wide as the neighbours' likeness that
they cannot rule out; many values have those of the likeness they show. Of rho itself (1 - rho)^-1/2 is believed before
any value: with that, means of three values and of twenty were covered as often (benchmark `coverage`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Interval = tuple[float, float]

CORRELATIONS = tuple(np.linspace(0, 0.95, 20).tolist())
"""Of neighbours: what intervals reckon with. Noise that swings back and forth makes them too wide, never too narrow."""

MOST_VALUES = 120
"""Longer series are averaged piece by piece first: a series' cost grows with its square."""

_STEPS = 60
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class _Fits:
    """The design whitened by every correlation: `q` [rho, n, p], `gain` [rho, p] turns q'y into the coefficient,
    `error` [rho] is its error in units of the residual, `log_weight` [rho] what the design says of rho."""

    correlations: Values
    q: Values
    gain: Values
    error: Values
    log_weight: Values


def coefficient(
    values: Values, design: Values, column: int, samples: Sequence[Hashable] = (), groups: Values | None = None
) -> Interval | None:
    """95 % interval of the coefficient of a column of `design` [n, p] for `values` [n] in order of time.

    `samples`, where given, name what each value was measured on: every sample has a level of its own, the mean of those
    of a group (default: of all) being the design's to tell. None where the values leave no degree of freedom or the
    design does not tell its columns apart.
    """
    spent, told = 0, design[:, column]
    if samples:
        groups = np.zeros(len(values)) if groups is None else groups
        table = np.column_stack((values, design))
        table = table - _means(table, samples) + _means(table, groups.tolist())
        # What is the same for all samples is so but for rounding.
        values, design = table[:, 0], np.where(np.abs(table[:, 1:]) > _ROUNDING, table[:, 1:], 0.0)
        spent = len(set(samples)) - len(set(groups.tolist()))
    step = -(-len(values) // MOST_VALUES)
    if step > 1:
        pieces = _pieces(told, step)
        values = np.array([values[piece].mean() for piece in pieces])
        design = np.array([design[piece].mean(axis=0) for piece in pieces])
    return _interval(values, design, column, -(-spent // step))


def _pieces(told: Values, step: int) -> list[Places]:
    """The places of neighbours, `step` of them or a few more, in order. Where a column tells two sides apart, they are
    of one side: of sides that take turns, neighbours together would tell nothing."""
    levels, side = np.unique(told, return_inverse=True)
    apart = (
        [np.flatnonzero(side == level) for level in range(len(levels))] if len(levels) == 2 else [np.arange(len(told))]
    )
    pieces = [piece for places in apart for piece in np.array_split(places, max(1, len(places) // step))]
    return sorted(pieces, key=lambda piece: float(piece.mean()))


def _means(table: Values, groups: Sequence[Hashable]) -> Values:
    """Of every row the mean of its group."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    places = np.array([numbers[group] for group in groups])
    sums: Values = np.zeros((len(numbers), table.shape[1]))
    np.add.at(sums, places, table)
    means: Values = (sums / np.bincount(places)[:, None])[places]
    return means


def _interval(values: Values, design: Values, column: int, spent: int) -> Interval | None:
    """The same of values freed of their samples' levels, which took `spent` degrees of freedom."""
    design = np.ascontiguousarray(design)
    fits = _fits(design.tobytes(), design.shape, column)
    freedom = len(values) - design.shape[1] - spent
    if fits is None or freedom < 1:
        return None
    white = _whitened(values[:, None], fits.correlations)[:, :, 0]
    along = np.einsum("rnp,rn->rp", fits.q, white)
    left = np.maximum((white**2).sum(axis=1) - (along**2).sum(axis=1), 0)
    size = float(np.abs(values).max())
    centres = (fits.gain * along).sum(axis=1)
    if left.max() <= (_ROUNDING * size) ** 2 * len(values):
        return float(centres[0]), float(centres[0])
    left = np.maximum(left, left.max() * 1e-9)
    errors = fits.error * np.sqrt(left / freedom)
    log_weight = fits.log_weight - freedom / 2 * np.log(left)
    weights = np.exp(log_weight - log_weight.max())
    return _mixture_ends(centres, errors, weights / weights.sum(), freedom)


@lru_cache(maxsize=16)
def _fits(raw: bytes, shape: tuple[int, int], column: int) -> _Fits | None:
    design = np.frombuffer(raw).reshape(shape)
    count, width = shape
    if count <= width or np.linalg.matrix_rank(design) < width:
        return None
    rhos = np.array(CORRELATIONS)
    q, r = np.linalg.qr(_whitened(design, rhos))
    gain = np.linalg.inv(r)[:, column, :]
    inside = np.log(np.abs(np.diagonal(r, axis1=1, axis2=2))).sum(axis=1)
    outside = (count - 1) / 2 * np.log1p(-(rhos**2))
    believed = -np.log1p(-rhos) / 2
    return _Fits(rhos, q, gain, np.linalg.norm(gain, axis=1), believed - inside - outside)


def _whitened(columns: Values, rhos: Values) -> Values:
    """[rho, n, p]: what each row adds to the one before it, in units of the process's own spread."""
    rho = rhos[:, None, None]
    found = np.empty((len(rhos), *columns.shape))
    found[:, 0] = columns[0]
    found[:, 1:] = (columns[1:] - rho * columns[:-1]) / np.sqrt(1 - rho**2)
    return found


def _mixture_ends(centres: Values, errors: Values, weights: Values, freedom: int) -> Interval:
    """The 2.5th and 97.5th percentile of a mixture of t distributions, by bisection of both at once."""
    reach = 2 * student_scores(freedom)[0][-1] * errors.max()
    shares = np.array((0.025, 0.975))
    low, high = np.full(2, centres.min() - reach), np.full(2, centres.max() + reach)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        is_below = student_share((middle[:, None] - centres) / errors, freedom) @ weights < shares
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return float((low[0] + high[0]) / 2), float((low[1] + high[1]) / 2)


def student_share(scores: Values, freedom: int) -> Values:
    """The share of Student's t distribution below each score, within 1e-4."""
    at, shares = student_scores(freedom)
    return np.interp(scores, at, shares)


@lru_cache(maxsize=16)
def student_scores(freedom: int) -> tuple[Values, Values]:
    """Scores and the shares below them: t = sqrt(freedom) tan(angle), whose density in the angle is a power of the
    cosine, and so smooth."""
    angle = np.linspace(-math.pi / 2, math.pi / 2, 4001)[1:-1]
    density = np.cos(angle) ** (freedom - 1)
    shares = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    return math.sqrt(freedom) * np.tan(angle), shares / shares[-1]
