"""Distributions: curves that rise to 100 %, nothing said of nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.view.distributions import (
    PlaceOutcomes,
    by_position,
    cumulative,
    log_bounds,
    log_ticks,
    staircase,
)

MANY = st.lists(st.just(0.0) | st.floats(1e-6, 1e6), min_size=1, max_size=200)


@given(MANY)
def test_a_cumulative_curve_rises_to_all_values(values: list[float]) -> None:
    steps = cumulative(values)
    assert (np.diff(steps.values) > 0).all()
    assert (np.diff(steps.shares) > 0).all()
    assert steps.shares[-1] == pytest.approx(100)
    for value in values:
        assert steps.share(value) == pytest.approx(100 * sum(other <= value for other in values) / len(values))
    assert steps.share(-1) == 0


def test_a_long_curve_is_thinned_and_stays_exact() -> None:
    values = np.random.default_rng(3).lognormal(3, 1, 50_000)
    thin, full = cumulative(values, most=100), cumulative(values, most=50_000)
    assert len(thin.values) == 100
    assert len(full.values) == 50_000
    assert (thin.values[0], thin.values[-1]) == (values.min(), values.max())
    assert thin.shares[-1] == pytest.approx(100)
    assert [full.share(value) for value in thin.values] == pytest.approx(list(thin.shares))


def test_nothing_has_no_distribution() -> None:
    assert cumulative([]) is None
    assert log_bounds([]) is None
    assert log_bounds([0.0, 0.0]) is None
    assert by_position([]) == []
    assert by_position([(0, 0)]) == []
    assert PlaceOutcomes(1, 0, 0).share is None


@given(MANY)
def test_a_staircase_stays_on_its_axis_and_ends_at_all(values: list[float]) -> None:
    bounds, steps = log_bounds(values), cumulative(values)
    assert steps is not None
    if bounds is None:
        assert max(values) == 0
        return
    x, y = staircase(steps, *bounds)
    assert len(x) == len(y)
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) >= 0).all()
    assert x[0] == pytest.approx(np.log10(bounds[0]))
    assert x[-1] == pytest.approx(np.log10(bounds[1]))
    assert y[0] == pytest.approx(100 * values.count(0) / len(values))
    assert y[-1] == pytest.approx(100)


def test_a_staircase_goes_up_at_its_values() -> None:
    steps = cumulative([0, 0, 10, 100])
    assert steps is not None
    x, y = staircase(steps, 1, 1000)
    assert x.tolist() == pytest.approx([0, 1, 1, 2, 2, 3])
    assert y.tolist() == pytest.approx([50, 50, 75, 75, 100, 100])


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_bounds_hold_the_values_with_few_ticks_in_order(first: float, second: float) -> None:
    bounds = log_bounds([0.0, first, second])
    assert bounds[0] < min(first, second) <= max(first, second) < bounds[1]
    assert bounds[1] / bounds[0] >= 4
    marks = [mark for mark, _ in log_ticks(*bounds)]
    assert 1 <= len(marks) <= 14
    assert marks == sorted(set(marks))
    assert bounds[0] <= marks[0] <= marks[-1] <= bounds[1]


def test_positions_are_counted_over_the_rounds_that_drafted_them() -> None:
    assert by_position([(4, 2), (4, 4), (3, 0)]) == [(1, 2, 3), (2, 2, 3), (3, 1, 3), (4, 1, 2)]
    assert by_position([(2, 1), (2, 1)])[0].share == 100
    assert by_position([(2, 1), (2, 1)])[1].share == 0
