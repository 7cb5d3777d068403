"""The rows of a suite: every one exactly once, in an order that treats all cells alike."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driven_suites import samples_of
from evprof.core.errors import UserError
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, REFERENCE, RUNNING, RowKey, RunInfo
from evprof.core.sample import Sample
from evprof.run.suites.plan import BLOCKS, INTERLEAVED, SuitePlan, SuiteRow, WarmUps, plan_suite
from evprof.run.suites.record import RowOutcomes, check_same, fingerprint, suite_fact
from evprof.run.suites.spec import SuiteSpec, parse_suite
from evprof.session.store import WRITER_GONE

MIXED: dict[str, Any] = {
    "cells": [
        {"mode": "draft"},
        {"mode": "side-by-side"},
        {"mode": "target", "dtype": "bfloat16"},
        {"mode": "target", "dtype": "bfloat16", "frames": 2},
        {"mode": "speculative"},
    ]
}


def spec_of(raw: dict[str, Any], repeat: int = 2) -> SuiteSpec:
    return parse_suite(raw, "grid", repeat=repeat)


def info_of(
    row: SuiteRow, role: str, run_id: int, status: str = FINISHED, error: str | None = None, *, group: int = 1
) -> RunInfo:
    request = row.request(0)
    return RunInfo(
        run_id,
        group,
        row.repeat,
        role,
        request.mode,
        sample=row.sample,
        status=status,
        error=error,
        cell=row.cell.label,
    )


plans = st.builds(
    lambda repeat, count, order: plan_suite(
        spec_of(MIXED, repeat), samples_of(count), order, drawing=random.Random(repeat)
    ),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([INTERLEAVED, BLOCKS]),
)


@given(plans)
def test_every_run_is_planned_exactly_once(plan: SuitePlan) -> None:
    found = Counter(key for row in plan.rows for key in row.keys if key.cell != REFERENCE)
    wanted = {
        RowKey(cell.label, sample.name, sample.prompt, repeat, role)
        for cell in plan.spec.cells
        for sample in plan.samples
        for repeat in range(plan.spec.repeat)
        for role in cell.answering
    }
    assert set(found) == wanted
    assert set(found.values()) == {1}


@given(plans)
def test_every_cell_is_warmed_up_once_for_each_time_it_is_loaded(plan: SuitePlan) -> None:
    warm_ups = WarmUps(2, stays_loaded=plan.order == INTERLEAVED)
    counts = [(row, warm_ups.before(row)) for row in plan.rows]
    firsts = Counter((row.cell.label, row.roles) for row, count in counts if count)
    if plan.order == INTERLEAVED:
        assert set(firsts.values()) == {1}
    loaded: Any = None
    for row, count in counts:
        if plan.order == BLOCKS and loaded is not None and not row.weights <= loaded:
            assert count == 2
        loaded = row.weights if loaded is None or not row.weights <= loaded else loaded


@given(plans)
def test_a_turn_holds_every_row_of_a_sample_and_repetition_that_its_block_has(plan: SuitePlan) -> None:
    turns: dict[tuple[str, int], list[SuiteRow]] = {}
    for row in plan.rows:
        if row.turn is not None and row.cell.label != REFERENCE:
            turns.setdefault((row.turn.series, row.turn.number), []).append(row)
    assert len({series for series, _ in turns}) == 1
    for rows in turns.values():
        assert len({(row.process, row.sample.name, row.repeat) for row in rows}) == 1
        assert [row.turn.place for row in rows if row.turn] == [
            sum(len(before.roles) for before in rows[:number]) for number in range(len(rows))
        ]
        if plan.order == INTERLEAVED:
            assert {row.cell.label for row in rows} == {cell.label for cell in plan.spec.cells}


def test_blocks_hold_one_set_of_weights_with_the_reference_around_them() -> None:
    plan = plan_suite(spec_of(MIXED), samples_of(2), BLOCKS)
    blocks: list[list[SuiteRow]] = [[]]
    for row in plan.rows:
        if row.cell.label == REFERENCE:
            blocks.append([])
        else:
            blocks[-1].append(row)
    assert blocks[0] == []
    assert blocks[-1] == []
    sets = [{row.weights for row in block} for block in blocks[1:-1]]
    assert [len(found) for found in sets] == [1] * len(sets)
    assert len(set.union(*sets)) == len(sets)
    references = [row for row in plan.rows if row.cell.label == REFERENCE]
    assert [row.repeat for row in references] == list(range(len(sets) + 1))
    assert len({(row.sample.name, row.roles, row.cell.settings) for row in references}) == 1


def test_kept_visual_embeddings_are_warmed_up_for_every_sample() -> None:
    plan = plan_suite(spec_of({"settings": {"mode": "draft", "vision_cache": "memory"}}), samples_of(3))
    warm_ups = WarmUps(1, stays_loaded=True)
    assert [warm_ups.before(row) for row in plan.rows] == [1, 1, 1, 0, 0, 0]


def test_samples_that_lack_an_input_are_named_and_left_out() -> None:
    listed = [*samples_of(2), Sample("only.npy", name="events only")]
    plan = plan_suite(spec_of({"axes": {"mode": ["draft", "target"]}}), listed)
    assert Counter(row.cell.label for row in plan.rows) == {"draft": 6, "target": 4}
    (problem,) = plan.problems
    assert "events only" in problem
    assert "video" in problem
    assert "'target'" in problem


def test_nothing_to_measure_is_an_error() -> None:
    with pytest.raises(UserError, match="without video"):
        plan_suite(spec_of({"settings": {"mode": "target"}}), [Sample("only.npy", name="events only")])


ENDINGS = (
    (FINISHED, None, True),
    (FAILED, "Out of memory.", True),
    (FAILED, WRITER_GONE, False),
    (FAILED, f"{WRITER_GONE[:-1]}, or it still runs on elsewhere.", False),
    (CANCELLED, None, False),
    (RUNNING, None, False),
)


@given(plans, st.data())
def test_what_is_left_after_any_end_is_what_did_not_end_by_itself(plan: SuitePlan, data: st.DataObject) -> None:
    """Any rows of a plan may have been begun, and ended however: exactly those not done are left."""
    infos: list[RunInfo] = []
    done = 0
    for group, row in enumerate(plan.rows):
        roles = row.roles[: data.draw(st.integers(0, len(row.roles)))]
        endings = [data.draw(st.sampled_from(ENDINGS)) for _ in roles]
        infos += [
            info_of(row, role, len(infos) + number, status, error, group=group)
            for number, (role, (status, error, _)) in enumerate(zip(roles, endings, strict=True))
        ]
        done += len(roles) == len(row.roles) and all(is_done for *_, is_done in endings)
    progress = RowOutcomes(infos)
    assert sum(progress.is_done(row) for row in plan.rows) == done


def test_halves_of_two_groups_make_no_row() -> None:
    (row,) = plan_suite(spec_of({}, repeat=1), samples_of(1)).rows
    assert RowOutcomes([info_of(row, "draft", 1, group=1), info_of(row, "target", 2, group=1)]).is_done(row)
    assert not RowOutcomes([info_of(row, "draft", 1, group=1), info_of(row, "target", 3, group=2)]).is_done(row)


def test_only_the_last_attempt_counts() -> None:
    (row,) = plan_suite(spec_of({"settings": {"mode": "draft"}}, repeat=1), samples_of(1)).rows
    failed = info_of(row, "draft", 1, FAILED, "Out of memory.")
    assert not RowOutcomes([failed]).is_done(row, retry_failed=True)
    assert RowOutcomes([failed, info_of(row, "draft", 2)]).is_done(row, retry_failed=True)


def begun_as(raw: dict[str, Any], samples: list[Sample], repeat: int = 2, **changes: Any) -> dict[str, Any]:
    spec = replace(spec_of(raw, repeat), **changes)
    return suite_fact(plan_suite(spec, samples), fingerprint(spec, samples))


def check_goes_on(fact: Any, raw: dict[str, Any], samples: list[Sample], **changes: Any) -> None:
    check_same(fact, fingerprint(replace(spec_of(raw), **changes), samples))


def test_another_suite_is_told_from_the_one_begun() -> None:
    fact = begun_as(MIXED, samples_of(2))
    check_goes_on(fact, MIXED, samples_of(2))
    assert (fact["samples"], len(fact["cells"])) == (2, 5)
    plan = plan_suite(spec_of(MIXED), samples_of(2))
    assert fact["planned_runs"] == sum(len(row.roles) for row in plan.rows) > 20
    fewer, longer = {"cells": MIXED["cells"][:4]}, {**MIXED, "settings": {"max_new_tokens": 3}}
    other = [*samples_of(1), Sample("b.npy", "b.mp4", name="sample 1")]
    with pytest.raises(UserError, match="sample 'sample 1' is another one"):
        check_goes_on(fact, MIXED, other)
    with pytest.raises(UserError, match="is gone"):
        check_goes_on(fact, fewer, samples_of(2))
    with pytest.raises(UserError, match="is new"):
        check_goes_on(begun_as(fewer, samples_of(2)), MIXED, samples_of(2))
    with pytest.raises(UserError, match="has other settings"):
        check_goes_on(fact, longer, samples_of(2))
    with pytest.raises(UserError, match="warmup 1 then and 3 now"):
        check_goes_on(fact, MIXED, samples_of(2), warmup=3)
    with pytest.raises(UserError, match="processes 1 then and 2 now"):
        check_goes_on(fact, MIXED, samples_of(2), processes=2)
    with pytest.raises(UserError, match="not of a suite"):
        check_goes_on(None, MIXED, samples_of(2))


def test_a_suite_that_goes_on_with_less_counts_what_was_measured_and_not_what_was_asked() -> None:
    spec = spec_of(MIXED, repeat=2)
    measured = [key for row in plan_suite(spec, samples_of(3)).rows if row.repeat == 1 for key in row.keys]
    now = plan_suite(replace(spec, repeat=1), samples_of(1))
    fact = suite_fact(
        now, fingerprint(spec, samples_of(1)), before=begun_as(MIXED, samples_of(9), 40), measured=measured
    )
    assert (fact["samples"], fact["repeat"]) == (3, 2)
    assert fact["planned_runs"] == len(measured) + sum(len(row.roles) for row in now.rows)
    assert len(fact["fingerprint"]["samples"]) == 9, "a sample that changed is still noticed"


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.integers(1, 3),
    st.sampled_from((INTERLEAVED, BLOCKS)),
)
def test_rows_keep_their_keys_when_a_suite_grows(
    begun: tuple[int, int], more: tuple[int, int], sessions: int, order: str
) -> None:
    def keys(repeat: int, count: int) -> set[RowKey]:
        rows = plan_suite(replace(spec_of(MIXED, repeat), processes=sessions), samples_of(count), order).rows
        return {key for row in rows for key in row.keys}

    assert keys(*begun) <= keys(begun[0] + more[0], begun[1] + more[1])


def test_every_session_measures_all_rows_anew() -> None:
    spec = replace(parse_suite({"cells": [{"mode": "draft"}, {"mode": "target"}]}, "grid", repeat=2), processes=3)
    samples = [Sample(f"{name}.npy", f"{name}.mp4", name=name) for name in "ab"]
    for order in (INTERLEAVED, BLOCKS):
        rows = plan_suite(spec, samples, order).rows
        alone = plan_suite(replace(spec, processes=1), samples, order).rows
        assert [row.process for row in rows] == sorted(row.process for row in rows)
        assert len(rows) == 3 * len(alone)
        assert len({key for row in rows for key in row.keys}) == sum(len(row.keys) for row in rows)
        for session in range(3):
            found = Counter((row.cell.label, row.sample.name) for row in rows if row.process == session)
            assert found == Counter((row.cell.label, row.sample.name) for row in alone)
        numbers = [{row.turn.number for row in rows if row.turn and row.process == session} for session in range(3)]
        assert len(set.union(*numbers)) == sum(map(len, numbers)), "no turn spans two processes"
        if order == BLOCKS:
            assert rows[1].cell.label != rows[len(alone) + 1].cell.label, "no block always comes first"
