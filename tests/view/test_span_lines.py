"""Spans as columns: time of their own, and tokens."""

from __future__ import annotations

from math import isnan

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import BEGIN, END, TARGET, SpanRecord, TokenRecord
from evprof.core.run_info import LengthFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.view.span_lines import span_lines


@given(st.lists(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=5), min_size=1, max_size=3))
def test_time_of_its_own_is_what_no_part_covers(parts_of: list[list[tuple[int, int]]]) -> None:
    run, number = RunLog(RunInfo(1, 1, 0, TARGET, "target")), len(parts_of)
    for stage, parts in enumerate(parts_of):
        spans = [(stage, -1, "decode", (5, 35)), *((0, stage, "part", ends) for ends in parts)]
        for span_id, parent, name, ends in spans:
            number += parent >= 0
            place = span_id if parent < 0 else number
            for phase in (BEGIN, END):
                end = -1 if phase == BEGIN else max(ends)
                run.absorb(SpanRecord(1, place, parent, phase, TARGET, name, min(ends), end))
    lines = span_lines([run])
    for stage, parts in enumerate(parts_of):
        uncovered = [t for t in range(5, 35) if not any(min(ends) <= t < max(ends) for ends in parts)]
        assert round(1e6 * float(lines.own[lines.ids == stage][0])) == len(uncovered)


def test_tokens_are_those_of_the_bars_and_of_each_round() -> None:
    run = RunLog(RunInfo(1, 1, 0, TARGET, "speculative", lengths={TARGET: LengthFacts(641, 35, 23, 583)}))
    spans = [(-1, "vision", 0, 5), (-1, "prefill", 5, 20), (-1, "decode", 21, 90)]
    spans += [(2, "draft", 22, 30), (2, "verify", 31, 40), (2, "draft", 45, 50), (2, "verify", 51, 60)]
    for span_id, (parent, name, start, end) in enumerate(spans):
        for phase, until in ((BEGIN, -1), (END, end)):
            run.absorb(SpanRecord(1, span_id, parent, phase, TARGET, name, start, until))
    for position, (t_ns, number) in enumerate([(20, -1), (41, 0), (41, 0), (61, 1), (75, -1)]):
        run.absorb(TokenRecord(1, TARGET, position, 5, "target", number, t_ns, " a"))
    counts = span_lines([run]).tokens.tolist()
    assert [None if isnan(count) else count for count in counts] == [583, 641, 4, None, 2, None, 1]
