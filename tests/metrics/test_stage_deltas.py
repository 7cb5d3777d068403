"""How much longer each stage of B is than A's: differences that add up, and colours that only intervals give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import SETTLED, STAGES, TARGET, SpanRecord
from evprof.core.run_info import FINISHED, RunInfo
from evprof.core.run_log import RunLog
from evprof.metrics.comparison.differences import stage_deltas
from evprof.metrics.comparison.document import Configuration, comparison_rows
from told import in_processes

MS = 1_000_000

lengths = st.dictionaries(st.sampled_from(STAGES), st.integers(1, 5000), min_size=1)
repeats = st.lists(lengths, min_size=1, max_size=4)


def _side(listed: list[dict[str, int]], first: int) -> Configuration:
    runs = []
    for place, durations in enumerate(listed):
        run_id = first + place
        run = RunLog(RunInfo(run_id, first, place, TARGET, "target", status=FINISHED, start_ns=0))
        at = 0
        for span_id, stage in enumerate(name for name in STAGES if name in durations):
            end = at + durations[stage] * MS
            run.absorb(SpanRecord(run_id, span_id, -1, SETTLED, TARGET, stage, at, end))
            at = end
        runs.append(run)
    return Configuration(tuple(runs))


@given(repeats, repeats)
def test_it_says_what_the_comparison_says(a: list[dict[str, int]], b: list[dict[str, int]]) -> None:
    one, two = _side(a, 1), _side(b, 100)
    rows = {row.metric: row for row in comparison_rows([one, two])}
    for delta in stage_deltas(one, two):
        row = rows[f"{delta.stage}_ms"]
        assert (delta.ratio, delta.delta_ms) == (row.ratio[1], row.delta[1])
        assert list(delta.ci95 or ()) == list((row.ci95[1] if row.ci95 else None) or ())
        assert bool(delta.judgement) == row.differs(1)
        assert delta.counts == tuple(row.counts)


@given(lengths, lengths)
def test_single_runs_are_never_better_or_worse(a: dict[str, int], b: dict[str, int]) -> None:
    found = stage_deltas(_side([a], 1), _side([b], 100))
    assert {delta.stage for delta in found} == set(a) & set(b)
    for delta in found:
        assert delta.judgement == ""
        assert delta.ci95 is None
        assert delta.delta_ms == b[delta.stage] - a[delta.stage]


def test_repeats_that_agree_tell_better_from_worse() -> None:
    a = _side([{"prefill": 100 + place, "decode": 50 + place % 2} for place in range(4)], 1)
    b = _side([{"prefill": 150 + place, "decode": 30 + place % 2} for place in range(4)], 100)
    in_processes(a.runs, b.runs)
    assert [(delta.stage, delta.judgement) for delta in stage_deltas(a, b)] == [("prefill", "bad"), ("decode", "good")]
