"""Columns, ratios, intervals, contributions, generation and token match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from evprof.core.errors import UserError
from evprof.core.run_info import Turn
from evprof.metrics.comparison.differences import (
    configuration_token_match,
    difference_of,
    names_of,
)
from evprof.metrics.comparison.document import compare_document
from evprof.metrics.comparison.rows import comparison_rows
from evprof.metrics.configurations.gathering import Configuration, configurations_of


@pytest.fixture
def pair(script, plain_writer):
    """The plain run, and one of twice the stage times with two more tokens, ids differing at one place."""
    slow = plain_writer(script(2), scale=2.0, tokens=(7, 5, 9, 4, 6, 2))
    return plain_writer(script(1)), slow


def test_rows(pair) -> None:
    rows = {row.metric: row for row in comparison_rows(configurations_of(pair))}
    assert rows["total_ms"].values == [180, 360]
    assert rows["total_ms"].ratio == [1, 2]
    assert rows["total_ms"].ci95 is None
    assert rows["inter_token_latency_ms"].values == [30, 36]
    assert rows["visual_tokens"].ratio == [1, 1]
    assert rows["decode_throughput_tok_s"].lower_is_better is False
    assert "peak_allocated_bytes" not in rows
    assert "draft_acceptance_rate" not in rows


def test_single_runs_claim_nothing_but_what_is_counted(pair) -> None:
    """Twice the time once each is no difference known; other numbers of positions are."""
    pair[1].info.lengths["target"] = replace(pair[1].info.lengths["target"], visual=16)
    rows = {row.metric: row for row in comparison_rows(configurations_of(pair))}
    assert rows["total_ms"].ratio[1] == 2
    assert not rows["total_ms"].differing[1]
    assert rows["visual_tokens"].ci95 is None
    assert rows["visual_tokens"].differing[1]
    assert any("not called: " in note for note in rows["total_ms"].notes)


def test_document_and_bases(pair) -> None:
    first, second = configurations_of(pair)
    document = compare_document([first, second], first, "without-load")
    assert (document["schema_version"], document["basis"], document["baseline"]) == (1, "without-load", 1)
    assert {row["metric"]: row["values"] for row in document["rows"]}["total_ms"] == [170, 340]
    assert {row["metric"] for row in document["rows"]}.isdisjoint({"load_ms"})
    assert set(document["rows"][0]) >= {"metric", "unit", "values", "ratio", "ci95", "delta", "counts"}
    against_second = compare_document([first, second], second, "model-only")
    assert against_second["baseline"] == 2
    assert against_second["rows"][0]["ratio"] == [0.5, 1]


def scaled(script, plain_writer, first: int, scales: Sequence[float], mode: str = "target") -> Configuration:
    """Runs of one request, a turn each, whose stages take `scales` times the plain run's."""
    runs = []
    for place, scale in enumerate(scales):
        run = plain_writer(script(first + place, mode=mode, role="draft" if mode == "draft" else "target"), scale=scale)
        run.info.environment["engine_session"] = f"{place}"
        run.info.turn = Turn("series", place, first > 50)
        runs.append(run)
    return Configuration(tuple(runs))


SIX = (1.0, 1.02, 0.98, 1.01, 0.99, 1.0)


def test_a_clear_difference_is_explained_by_its_largest_stages(script, plain_writer) -> None:
    """In the order of size, with the sign of the side that takes longer, whichever of both is the baseline."""
    short = scaled(script, plain_writer, 1, SIX, "draft")
    long = scaled(script, plain_writer, 101, [2.01 * scale for scale in SIX])
    parts = ": decode +90.9 ms. Means of runs 101, 102, 103, 104, 105, 106 and runs 1, 2, 3, 4, 5, 6."
    for sides in ((short, long), (long, short)):
        difference = difference_of(*sides)
        assert difference.why(("A", "B") if sides[0] is short else ("B", "A")).startswith("B takes 2.01")
        assert difference.why().endswith(parts)
        assert sum(part.delta_ms for part in difference.parts) == pytest.approx(difference.total.delta)


def test_the_reason_stands_where_a_difference_is_not_called(pair) -> None:
    one, other = (Configuration((run,)) for run in pair)
    sentence = difference_of(one, other).why(("A", "B"))
    assert sentence.startswith("B takes 2.00× as long as A (+180 ms: decode +90.0 ms), not called: ")
    assert sentence.endswith(". Run 2 and run 1.")


def test_equal_sides_cannot_be_told_apart(script, plain_writer) -> None:
    one, other = scaled(script, plain_writer, 1, SIX), scaled(script, plain_writer, 101, SIX[::-1])
    sentence = difference_of(one, other).why(("A", "B"))
    assert "cannot be told apart: " in sentence
    assert "decode" not in sentence


def test_columns_have_an_order_whatever_that_of_the_turns(script, plain_writer) -> None:
    modes = (("speculative", "target"), ("target", "target"), ("draft", "draft"))
    runs = [plain_writer(script(n, mode=mode, role=role)) for n, (mode, role) in enumerate(modes, 1)]
    for run in runs:
        run.info.turn = Turn("series", 0, run.run_id)
    assert [column.run_id for column in configurations_of(runs)] == [3, 2, 1]
    for run in runs:
        run.info.turn = None
    assert [column.run_id for column in configurations_of(runs)] == [1, 2, 3]


