"""Stages that an imported file timed in one piece: never split, compared with the same stages of others together."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import STAGES
from evprof.core.run_info import ImportedFacts
from evprof.core.run_log import RunLog
from evprof.metrics.comparison.differences import common_blocks, difference_of
from evprof.metrics.comparison.document import compare_document, setting_rows
from evprof.metrics.comparison.rows import ComparisonRow, comparison_rows
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.figures import stages
from evprof.metrics.figures.partition import StagePartition, answers, composites, partition

FACTS: dict[str, Any] = {"path": "old.json", "family": "old", "row": 1}


def alone(run: RunLog) -> Configuration:
    return Configuration((run,))


@pytest.fixture
def imported(script):
    """An imported run: its intervals end to end, by name and ms."""

    def make(run_id: int, *spans: tuple[str, float], output_tokens: int | None = None, **changes: object) -> RunLog:
        run = script(run_id)
        run.begin(
            start_ns=0, imported=ImportedFacts(**FACTS, output_tokens=output_tokens), models={}, lengths={}, **changes
        )
        at = -5000.0  # the script counts from its zero, 5 s
        for name, length in spans:
            run.span(name, at, at + length)
            at += length
        log = run.log()
        log.info.status = "finished"
        return log

    return make


def rows_of(listed, basis: str = "end-to-end") -> dict[str, ComparisonRow]:
    return {row.metric: row for row in comparison_rows(listed, 0, basis)}


def columns_of(*runs: RunLog) -> list[Configuration]:
    return [Configuration((run,)) for run in runs]


def test_a_piece_is_compared_with_its_stages_together(plain_run, imported) -> None:
    rows = rows_of(columns_of(plain_run, imported(2, ("preprocess", 40), ("vision+prefill", 110), ("decode", 45))))
    assert list(rows)[:8] == [
        "total_ms",
        "time_to_first_token_ms",
        "load_ms",
        "preprocess_ms",
        "vision_ms",
        "prefill_ms",
        "vision+prefill_ms",
        "decode_ms",
    ]
    assert rows["vision+prefill_ms"].values == [55, 110]
    assert rows["vision+prefill_ms"].ratio == [1, 2]
    assert rows["vision_ms"].values == [30, None]
    assert rows["prefill_ms"].values == [25, None]
    assert rows["vision_ms"].ratio == [1, None]
    assert not rows["vision_ms"].differing[1]
    assert rows["decode_ms"].delta == [0, -45]
    assert rows["load_ms"].counts == [1, 0]


def test_what_only_one_side_measured_is_the_remainder(plain_run, imported) -> None:
    old = imported(2, ("preprocess", 40), ("vision+prefill", 110), ("decode", 45))
    parts = difference_of(alone(plain_run), alone(old), "without-load").parts
    by_stage = {part.stage: part.delta_ms for part in parts}
    # The file has no wall of its own, so the 5 ms that none of our stages covers have no counterpart.
    assert by_stage == {"preprocess": 20, "vision+prefill": 55, "decode": -45, "remainder": -5}
    assert sum(by_stage.values()) == (stages.total_ms(old, "without-load") or 0) - 170


def test_columns_are_divided_by_what_all_of_them_can_tell(plain_run, imported) -> None:
    listed = columns_of(
        plain_run,
        imported(2, ("vision+prefill", 110), ("decode", 45)),
        imported(3, ("vision", 10), ("prefill+decode", 60)),
    )
    assert common_blocks(listed, "model-only") == [("vision", "prefill", "decode")]
    document = compare_document(listed, listed[0], "model-only")
    assert [[part["stage"] for part in pair["contributions"]] for pair in document["pairs"]] == [
        ["vision+prefill+decode"]
    ] * 2
    rows = rows_of(listed, "model-only")
    assert rows["vision+prefill_ms"].values == [55, 110, None]
    assert rows["prefill+decode_ms"].values == [115, None, 60]
    assert rows["vision+prefill+decode_ms"].values == [145, 155, 70]
    assert rows["vision_ms"].values == [30, None, 10]


def test_a_stage_that_holds_another_once_more_is_noted(plain_run, imported) -> None:
    old = imported(2, ("vision", 30), ("vision+prefill", 80), ("decode", 45))
    rows = rows_of(columns_of(plain_run, old))
    assert (rows["vision_ms"].values, rows["prefill_ms"].values) == ([30, 30], [25, None])
    assert rows["vision+prefill_ms"].values == [55, 110]
    note, few = rows["vision+prefill_ms"].notes
    assert "prefill holds vision once more" in note
    assert few.endswith("no sample in common.")
    assert rows["vision_ms"].notes == [few]
    assert rows["vision+prefill_ms"].to_json()["notes"] == [note, few]


def test_figures_of_the_file_stand_where_nothing_was_measured(plain_run, imported) -> None:
    old = imported(2, ("vision+prefill", 110), ("decode", 45))
    old.info.imported = ImportedFacts(**FACTS, figures={"visual_tokens": 576.0, "total_ms": 1.0})
    rows = rows_of(columns_of(plain_run, old))
    assert rows["visual_tokens"].values == [8, 576]
    assert rows["total_ms"].values == [180, None]


def test_settings_nobody_told_are_no_difference(plain_run, imported) -> None:
    told = {row.key: row for row in setting_rows(columns_of(plain_run, imported(2, ("decode", 45))))}
    assert told["max_new_tokens"].values == ["16", "16"]  # the script's settings name it
    assert told["ignore_eos"].values[1] is None
    assert not told["ignore_eos"].differs


def test_overlapping_stages_are_told_as_overlap(script, plain_run) -> None:
    run = script(2)
    run.begin()
    for name, start, end in (("load", 0, 10), ("preprocess", 10, 30), ("vision", 20, 60), ("prefill", 60, 85)):
        run.span(name, start, end)
    run.span("decode", 85, 175)
    parts = {part.stage: part.delta_ms for part in difference_of(alone(plain_run), alone(run.end(180))).parts}
    # Vision took 10 ms more, which lay within preprocessing.
    assert parts["vision"] == 10
    assert parts["overlap"] == -10
    assert sum(parts.values()) == 0


@st.composite
def shapes(draw) -> StagePartition:
    """A division of the five stages into neighbours."""
    cuts = draw(st.sets(st.integers(1, 4)))
    edges = [0, *sorted(cuts), 5]
    return StagePartition(frozenset(STAGES[start:stop] for start, stop in pairwise(edges)), frozenset())


@given(st.lists(shapes(), min_size=1, max_size=4))
def test_the_partition_is_the_finest_that_all_can_answer(listed: list[StagePartition]) -> None:
    found = partition(listed)
    assert sorted(name for block in found for name in block) == sorted(STAGES)
    assert all(answers(shape, block) for shape in listed for block in found)
    for block in found:
        for size in range(1, len(block)):
            assert not any(all(answers(shape, part) for shape in listed) for part in combinations(block, size))
    assert {block for block in found if len(block) > 1} <= set(composites(listed))
