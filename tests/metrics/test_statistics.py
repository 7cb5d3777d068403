"""Summaries, Student's t and warm-up: against scipy on the same numbers, and by what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evprof.metrics.arithmetic import statistics
from evprof.metrics.arithmetic.statistics import summarize, warmup_count


def lognormal(count: int, sigma: float, seed: int) -> list[float]:
    return np.random.default_rng(seed).lognormal(3.0, sigma, count).tolist()


@pytest.mark.parametrize("count", [2, 3, 11, 200])
def test_a_summary_says_what_scipy_says(count: int) -> None:
    values = lognormal(count, 0.4, count)
    found = summarize(values)
    described = stats.describe(values, ddof=1)
    assert (found.count, found.minimum, found.maximum) == (described.nobs, *described.minmax)
    assert found.mean == pytest.approx(described.mean, rel=1e-12)
    assert found.std == pytest.approx(described.variance**0.5, rel=1e-12)
    assert found.median == np.median(values)
    for percent, value in found.percentiles.items():
        assert value == pytest.approx(stats.scoreatpercentile(values, percent), rel=1e-12)
    assert tuple(found.percentiles) == (1, 5, 10, 25, 50, 75, 90, 95, 99)


def test_nothing_is_none_and_one_value_has_no_spread() -> None:
    assert summarize([]) is None
    alone = summarize([5.0])
    assert (alone.mean, alone.std) == (5.0, None)
    assert warmup_count([]) == 0
    with pytest.raises(ValueError, match="finite"):
        summarize([1.0, float("nan")])


@pytest.mark.parametrize("freedom", [1, 1.5, 2, 3.3, 10, 25, 400, 9e3])
def test_students_percentile_and_share(freedom: float) -> None:
    assert statistics.student_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=1e-5)
    for score in (0.0, 0.5, 2.0, 12.0):
        assert statistics.student_p(score, freedom) == pytest.approx(2 * stats.t.sf(score, freedom), abs=1e-6)


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([0.1036, 0.0059, 0.0058, 0.0060, 0.0061, 0.0058], 1),
        ([0.1036, 0.0212, 0.0059, 0.0058, 0.0060, 0.0061, 0.0058], 2),
        ([0.0059, 0.1036, 0.0058, 0.0060, 0.0061, 0.0058], 0),
        ([1.05, 1.0, 1.0, 1.0, 1.0, 1.0], 0),
        ([5.0, 5.0, 5.0, 5.0, 1.0, 1.0], 0),
        ([9.0, 1.0, 1.0], 0),
        ([0.0, 1.0, 1.0, 1.0, 1.0, 1.0], 0),
    ],
)
def test_leading_slow_values_are_warmup(values: list[float], count: int) -> None:
    assert warmup_count(values) == count
