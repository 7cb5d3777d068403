"""Summaries, intervals, outliers and warm-up: against scipy on the same numbers, and by what they promise."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evprof.metrics.arithmetic import statistics
from evprof.metrics.arithmetic.statistics import mean_interval, outliers, ratio_interval, summarize, warmup_count

TIMES = st.lists(st.floats(0.01, 1e4), min_size=3, max_size=60)


def lognormal(count: int, sigma: float, seed: int) -> list[float]:
    return np.random.default_rng(seed).lognormal(3.0, sigma, count).tolist()


@pytest.mark.parametrize("count", [2, 3, 11, 200])
def test_a_summary_says_what_scipy_says(count: int) -> None:
    values = lognormal(count, 0.4, count)
    found = summarize(values)
    assert found is not None
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
    assert alone is not None
    assert (alone.mean, alone.std, alone.ci95) == (5.0, None, None)
    assert mean_interval([]) is None
    assert mean_interval([1.0, 2.0]) is None
    assert ratio_interval([], [], paired=True) is None
    assert ratio_interval([1.0, 2.0], [3.0, 4.0, 5.0], paired=False) is None
    assert outliers([]) == ()
    assert warmup_count([]) == 0
    with pytest.raises(ValueError, match="finite"):
        summarize([1.0, float("nan")])
    with pytest.raises(ValueError, match="paired"):
        ratio_interval([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0], paired=True)


@pytest.mark.parametrize("freedom", [2, 3, 7, 10, 10.5, 25, 400])
def test_students_percentile(freedom: float) -> None:
    assert statistics.student_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=2e-5)


@pytest.mark.parametrize("freedom", [2.3, 3.5, 9.9])
def test_students_percentile_between_whole_degrees(freedom: float) -> None:
    assert statistics.student_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=0.02)


def test_few_values_have_students_interval() -> None:
    values = [10.0, 12.0, 11.0, 14.0, 13.5]
    found = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert mean_interval(values) == pytest.approx(found, rel=1e-4)


@pytest.mark.parametrize("count", [10, 30, 400])
def test_the_means_interval_is_the_bootstrap_t_of_scipys_resamples(count: int) -> None:
    values = np.array(lognormal(count, 0.4, 3))
    error = stats.sem(values)

    def score(resample, axis):
        return (resample.mean(axis=axis) - values.mean()) / stats.sem(resample, axis=axis)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the interval that we do not ask for
        scores = stats.bootstrap((values,), score, n_resamples=9999, method="percentile", rng=1).bootstrap_distribution
    low, high = np.percentile(scores, [2.5, 97.5])
    found = mean_interval(values.tolist())
    assert found is not None
    # Both limits are random by their resamples: their standard error is 0.03 to 0.06 standard errors of the mean.
    assert found == pytest.approx((values.mean() - high * error, values.mean() - low * error), abs=0.25 * error)


@pytest.mark.parametrize("paired", [True, False])
def test_the_ratios_interval_is_the_bootstrap_t_of_scipys_resamples(paired: bool) -> None:
    base, sample = np.array(lognormal(20, 0.3, 5)), 1.7 * np.array(lognormal(20, 0.3, 6))

    def error_of(one, two, axis):
        first, second = one / one.mean(axis=axis, keepdims=True), two / two.mean(axis=axis, keepdims=True)
        if paired:
            return stats.sem(second - first, axis=axis)
        return np.hypot(stats.sem(first, axis=axis), stats.sem(second, axis=axis))

    ratio = np.log(sample.mean() / base.mean())

    def score(one, two, axis):
        return (np.log(two.mean(axis=axis) / one.mean(axis=axis)) - ratio) / error_of(one, two, axis)

    scores = stats.bootstrap(
        (base, sample), score, n_resamples=9999, method="percentile", paired=paired, vectorized=True, rng=1
    ).bootstrap_distribution
    low, high = np.percentile(scores, [2.5, 97.5])
    error = error_of(base, sample, 0)
    found = ratio_interval(base.tolist(), sample.tolist(), paired=paired)
    assert found is not None
    assert np.log(found) == pytest.approx((ratio - high * error, ratio - low * error), abs=0.25 * error)


@pytest.mark.parametrize("count", [10, 15, 40])
@pytest.mark.parametrize("sigma", [0.05, 0.4])
@pytest.mark.parametrize("paired", [True, False])
def test_ratio_intervals_cover_the_truth(count: int, sigma: float, paired: bool) -> None:
    """95 ± 2 % of 1,000 simulated suites: timings skewed to the right, in pairs with an effect that a sample shares."""
    chance = np.random.default_rng([count, int(100 * sigma), paired])
    covered = 0
    for _ in range(1000):
        shared = chance.lognormal(0, 0.3, count) if paired else 1.0
        base = 20 * shared * chance.lognormal(0, sigma, count)
        sample = 32 * shared * chance.lognormal(0, sigma, count)
        found = ratio_interval(base.tolist(), sample.tolist(), paired=paired)
        assert found is not None
        covered += found[0] <= 1.6 <= found[1]
    assert 930 <= covered <= 970


@pytest.mark.parametrize("count", [4, 6])
def test_intervals_of_few_samples_cover_too(count: int) -> None:
    chance = np.random.default_rng(count)
    covered = {True: 0, False: 0}
    for _ in range(1000):
        base, sample = chance.lognormal(0, 0.2, count), 2 * chance.lognormal(0, 0.2, count)
        for paired in covered:
            found = ratio_interval(base.tolist(), sample.tolist(), paired=paired)
            assert found is not None
            covered[paired] += found[0] <= 2 <= found[1]
    assert all(930 <= times <= 975 for times in covered.values())


@given(TIMES)
def test_the_means_interval_holds_the_mean_and_scales_with_the_values(values: list[float]) -> None:
    found, scaled = mean_interval(values), mean_interval([1024 * value for value in values])
    assert found is not None
    assert scaled is not None
    assert found[0] <= float(np.mean(values)) <= found[1]
    assert scaled == pytest.approx((1024 * found[0], 1024 * found[1]), rel=1e-9, abs=1e-9)
    assert found == mean_interval(values)


@given(st.lists(st.tuples(st.floats(0.01, 1e4), st.floats(0.01, 1e4)), min_size=3, max_size=40), st.booleans())
def test_the_ratios_interval_holds_the_ratio_and_knows_no_units(pairs: list[tuple[float, float]], paired: bool) -> None:
    base, sample = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    found = ratio_interval(base, sample, paired=paired)
    assert found is not None
    assert 0 < found[0] <= np.mean(sample) / np.mean(base) * (1 + 1e-12)
    assert found[1] >= np.mean(sample) / np.mean(base) * (1 - 1e-12)
    in_s = ratio_interval([value / 1024 for value in base], [value / 1024 for value in sample], paired=paired)
    assert in_s == pytest.approx(found, rel=1e-6)


@given(TIMES)
def test_percentiles_rise_from_the_least_to_the_most(values: list[float]) -> None:
    found = summarize(values)
    assert found is not None
    line = [found.minimum, *found.percentiles.values(), found.maximum]
    assert all(low <= high + 1e-9 * high for low, high in pairwise(line))
    assert found.std is not None
    assert found.std >= 0


def test_what_is_shared_cancels_in_pairs() -> None:
    base = lognormal(30, 0.5, 1)
    sample = [2 * value * noise for value, noise in zip(base, lognormal(30, 0.02, 2), strict=True)]
    paired, unpaired = ratio_interval(base, sample, paired=True), ratio_interval(base, sample, paired=False)
    assert paired is not None
    assert unpaired is not None
    assert 10 * (paired[1] - paired[0]) < unpaired[1] - unpaired[0]
    assert ratio_interval(base, [3 * value for value in base], paired=True) == pytest.approx((3, 3))


def test_pairs_that_are_mostly_equal_have_a_sane_interval() -> None:
    """Resamples without a pair that differs have no spread, which rounding must not pass for a tiny one."""
    base = [42.0, 42, 43, 38, 31, 42, 35, 41, 36, 40]
    sample = [41.0, 40, 43, 38, 31, 42, 35, 41, 36, 38]
    found = ratio_interval(base, sample, paired=True)
    assert found is not None
    assert 0.95 < found[0] < sum(sample) / sum(base) < found[1] < 1.05


def test_one_value_apart_among_equal_ones_gives_no_boundless_interval() -> None:
    base = [109.27, 91.884, *[91.852] * 21]
    sample = [6.36, 6.36, *[5.3] * 21]
    found = ratio_interval(base, sample, paired=False)
    assert found is not None
    assert 0.05 < found[0] < sum(sample) / sum(base) < found[1] < 0.07


def test_values_without_spread_have_a_point_for_an_interval() -> None:
    assert mean_interval([4.0] * 12) == (4.0, 4.0)
    assert ratio_interval([2.0] * 12, [3.0] * 9, paired=False) == (1.5, 1.5)
    # A single different value leaves most resamples of its kind without spread.
    rare = mean_interval([1.0] * 30 + [2.0])
    assert rare is not None
    assert all(map(np.isfinite, rare))
    assert ratio_interval([0.0] * 9, [1.0] * 9, paired=True) is None


def test_outliers_are_far_in_deviations_of_the_middle() -> None:
    values = [10.0, 10.2, 9.9, 10.1, 30.0, 9.8, 10.0, 0.1]
    assert outliers(values) == (4, 7)
    z = 0.6745 * np.abs(np.array(values) - np.median(values)) / stats.median_abs_deviation(values)
    assert outliers(values) == tuple(np.flatnonzero(z > 3.5))
    assert outliers([5.0] * 9 + [50.0]) == (9,)
    assert outliers([5.0] * 9) == ()
    assert outliers([1.0, 100.0]) == ()


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


@pytest.mark.parametrize("count", [5, 12, 100])
def test_noise_is_no_warmup(count: int) -> None:
    seeming = sum(warmup_count(lognormal(count, 0.2, seed)) > 0 for seed in range(500))
    assert seeming <= 10
