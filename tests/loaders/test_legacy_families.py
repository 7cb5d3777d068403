"""Answers side by side and drafts: what becomes runs, and what follows from what."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

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
    value["samples"][1]["accepted_tokens"] = 3
    _, _, _, told = read(tmp_path, value)
    assert "results.total_accepted_tokens is 3 in the file, but its rows give" in told
    assert "accepted_tokens is 3 where 1 ids are equal at their places (1 of 3 rows: row 1)" in told
    assert "acceptance_rate is not what its own row gives (1 of 3 rows: row 1)" in told


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