def test_times_of_both_models_are_neither_better_nor_worse(script, plain_writer) -> None:
    plain = scaled(script, plain_writer, 1, SIX)
    both = scaled(script, plain_writer, 101, [2.01 * scale for scale in SIX], "speculative")
    alone = scaled(script, plain_writer, 201, [2.01 * scale for scale in SIX])
    for other, is_marked in ((both, False), (alone, True)):
        rows = {row.metric: row for row in comparison_rows([plain, other])}
        assert rows["total_ms"].judge(1) == "bad"
        assert (rows["prefill_ms"].judge(1) == "bad") is is_marked


def test_both_models_together_are_under_no_model_name(script, plain_writer) -> None:
    """The times of a speculative run are of draft and target."""
    names = names_of(
        *(Configuration((plain_writer(script(n, mode=mode)),)) for n, mode in enumerate(("target", "speculative"), 1))
    )
    assert names[1] == "Speculative (both models)"


def test_token_match_counts_equal_places(pair) -> None:
    assert configuration_token_match(*(Configuration((run,)) for run in pair)) == {
        "definition": "same id at the same position",
        "matched": 2,
        "compared": 4,
        "rate": 0.5,
    }


def test_warm_up_and_profiled_runs_stay_out(script, plain_writer) -> None:
    runs = [plain_writer(script(number)) for number in (1, 2, 3)]
    runs[0].info.warmup = True
    runs[2].info.profiled = True
    (only,) = configurations_of(runs)
    assert [run.run_id for run in only.runs] == [2]
    with pytest.raises(UserError, match="at least two runs"):
        compare_document([only], only)


def test_an_unknown_basis_is_wrong_usage(pair) -> None:
    listed = configurations_of(pair)
    with pytest.raises(UserError, match="end-to-end") as caught:
        compare_document(listed, listed[0], "wall")
    assert caught.value.exit_code == 2


def test_repeats_are_one_column_with_an_interval(script, plain_writer) -> None:
    runs = []
    for number, scale in enumerate((1.0, 1.1, 1.0, 1.1, 1.3, 2.0, 2.3, 2.2, 2.3, 2.2)):
        run = plain_writer(script(number + 1), scale=scale)
        run.info.group_id, run.info.turn = number // 5, Turn("series", number % 5, 0)
        runs.append(run)
    first, second = configurations_of(runs)
    row = comparison_rows([first, second])[0]
    assert row.values == pytest.approx([180 * 1.1, 180 * 2.2])
    assert row.ratio[1] == pytest.approx(2)
    assert row.ci95[0] is None
    low, high = row.ci95[1]
    assert low < 2 < high
    assert row.differing[1]


def test_a_first_repeat_that_warms_up_is_noted(script, plain_writer) -> None:
    runs = [plain_writer(script(number), scale=scale) for number, scale in enumerate((5, 1, 1.1, 1, 1.05, 1), start=1)]
    steady = [plain_writer(script(number), scale=scale) for number, scale in enumerate((1, 1.1, 1, 1.05, 1), start=11)]
    for run in (*runs, *steady):
        run.info.group_id = 1 if run.run_id < 10 else 2
    rows = comparison_rows(configurations_of([*runs, *steady]))
    assert ["first 1 of 6 runs took much longer" in note for note in rows[0].notes] == [True, False]


def test_the_memory_of_two_processes_claims_nothing(script, plain_writer) -> None:
    """Two processes of one request hold some pages more or less, and each the same in all of its runs."""
    runs = [plain_writer(script(number)) for number in range(1, 7)]
    for run in runs:
        run.info.environment = {"engine_session": "a" if run.run_id <= 3 else "b"}
        run.info.memory = replace(run.info.memory, peak_rss_bytes=9_000_000 + run.run_id + 8_000 * (run.run_id > 3))
    columns = [Configuration(tuple(part)) for part in (runs[:3], runs[3:])]
    row = {row.metric: row for row in comparison_rows(columns)}["peak_rss_bytes"]
    assert not row.differing[1]
    assert row.ci95 is None
    assert ["one process each" in note for note in row.notes] == [True]


def test_runs_outside_common_turns_are_not_in_the_ratio(script, plain_writer) -> None:
    paces = (9, 1.1, 1, 1, 1, 1, 2, 2, 2, 2, 2.1, 2.0)
    runs = [plain_writer(script(number), scale=scale) for number, scale in enumerate(paces)]
    for run in runs[1:]:
        run.info.turn = Turn("series", run.run_id % 6, 0)
    columns = [Configuration(tuple(part)) for part in (runs[:6], runs[6:])]
    rows = {row.metric: row for row in comparison_rows(columns)}
    assert rows["load_ms"].values == pytest.approx([10 * sum(paces[:6]) / 6, 10 * sum(paces[6:]) / 6])
    assert rows["load_ms"].delta == pytest.approx([0, 10])
    note = "difference and ratio over the 5 of 6 runs of the baseline and 5 of 6 of its own that ran in common turns"
    assert [note in said for said in rows["load_ms"].notes] == [True]
    assert not rows["visual_tokens"].notes
