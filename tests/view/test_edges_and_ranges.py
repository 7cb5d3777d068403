"""What of a row of spans lies in a range: held against looking at every one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evprof.view.lanes import SpanRow, figures_in
from evprof.view.timescale import shows_enough

STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 2)), max_size=30)
NAMES = ["decode", "draft", "verify"]


@given(steps=STEPS, start=st.integers(0, 100), length=st.integers(1, 100))
def test_figures_of_a_range_are_those_of_every_span_in_it(
    steps: list[tuple[int, int, int]], start: int, length: int
) -> None:
    spans, at = [], 0
    for gap, lasts, name in steps:
        spans.append((at + gap, at + gap + lasts, name))
        at += gap + lasts
    begins, ends, names = (np.array([span[place] for span in spans], dtype=np.int64) for place in range(3))
    zeros = np.zeros(len(spans), dtype=np.int64)
    end = start + length
    found = figures_in(SpanRow(begins, ends, zeros, names, zeros, zeros), NAMES, start, end)
    assert {figure.name for figure in found} == {NAMES[n] for s, e, n in spans if s < end and e > start}
    for figure in found:
        mine = [(s, e) for s, e, n in spans if NAMES[n] == figure.name and s < end and e > start]
        assert figure.reaching == len(mine)
        assert figure.sum_ns == sum(min(e, end) - max(s, start) for s, e in mine)
        assert figure.lengths.tolist() == [e - s for s, e in mine if s >= start and e <= end]
        assert figure.stage == "decode"


def test_a_view_is_kept_only_while_it_shows_something() -> None:
    assert shows_enough((20, 40), (0, 100))
    assert shows_enough((-50, 1000), (0, 90))
    assert not shows_enough((100, 200), (0, 90))
    assert not shows_enough((88, 200), (0, 90))
