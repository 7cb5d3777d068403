"""Configurations over a dataset: means over samples, ratios in pairs, parts that add up, failures, attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from evprof.core.run_info import Turn
from evprof.core.run_log import RunLog
from evprof.metrics.comparison.document import compare_document, pair_document
from evprof.metrics.comparison.rows import comparison_rows
from evprof.metrics.configurations.gathering import configurations_of, failed_only
from evprof.metrics.figures import decoding, stages
from evprof.metrics.figures.stages import BASES

SAMPLES = ("a", "b", "c", "d", "e")
Cell = Callable[..., list[RunLog]]


@pytest.fixture
def cell(script, plain_writer) -> Cell:
    """Makes the runs of one configuration: by sample a scale of the plain run, and repeats that are noisy about it."""

    def make(
        name: str,
        first_id: int,
        scales: dict[str, float],
        repeats: int = 1,
        *,
        mode: str = "target",
        role: str = "target",
    ) -> list[RunLog]:
        chance = np.random.default_rng(first_id)
        runs: list[RunLog] = []
        for repeat in range(repeats):
            for sample, scale in scales.items():
                builder = script(first_id + len(runs), role=role, mode=mode)
                run = plain_writer(builder, scale=scale * chance.uniform(0.9, 1.1))
                run.info.cell, run.info.repeat, run.info.turn = name, repeat, Turn("series", repeat, 0)
                run.info.sample = replace(run.info.sample, name=sample, video_path=f"{sample}.mp4")
                runs.append(run)
        return runs

    return make


def scales(times: float = 1.0) -> dict[str, float]:
    return {sample: times * (1 + place) for place, sample in enumerate(SAMPLES)}


def by_sample(runs: list[RunLog]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for run in runs:
        found.setdefault(run.info.sample.name, []).append(stages.total_ms(run) or 0)
    return {name: fmean(values) for name, values in found.items()}


def test_a_cell_is_one_column_with_means_over_samples(cell) -> None:
    slow, fast = cell("8 frames", 1, scales(), 3), cell("1 frame", 101, scales(0.5), 3)
    listed = configurations_of([*slow, *fast], "s.evprof")
    assert [(column.label, column.is_cell, len(column.runs)) for column in listed] == [
        ("8 frames", True, 15),
        ("1 frame", True, 15),
    ]
    assert list(listed[0].samples()) == [(name, "What?") for name in SAMPLES]
    assert all(len(runs) == 3 for runs in listed[0].samples().values())
    row = comparison_rows(listed)[0]
    one, two = (list(by_sample(runs).values()) for runs in (slow, fast))
    assert row.values == pytest.approx([fmean(one), fmean(two)])
    assert row.ratio == pytest.approx([1, fmean(two) / fmean(one)])
    assert row.delta == pytest.approx([0, fmean(two) - fmean(one)])
    assert (row.counts, row.paired_counts) == ([5, 5], [None, 5])
    assert row.ci95[0] is None
    low, high = row.ci95[1]
    assert low < fmean(two) / fmean(one) < high
    assert row.differing[1]
    assert not row.differing[0]


def test_ratios_are_over_the_samples_that_both_measured(cell) -> None:
    slow, fast = cell("8 frames", 1, scales()), cell("1 frame", 101, scales(0.5))[1:]
    row = comparison_rows(configurations_of([*slow, *fast]))[0]
    assert (row.counts, row.paired_counts) == ([5, 4], [None, 4])
    one, two = by_sample(slow), by_sample(fast)
    assert row.ratio[1] == pytest.approx(fmean(two.values()) / fmean(one[name] for name in two))
    assert row.values == pytest.approx([fmean(one.values()), fmean(two.values())])


def test_without_a_sample_in_common_means_are_compared_as_they_are(cell) -> None:
    slow = cell("8 frames", 1, scales())
    other = cell("1 frame", 101, {f"{name}2": scale for name, scale in scales(0.5).items()})
    listed = configurations_of([*slow, *other])
    row = comparison_rows(listed)[0]
    one, two = (list(by_sample(runs).values()) for runs in (slow, other))
    assert row.ratio[1] == pytest.approx(fmean(two) / fmean(one))
    assert row.paired_counts == [None, None]
    assert row.ci95 is None
    pair = pair_document(listed[0], listed[1])
    assert pair["samples"] is None
    assert sum(part["delta_ms"] for part in pair["contributions"]) == pytest.approx(fmean(two) - fmean(one))
    assert pair["token_match"]["rate"] is None


@pytest.mark.parametrize("basis", BASES)
def test_parts_of_cells_add_up_to_the_difference_of_means(cell, basis: str) -> None:
    slow, fast = cell("8 frames", 1, scales(), 3)[2:], cell("1 frame", 101, scales(0.5), 3)[2:]
    listed = configurations_of([*slow, *fast])
    pair = pair_document(listed[0], listed[1], basis)
    assert pair["samples"] == 5
    one, two = (
        {name: fmean(stages.total_ms(run, basis) or 0 for run in runs) for name, runs in found}
        for found in (column.samples().items() for column in listed)
    )
    differences = [two[name] - one[name] for name in one]
    assert sum(part["delta_ms"] for part in pair["contributions"]) == pytest.approx(fmean(differences))
    assert sum(part["share"] for part in pair["contributions"]) == pytest.approx(1)
    assert {part["stage"] for part in pair["contributions"]} >= {"vision", "prefill", "decode"}
    means = [
        {name: fmean(stages.stage_ms(run, "decode") or 0 for run in runs) for name, runs in column.samples().items()}
        for column in listed
    ]
    part = next(part for part in pair["contributions"] if part["stage"] == "decode")
    low, high = part["ci95"]
    assert low < fmean(means[1][name] - means[0][name] for name in means[0]) < high


def test_generation_of_cells_is_the_ratio_of_mean_decode_times(cell, script, plain_writer) -> None:
    slow, fast = cell("8 frames", 1, scales()), []
    for place, name in enumerate(SAMPLES):
        run = plain_writer(script(101 + place), scale=0.5, tokens=tuple(range(5 + place)))
        run.info.cell, run.info.sample = "1 frame", replace(run.info.sample, name=name)
        fast.append(run)
    one, two = configurations_of([*slow, *fast])
    pair = pair_document(one, two)
    decode = [fmean(stages.stage_ms(run, "decode") or 0 for run in runs) for runs in (slow, fast)]
    steps = [fmean(decoding.decode_steps(run) or 0 for run in runs) for runs in (slow, fast)]
    assert pair["generation"]["product"] == pytest.approx(decode[1] / decode[0])
    assert pair["generation"]["token_count_ratio"] == pytest.approx(steps[1] / steps[0])
    # (7, 8, 9, 2) against (0, 1, 2, …): nothing matches but the last of nobody.
    assert pair["token_match"]["compared"] == 20
    assert pair["token_match"]["matched"] == 0


def test_failures_are_counted_and_warm_up_is_not(cell) -> None:
    slow, fast = cell("8 frames", 1, scales()), cell("1 frame", 101, scales())
    slow[0].info.status, slow[1].info.status = "failed", "cancelled"
    slow[2].info.warmup = True
    for run in fast:
        run.info.status = "failed"
    (column,) = configurations_of([*slow, *fast])
    assert (column.label, len(column.runs), column.failures) == ("8 frames", 2, 2)
    assert [run.run_id for run in failed_only([*slow, *fast])] == [101, 102, 103, 104, 105]


def test_of_a_row_begun_again_the_last_attempt_counts(cell) -> None:
    runs = cell("8 frames", 1, scales())
    killed, again = cell("8 frames", 101, {"a": 1.0}), cell("8 frames", 201, {"b": 9.0})
    runs[0].info.status = "failed"
    killed[0].info.status = "finished"
    (column,) = configurations_of([*runs, *killed, *again])
    assert sorted(run.run_id for run in column.runs) == [3, 4, 5, 101, 201]
    assert column.failures == 0


def test_both_models_of_a_side_by_side_cell_are_columns(cell) -> None:
    drafts = cell("both", 1, scales(0.5), mode="side-by-side", role="draft")
    targets = cell("both", 101, scales(), mode="side-by-side")
    for run in drafts:
        model = run.info.models["draft"]
        run.info.models["draft"] = type(model)(**{**vars(model), "name": "eventgpt"})
    listed = configurations_of([*drafts, *targets])
    assert [column.label for column in listed] == ["both · eventgpt", "both · tiny"]
    assert comparison_rows(listed)[0].paired_counts == [None, 5]


def test_every_other_column_has_its_pair(cell) -> None:
    listed = configurations_of([*cell("a", 1, scales()), *cell("b", 101, scales(2)), *cell("c", 201, scales(3))])
    document = compare_document(listed, listed[1])
    assert [pair["label"] for pair in document["pairs"]] == ["a", "c"]
    assert document["contributions"] == document["pairs"][0]["contributions"]
    assert [column["is_baseline"] for column in document["columns"]] == [False, True, False]
    assert [column["samples"] for column in document["columns"]] == [5, 5, 5]
    assert sum(part["delta_ms"] for part in document["pairs"][1]["contributions"]) > 0
