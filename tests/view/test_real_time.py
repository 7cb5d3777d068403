"""The real-time factor: compute time per sensor time, time covered twice counted once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.view.overlap import factor_curve

intervals = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 200)), max_size=12)


@given(intervals, st.integers(1, 1000))
def test_the_curve_is_the_time_covered_so_far(pairs: list[tuple[int, int]], sensor_us: int) -> None:
    starts, ends = [start for start, _ in pairs], [start + length for start, length in pairs]
    curve = factor_curve(starts, ends, sensor_us)
    covered = np.zeros(701, dtype=bool)
    for start, end in zip(starts, ends, strict=True):
        covered[start:end] = True
    for t_ns in range(0, 701, 7):
        assert curve.at(t_ns) == pytest.approx(covered[:t_ns].sum() / (sensor_us * 1000))
    assert curve.last == pytest.approx(covered.sum() / (sensor_us * 1000))
    assert (np.diff(curve.factors) >= 0).all()


@given(intervals)
def test_it_falls_behind_when_as_much_was_computed_as_sensed(pairs: list[tuple[int, int]]) -> None:
    scaled = [(start * 100, (start + length) * 100) for start, length in pairs]
    curve = factor_curve([start for start, _ in scaled], [end for _, end in scaled], 10)
    moment = curve.falls_behind_ns()
    if curve.last <= 1:
        assert moment is None
    else:
        assert moment is not None
        assert curve.at(moment) == pytest.approx(1)


def test_nothing_computed_is_no_curve() -> None:
    curve = factor_curve([5], [5], 100)
    assert (curve.last, curve.at(50), curve.falls_behind_ns()) == (0, 0, None)
