"""Durations, unions and totals of the five stages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import STAGES
from evprof.metrics.figures import stages

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


@given(INTERVALS)
def test_union_counts_every_covered_nanosecond_once(intervals: list[tuple[int, int]]) -> None:
    covered = {moment for start, end in intervals for moment in range(start, end)}
    assert stages.union_ns(intervals) == len(covered)


def test_stages_wall_and_remainder(plain_run) -> None:
    assert [stages.stage_ms(plain_run, name) for name in STAGES] == [10, 20, 30, 25, 90]
    assert stages.wall_ms(plain_run) == 180
    assert stages.unattributed_ms(plain_run) == 5


def test_bases(plain_run) -> None:
    assert stages.total_ms(plain_run, stages.END_TO_END) == 180
    assert stages.total_ms(plain_run, stages.WITHOUT_LOAD) == 170
    assert stages.total_ms(plain_run, stages.MODEL_ONLY) == 145
    assert stages.total_ms(plain_run, stages.MODEL_ONLY, until_ns=plain_run.tokens[0].t_ns) == 55


def test_overlapping_stages_of_two_models_count_once(script) -> None:
    run = script(mode="speculative").begin()
    run.span("load", 0, 10)
    run.span("vision", 10, 40)
    run.span("vision", 20, 50, role="draft")
    log = run.end(60)
    assert stages.stage_total_ms(log, "vision") == 40
    assert stages.stage_ms(log, "vision") == stages.stage_ms(log, "vision", "draft") == 30
    assert stages.unattributed_ms(log) == 10


def test_children_are_not_stages(plain_run) -> None:
    assert "tower" in {span.name for span in plain_run.spans.values()}
    assert len(stages.settled_intervals(plain_run)) == 5


def test_what_is_not_settled_is_not_measured(script) -> None:
    run = script().begin()
    run.span("load", 0, 10)
    run.end_unsettled("vision", 10, 30)
    run.span("prefill", 30, None)
    log = run.end(50, "cancelled")
    assert stages.stage_ms(log, "load") == 10
    assert stages.stage_ms(log, "vision") is None
    assert stages.stage_ms(log, "prefill") is None
    assert stages.stage_ms(log, "decode") is None
    assert stages.wall_ms(log) == 50
    assert stages.unattributed_ms(log) is None


def test_a_running_run_has_no_wall(script) -> None:
    run = script().begin()
    run.span("load", 0, 10)
    log = run.log()
    assert stages.wall_ms(log) is None
    assert stages.total_ms(log) is None
