"""McNemar's test against scipy's exact binomial test and chi-square distribution."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evprof.metrics.arithmetic.statistics import McNemar

COUNTS = st.integers(0, 300)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_it_equals_scipy(both, base, other, neither):
    test = McNemar(both, base, other, neither)
    if base + other:
        assert test.exact_p == pytest.approx(stats.binomtest(base, base + other).pvalue, rel=1e-9)
        assert test.chi2 is not None
        assert test.chi2_p == pytest.approx(stats.chi2.sf(test.chi2, 1), rel=1e-9, abs=1e-300)
    else:
        assert test.chi2 is None
        assert test.chi2_p is None
        assert test.exact_p == (1.0 if test.pairs else None)


def test_the_statistic_is_that_of_two_counts_with_yates_correction():
    for base, other in ((150, 86), (5, 15), (0, 6), (40, 41)):
        half = (base + other) / 2
        by_hand = sum((abs(count - half) - 0.5) ** 2 / half for count in (base, other))
        assert McNemar(794, base, other, 570).chi2 == pytest.approx(by_hand)
        assert McNemar(794, base, other, 570).chi2 <= stats.chisquare([base, other]).statistic
    assert McNemar(5, 3, 3, 1).chi2 == 0
