"""Fits: exact lines come back, intervals are scipy's, and what is flat is told from what is unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from evprof.metrics.arithmetic.scaling import FEWEST_OF_TWO, fit_line

_REAL = st.floats(-1e3, 1e3, allow_nan=False).map(lambda value: round(value, 3))
_POINTS = st.lists(st.tuples(st.integers(1, 64), _REAL), min_size=3, max_size=40)


@given(_REAL, _REAL, st.lists(st.integers(-50, 50), min_size=2, max_size=30, unique=True))
def test_an_exact_line_comes_back(slope: float, intercept: float, x: list[int]) -> None:
    line = fit_line(x, [intercept + slope * value for value in x])
    assert line.slope == pytest.approx(slope, abs=1e-7)
    assert line.intercept == pytest.approx(intercept, abs=1e-6)
    assert line.at(3) == pytest.approx(intercept + 3 * slope, abs=1e-6)


@given(_POINTS)
def test_the_fit_is_that_of_numpy_and_its_interval_that_of_scipy(points: list[tuple[int, float]]) -> None:
    x, y = [float(pair[0]) for pair in points], [pair[1] for pair in points]
    # scipy gives no deviation for values that do not vary.
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    # Two x with a point or two at one of them have a line and no interval.
    assume(len(set(x)) > 2 or min(x.count(place) for place in set(x)) >= FEWEST_OF_TWO)
    line = fit_line(x, y)
    slope, intercept = np.polyfit(x, y, 1)
    assert line.slope == pytest.approx(slope, rel=1e-6, abs=1e-6)
    assert line.intercept == pytest.approx(intercept, rel=1e-6, abs=1e-5)
    theirs = stats.linregress(x, y)
    reach = theirs.stderr * stats.t.ppf(0.975, len(x) - 2)
    low, high = line.slope_interval or (math.nan, math.nan)
    # scipy takes the deviation from 1 - r², which loses digits where the points lie on the line.
    assert (high - low) / 2 == pytest.approx(reach, rel=1e-4, abs=1e-4 * (1 + abs(slope)))


def test_the_published_token_counts() -> None:
    """002: 576 tokens per video frame beside 35 of text; EventGPT's released path brings one per event frame."""
    frames = (1, 8, 16, 32)
    video = fit_line(frames, [35 + 576 * count for count in frames])
    assert (round(video.slope, 6), round(video.intercept, 6)) == (576, 35)
    assert not video.is_flat
    events = fit_line((1, 5, 8, 32), (637, 641, 644, 668))
    assert events.slope == pytest.approx(1)
    assert events.slope_interval == pytest.approx((1, 1))
    assert events.is_small
    # One token a frame is small but known to be there: not flat.
    assert not events.is_flat


def test_flat_needs_both_a_small_change_and_an_interval_that_holds_zero() -> None:
    steady = fit_line((1, 1, 8, 8, 16, 16), (10.0, 10.1, 10.1, 10.0, 10.05, 10.06))
    assert steady.is_flat
    few_points = fit_line((1, 8, 16), (5.0, 40.0, 10.0))
    assert few_points.holds_zero
    assert not few_points.is_flat


@pytest.mark.parametrize(("few", "many"), [(1, 3), (1, 30), (2, 2), (2, 40)])
def test_two_places_have_an_interval_only_with_three_points_at_each(few: int, many: int) -> None:
    chance = np.random.default_rng(few * many)
    x, y = [8.0] * few + [16.0] * many, chance.normal(10, 1, few + many).tolist()
    line = fit_line(x, y)
    assert (line.count, line.places, line.fewest) == (few + many, 2, few)
    assert line.slope_interval is None
    extra = 3 - few
    enough = fit_line([8.0] * extra + x, [10.0] * extra + y)
    assert (enough.slope_interval is None) == (many < 3)


def test_samples_of_one_place_lend_a_slope_no_certainty() -> None:
    """Of three samples only one was seen at several places: its own scatter is all that tells."""
    line = fit_line([1, 2, 4, 8, 4, 4, 4, 4], [3, 9, 5, 30, 7, 8, 7, 9], [*"aaaa", *"bbcc"])
    assert (line.count, line.places) == (4, 4)
    low, high = line.slope_interval or (0, 0)
    assert high - low > 1


def test_groups_have_levels_of_their_own() -> None:
    """Prompts of other lengths move a line up, not its slope: with them left in, the exact count seems uncertain."""
    frames, asked = [1, 8, 32] * 3, [17] * 3 + [19] * 3 + [15] * 3
    positions = [37 * count + length for count, length in zip(frames, asked, strict=True)]
    mixed, apart = fit_line(frames, positions), fit_line(frames, positions, asked)
    assert mixed is not None
    assert apart.slope == pytest.approx(37)
    assert apart.slope_interval == pytest.approx((37, 37))
    assert apart.intercept == pytest.approx(17)
    low, high = mixed.slope_interval or (0, 0)
    assert high - low > 0.05
    # A group of one place says nothing of the slope.
    assert fit_line([1, 2], [3, 9], ["a", "b"]) is None
    with pytest.raises(ValueError, match="no points"):
        fit_line([1, 2], [3, 9], ["a"])


def test_grouped_fits_are_regressions_with_a_dummy_for_every_group() -> None:
    chance = np.random.default_rng(3)
    x = chance.integers(1, 30, 24).astype(float)
    groups = np.repeat([0, 1, 2, 3], 6)
    y = 2.5 * x + 10 * groups + chance.normal(0, 1, 24)
    line = fit_line(x.tolist(), y.tolist(), groups.tolist())
    design = np.column_stack([x, *(groups == group for group in range(4))])
    found, left, *_ = np.linalg.lstsq(design, y, rcond=None)
    own = [np.polyfit(x[groups == group], y[groups == group], 1)[0] for group in range(4)]
    assert line.slope == pytest.approx(found[0])
    low, high = line.slope_interval or (0, 0)
    assert low < min(found[0], *own) + np.ptp(own)
    assert left[0] > 0
    assert high - low == pytest.approx(2 * stats.t.ppf(0.975, 3) * stats.sem(own), rel=0.6)
