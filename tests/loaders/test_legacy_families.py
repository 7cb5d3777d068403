"""Answers side by side, drafts, trainings and statistics alone: what becomes runs, and what follows from what."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evprof.core.errors import UserError
from evprof.loaders.legacy.checks import FileProblems
from evprof.loaders.legacy.family import open_legacy
from evprof.loaders.legacy.reading import Published
from evprof.loaders.legacy.rows import LegacyRow
from evprof.loaders.legacy.statistics_check import Recomputed


def written(folder: Path, value: Any) -> Path:
    path = folder / "result.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def read(folder: Path, value: Any) -> tuple[list[LegacyRow], Published, dict[str, float], str]:
    """Its rows, what it publishes, what its statistics are by its rows, and everything that was told of it."""
    file = open_legacy(written(folder, value))
    problems = FileProblems()
    reader, rows = file.read(problems)
    recomputed = Recomputed(reader.published.statistics, reader.published.computed)
    listed = list(rows)
    for row in listed:
        recomputed.add(row)
    recomputed.compare(reader.published.told or {}, problems)
    told = "\n".join(problems.sentences(file.preview.rows))
    return listed, reader.published, recomputed.values(is_steady=False), told


def test_an_answer_begins_behind_the_prompt_that_its_ids_begin_with(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    rows, _, _, told = read(tmp_path, legacy_shapes.four_stages(4))
    draft, target = rows[0], rows[4]
    assert [entry.covers for entry in target.intervals] == [
        ("load",),
        ("preprocess",),
        ("vision",),
        ("prefill", "decode"),
    ]
    assert (target.token_ids, target.output_tokens) == ((450, 6, 2), 3)
    assert target.lengths is not None
    assert (target.lengths.input, target.lengths.visual) == (583, 576)
    assert target.figures["published_output_tokens"] == 586
    assert (draft.output_tokens, draft.group, draft.mode) == (3, target.group, "side-by-side")
    assert "begin with the 583 ids of the prompt" in told
    assert "its acceptance is of no answer" in told
    assert "not 100 as its settings say" in told


@pytest.mark.parametrize(
    "shape",
    [
        *("four_stages", "matched_answers", "shared_decoder", "word_estimates", "token_lists", "verified_drafts"),
        *("mock_steps", "two_phases"),
    ],
)
def test_what_a_file_says_of_its_rows_follows_from_them(shape: str, legacy_shapes: ModuleType, tmp_path: Path) -> None:
    _, published, found, told = read(tmp_path, getattr(legacy_shapes, shape)())
    assert published.told
    known = published.told.keys() & found.keys()
    assert known
    assert all(found[name] == pytest.approx(published.told[name], rel=1e-6) for name in known)
    assert "but its rows give" not in told


def test_a_statistic_that_does_not_follow_is_told(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    value = legacy_shapes.matched_answers()
    value["results"]["theoretical_speedup"] = 2.0
    value["samples"][1]["accepted_tokens"] = 3
    _, _, _, told = read(tmp_path, value)
    assert "results.theoretical_speedup is 2 in the file, but its rows give" in told
    assert "accepted_tokens is 3 where 1 ids are equal at their places (1 of 3 rows: row 1)" in told
    assert "acceptance_rate is not what its own row gives (1 of 3 rows: row 1)" in told


def test_whole_answers_stay_in_one_piece(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    rows, _, _, told = read(tmp_path, legacy_shapes.matched_answers())
    assert [entry.covers for entry in rows[0].intervals] == [("vision", "prefill", "decode")]
    assert rows[1].figures == {"published_equal_tokens": 1.0, "published_compared_tokens": 3.0}
    assert rows[0].token_ids == (5, 6, 2)
    assert "no draft was verified" in told


def test_an_empty_answer_is_a_failure_and_no_zero(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    rows, _, _, told = read(tmp_path, legacy_shapes.shared_decoder())
    assert [row.error for row in rows] == ["the answer is empty", None, None, None, None, None]
    assert rows[0].output_tokens is None
    assert "draft: the answer is empty (1 of 3 rows: row 0)" in told
    value = legacy_shapes.word_estimates()
    for row in value["results"]:
        row |= {"egpt_tokens": 0, "egpt_text": ""}
    assert [row.error for row in read(tmp_path, value)[0]] == ["the answer is empty", None] * 3


def test_times_of_nobody_knows_what_are_figures_and_no_stages(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    rows, _, _, told = read(tmp_path, legacy_shapes.word_estimates())
    assert not any(row.intervals for row in rows)
    assert (rows[0].figures, rows[0].output_tokens, rows[0].error) == ({"published_time_ms": 400.0}, 40, None)
    assert "not public" in told
    assert "no share of accepted tokens" in told


def test_an_adapter_has_a_configuration_of_its_own(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    rows, _, found, _ = read(tmp_path, legacy_shapes.token_lists())
    assert [row.cell for row in rows[:3]] == [
        "EventGPT 4bit",
        "EventGPT 4bit, through a token adapter",
        "Video-LLaVA 4bit",
    ]
    assert found["summary.consecutive_distribution.2"] == 3
    value = legacy_shapes.token_lists()
    for row in value["results"]:
        del row["adapter_tokens"], row["adapter_text"]
    assert len(read(tmp_path, value)[0]) == 6


def test_a_verified_draft_counts_everything_that_was_timed(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    rows, _, found, told = read(tmp_path, legacy_shapes.verified_drafts())
    plain, drafted = rows[0], rows[1]
    assert [entry.covers for entry in plain.intervals] == [("preprocess", "vision", "prefill", "decode")]
    assert sum(entry.duration_ms for entry in drafted.intervals) == pytest.approx(90 + 300 + 315 + 65 + 220)
    assert [(entry.role, entry.covers[-1]) for entry in drafted.intervals] == [
        ("draft", "prefill"),
        ("draft", "decode"),
        ("target", "prefill"),
        ("target", "decode"),
    ]
    assert (drafted.figures["drafted_tokens"], drafted.figures["accepted_tokens"]) == (4, 0)
    assert found["summary.output_match_rate"] == 0
    assert "leave out EventGPT's prefill and draft" in told
    assert "not lossless (3 of 3 rows, first row 0)" in told


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ("feature_similarity", "improvement.acceptance_gain_0.8"),
        ("feature_similarity", "timing.samples_per_second"),
        ("hidden_state_acceptance", "e2e_sd_time_ms"),
        ("hidden_state_acceptance", "cosim_90_count"),
        ("hidden_state_acceptance", "sd_accept_rate_prefill_gamma"),
        ("two_phases", "sd_time_ms"),
        ("token_adapter_training", "best_val_acc"),
        ("token_adapter_training", "final.train.samples_per_sec"),
        ("mock_steps", "step_statistics.step2: encode.std_dev"),
    ],
)
def test_files_of_statistics_make_no_runs_and_are_worked_out_again(
    shape: str, name: str, legacy_shapes: ModuleType, tmp_path: Path
) -> None:
    value = getattr(legacy_shapes, shape)()
    rows, published, found, _ = read(tmp_path, value)
    assert rows == []
    assert published.told is not None
    assert found[name] == pytest.approx(published.told[name], rel=1e-6)
    *path, last = name.split(".", 2) if name.startswith(("step", "final")) else name.split(".", 1)
    inner = value
    for key in path:
        inner = inner[key]
    inner[last] = 77.0
    assert f"{name} is 77 in the file, but its rows give" in read(tmp_path, value)[3]


def test_lists_are_kept_by_what_they_step_through(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    expected = {
        "training_history": ("epoch", "val_loss", 5),
        "position_statistics": ("position", "mean", 4),
        "hidden_state_acceptance": ("position", "position_accept_90", 3),
        "token_adapter_training": ("epoch", "val_acc", 2),
        "feature_similarity": ("sample", "cos_sim_after", 2),
        "mock_steps": ("run", "total_times", 3),
    }
    for shape, (axis, name, count) in expected.items():
        series = read(tmp_path, getattr(legacy_shapes, shape)())[1].series
        assert series is not None, shape
        assert (series.axis, len(series.values[name])) == (axis, count)


def test_what_counts_nothing_is_named_as_such(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    skipped = read(tmp_path, legacy_shapes.two_phases())[1].over_nothing
    assert skipped == {"phase1_prefill_top1", "phase1_free_tokens", "phase1_time_saved_ms"}
    assert not read(tmp_path, legacy_shapes.two_phases(has_prefill=True))[1].over_nothing
    empty = read(tmp_path, legacy_shapes.token_adapter_training())[1].over_nothing
    assert {name.rsplit(".", 1)[0] for name in empty} == {"final.test.timing_stats.eventgpt.stage1"}
    assert read(tmp_path, legacy_shapes.mock_steps())[1].over_nothing == {"step_statistics.step3: generate.std_dev"}


def test_what_was_modelled_or_slept_is_said_so(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    assert "none was measured" in read(tmp_path, legacy_shapes.hidden_state_acceptance())[3]
    assert "No model ran" in read(tmp_path, legacy_shapes.mock_steps())[3]
    told = read(tmp_path, legacy_shapes.token_adapter_training())[3]
    assert "The best epoch was chosen on the test set" in told
    assert "val_accept_80 is the same in all epochs" in read(tmp_path, legacy_shapes.training_history())[3]
    assert "of 1,000 samples and the file lists 2" in read(tmp_path, legacy_shapes.feature_similarity())[3]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"task": "L1", "adapter": {}, "data": {}, "training": {}}, "settings of a training"),
        ([{"id": "a", "event_data": "a.npy", "conversations": []}], "questions and answers"),
        ([{"sequence_name": "s", "left_events": {}}], "list of event recordings"),
        ([{"question": "What?", "count": 3}], "count of the questions"),
        ({"features": {}, "splits": {}}, "description of a data set"),
        ({"source": "x.json", "num_samples": 5, "extracted_at": "2026"}, "description of extracted outputs"),
        (["a", "b"], "list of names"),
        ({str(token): token for token in range(200)}, "table of token ids"),
    ],
)
def test_a_file_without_measurements_is_refused_by_what_it_is(value: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"holds no measurements: it is .*{words}"):
        open_legacy(written(tmp_path, value))
