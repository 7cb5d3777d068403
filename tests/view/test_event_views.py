"""Events counted over time and region, and as points in space: nothing is lost, nothing lies elsewhere."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from evprof.view.event_rates import Rates, rate_words

points = st.lists(
    st.tuples(st.integers(0, 31), st.integers(0, 23), st.integers(0, 999), st.integers(0, 1)), min_size=1, max_size=40
)


@example(stop_us=1, bins=3, moment_us=0)
@given(stop_us=st.integers(1, 10**6), bins=st.integers(1, 50), moment_us=st.integers(0, 10**6))
def test_every_moment_lies_in_one_bin(stop_us: int, bins: int, moment_us: int) -> None:
    rates = Rates.unknown(stop_us, bins)
    place = rates.place_of(moment_us)
    holding = [n for n in range(bins) if rates.edges(n)[0] <= moment_us < rates.edges(n)[1]]
    assert ([] if place is None else [place]) == holding
    assert rates.edges(bins - 1)[1] == stop_us


def test_rates_are_counts_per_time_that_was_looked_at() -> None:
    rates = Rates(400, np.array([10, 5, 0, 0]), np.array([0, 5, 1, 0]), np.array([100, 50, 100, 0]))
    assert rates.on_per_s[:3].tolist() == [100_000, 100_000, 0]
    assert rates.off_per_s[:3].tolist() == [0, 100_000, 10_000]
    assert np.isnan(rates.on_per_s[3])
    assert rates.is_sampled
    assert not rates._replace(looked_us=np.array([100, 100, 0, 0])).is_sampled
    assert [rate_words(value) for value in (0, 12_345, 250_000, 1_230_000)] == [
        "0 /s",
        "12.3 k/s",
        "250 k/s",
        "1.2 M/s",
    ]
