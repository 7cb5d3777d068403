"""Result files of earlier scripts: told by content, and read by what their times really cover."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evprof.core.errors import UserError
from evprof.loaders.legacy.checks import FileProblems
from evprof.loaders.legacy.family import is_legacy, open_legacy
from evprof.loaders.legacy.rows import LegacyRow
from evprof.loaders.legacy.statistics_check import Recomputed
from evprof.loaders.probe import probe


def written(folder: Path, value: Any, name: str = "result.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def read(path: Path) -> tuple[str, list[LegacyRow], list[str]]:
    file = open_legacy(path)
    problems = FileProblems()
    _, rows = file.read(problems)
    listed = list(rows)
    return file.family.name, listed, problems.sentences(file.preview.rows)


def told(problems: list[str], *words: str) -> bool:
    return any(all(word in problem for word in words) for problem in problems)


SHAPES = {
    "one_vs_eight": "one-vs-eight",
    "sample_rows": "per-sample rows",
    "five_stages": "five stages",
    "end_to_end": "end to end",
    "with_errors": "prefill rows",
    "prefill_rows": "prefill rows",
    "four_stages": "four stages",
    "matched_answers": "matched answers",
    "shared_decoder": "matched answers",
    "word_estimates": "matched answers",
    "token_lists": "matched answers",
    "verified_drafts": "verified drafts",
}


@pytest.mark.parametrize(("shape", "family"), SHAPES.items())
def test_every_family_is_told_by_its_content(
    shape: str, family: str, legacy_shapes: ModuleType, tmp_path: Path
) -> None:
    path = written(tmp_path, getattr(legacy_shapes, shape)(), "whatever.txt")
    assert open_legacy(path).family.name == family
    assert is_legacy(path)
    assert probe(path) == "legacy"


def test_one_versus_eight_is_labelled_by_what_its_times_cover(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    _, rows, problems = read(written(tmp_path, legacy_shapes.one_vs_eight(6)))
    draft, target = rows[1], rows[7]
    assert [entry.covers for entry in draft.intervals] == [("preprocess",), ("vision",), ("prefill",), ("decode",)]
    assert [entry.covers for entry in target.intervals] == [
        ("preprocess",),
        ("vision",),
        ("vision", "prefill"),
        ("decode",),
    ]
    assert (draft.role, target.role, draft.mode) == ("draft", "target", "side-by-side")
    assert draft.lengths is not None
    assert (draft.lengths.input, draft.lengths.visual, draft.lengths.text) == (636, 577, 59)
    assert target.lengths is not None
    assert (target.lengths.visual, target.lengths.text, len(target.lengths.per_frame)) == (4608, 35, 8)
    assert draft.figures["kv_cache_bytes"] == 318 * 2**20
    assert draft.settings == {"event_frames": 1, "input": {"pooling": "none"}}
    assert draft.models["draft"].weight_bytes is None
    assert told(problems, "Loading was not measured")
    assert told(problems, "vision pass whose output is thrown away")


def test_three_stages_keep_the_third_in_one_piece(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    _, rows, problems = read(written(tmp_path, legacy_shapes.sample_rows(4)))
    assert len(rows) == 8
    assert [entry.covers for entry in rows[0].intervals] == [
        ("load",),
        ("preprocess",),
        ("vision", "prefill", "decode"),
    ]
    assert (rows[0].text, rows[0].output_tokens, rows[0].token_ids) == (
        "a road with a car on it",
        9,
        tuple(range(3, 12)),
    )
    assert rows[0].models["draft"].weight_bytes == round(13503.5 * 2**20)
    assert rows[1].text == "a long road"
    assert rows[1].models["target"].name == "llava-hf/llava-1.5-7b-hf"
    # Two ids cannot be a text of seven words.
    assert (rows[6].output_tokens, rows[6].token_ids) == (None, ())
    assert told(problems, "egpt", "fewer token ids", "1 of 4 rows: row 3")
    assert told(problems, "memory fields are null or not there", "3 of 4 rows, first row 1")


def test_four_stages_of_the_video_model_hold_vision_twice(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    rows = legacy_shapes.sample_rows(2)
    for row in rows:
        for prefix in ("egpt", "llava"):
            row[f"{prefix}_stage4_time"] = row[f"{prefix}_stage3_time"]
            row[f"{prefix}_stage3_time"] = 0.03
    _, found, _ = read(written(tmp_path, rows))
    assert [entry.covers for entry in found[0].intervals][2:] == [("vision",), ("prefill", "decode")]
    assert [entry.covers for entry in found[1].intervals][2:] == [("vision",), ("vision", "prefill", "decode")]


def test_a_stage_that_took_no_time_is_absent_and_the_next_holds_it(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    _, rows, problems = read(written(tmp_path, legacy_shapes.five_stages(3)))
    draft, target = rows[0], rows[1]
    assert [entry.covers for entry in draft.intervals] == [
        ("load",),
        ("preprocess",),
        ("vision",),
        ("prefill",),
        ("decode",),
    ]
    assert [entry.covers for entry in target.intervals] == [
        ("load",),
        ("preprocess",),
        ("vision", "prefill"),
        ("decode",),
    ]
    assert target.lengths is None
    assert target.figures["published_prefill_length"] == 4124
    assert target.figures["overlap_window_from_load_ms"] == pytest.approx(730.8, abs=0.1)
    assert target.figures["overlap_window_from_vision_ms"] == pytest.approx(315 - 83 - 77)
    assert draft.lengths is not None
    assert draft.lengths.visual == 578
    assert draft.models["draft"].quantization == "4bit"
    assert told(problems, "counts the visual tokens twice", "2076 were processed", "3 of 3 rows")
    assert told(problems, "no measurement, so that stage is absent", "stage3_time")
    assert told(problems, "acceptance_rate is 0.5", "no share of accepted tokens")
    assert any("twice" in note for note in target.notes)
    assert not any("twice" in note for note in draft.notes)


def test_speculative_rows_keep_both_models_and_their_counts(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    _, rows, problems = read(written(tmp_path, legacy_shapes.end_to_end(4)))
    plain, speculative = rows[0], rows[4]
    assert (plain.mode, plain.cell, len(rows)) == ("target", "Video-LLaVA 4bit, alone", 12)
    assert (speculative.mode, speculative.cell) == ("speculative", "Video-LLaVA 4bit, L1+VL")
    laid = [(entry.role, entry.covers[-1], entry.start_ms, entry.duration_ms) for entry in speculative.intervals]
    assert laid == [
        ("draft", "prefill", 0.0, 100.0),
        ("target", "prefill", 170.0, 330.0),
        ("draft", "decode", 500.0, 350.0),
        ("target", "decode", 850.0, 800.0),
    ]
    assert speculative.figures["drafted_tokens"] == 5
    assert speculative.figures["accepted_tokens"] == 1
    assert speculative.figures["published_total_ms"] == 1650
    assert speculative.prompt == plain.prompt == "Question 0?"
    assert told(problems, "longer than both prefills one after the other", "8 of 12 rows")
    assert told(problems, "share one measurement of both prefills")
    assert told(problems, "vision_ms is 0.0: not measured")


def test_a_half_broken_sample_is_one_that_worked_and_one_that_failed(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    _, rows, problems = read(written(tmp_path, legacy_shapes.with_errors()))
    draft, target, first, _ = rows
    assert draft.error is None
    assert [entry.covers for entry in draft.intervals] == [("vision", "prefill"), ("decode",)]
    assert draft.output_tokens == 30
    assert (target.error, target.intervals) == ("'NoneType' object has no attribute", ())
    assert (first.error or "").startswith("CUDA out of memory")
    assert first.cell == "both models"
    assert told(problems, "Not one of 3 samples succeeded")
    assert told(problems, "overlap_window is negative")
    assert told(problems, "errors: failed samples: CUDA out of memory", "2 of 3 rows")


def test_flat_rows_with_vision_apart(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    value = legacy_shapes.with_errors() | {"errors": []}
    value["results"] = [
        {
            "sample_idx": 0,
            "vision_time": 0.008,
            "prefill_time": 0.084,
            "prefill_length": 637,
            "draft_time": 0.3,
            "draft_tokens": 37,
            "vl_prefill_time": 0.27,
            "vl_generation_time": 0.97,
            "output_text": "a road",
        }
    ]
    _, rows, _ = read(written(tmp_path, value))
    assert [entry.key for entry in rows[0].intervals] == ["vision_time", "prefill_time", "draft_time"]
    assert [entry.key for entry in rows[1].intervals] == ["vl_prefill_time", "vl_generation_time"]
    assert (rows[0].text, rows[1].text, rows[0].output_tokens) == (None, "a road", 37)


def test_a_total_that_leaves_a_part_out_is_told(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    value = legacy_shapes.end_to_end(3)
    for row in value["sd_per_sample"]["L1+VL"]:
        row["sd_total_ms"] = row["parallel_prefill_ms"] + row["sd_decode_ms"]
    value["sd_per_sample"]["L2+VL"][0]["sd_total_ms"] = 99.0
    _, _, problems = read(written(tmp_path, value))
    assert told(problems, "leaves egpt_decode_ms out", "were not measured", "3 of 9 rows")
    assert told(problems, "sd_total_ms is not the sum of its parts", "1 of 9 rows")
    assert told(problems, "L1+VL: speedup is not what its own row gives")


def test_one_error_of_many_samples_counts_as_one(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    value = legacy_shapes.with_errors()
    value["errors"] = [
        {"sample_idx": index, "error": f"CUDA out of memory. Tried to allocate {index}.00 MiB of 23.49 GiB."}
        for index in range(40)
    ]
    _, rows, problems = read(written(tmp_path, value))
    assert rows[5].error == "CUDA out of memory. Tried to allocate 3.00 MiB of 23.49 GiB."
    assert rows[5].notes == ()
    assert told(problems, "CUDA out of memory. Tried to allocate … MiB of … GiB.", "40 of 41 rows")
    value["errors"] = [{"error": "".join(chr(97 + int(digit)) for digit in str(index))} for index in range(300)]
    _, _, problems = read(written(tmp_path, value))
    assert len(problems) <= 101
    assert told(problems, "too many to list")


def test_an_error_in_one_of_five_stages_fails_that_model_only(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    value = legacy_shapes.five_stages(2)
    value["results"][1]["videollava"] = {"error": "out of memory", "traceback": "…"}
    value["errors"] = [{"sample_idx": 2, "egpt_error": None, "vl_error": "no file"}]
    _, rows, _ = read(written(tmp_path, value))
    assert [row.error for row in rows] == [None, None, None, "out of memory", "no file"]
    assert (rows[-1].role, rows[-1].cell) == ("target", rows[1].cell)
    assert rows[3].intervals == ()


@pytest.mark.parametrize(
    "value", [{}, [], {"results": []}, {"a": {"b": [1, 2]}}, [1, "x", None], {"samples": [{"x": 1}]}]
)
def test_other_json_is_refused_with_what_was_looked_for(value: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"looked for: config\.eventgpt_frames"):
        open_legacy(written(tmp_path, value))


@pytest.mark.parametrize("value", [7, "text", None])
def test_json_that_holds_nothing_is_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no JSON object and no JSON list; evprof import reads"):
        open_legacy(written(tmp_path, value))


def test_places_that_are_no_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        open_legacy(tmp_path / "none.json")
    with pytest.raises(UserError, match="is no file"):
        open_legacy(tmp_path)
    assert not is_legacy(tmp_path / "none.json")


def test_a_time_of_nothing_is_in_the_files_average_and_in_none_of_ours(
    legacy_shapes: ModuleType, tmp_path: Path
) -> None:
    file = open_legacy(written(tmp_path, legacy_shapes.with_errors()))
    reader, rows = file.read(FileProblems())
    recomputed = Recomputed(reader.published.statistics)
    for row in rows:
        recomputed.add(row)
    name = "statistics.videollava.prefill_time_avg"
    assert recomputed.values(is_steady=False)[name] == 0.0
    assert name not in recomputed.values(is_steady=True)
    assert recomputed.values(is_steady=True)["statistics.eventgpt.prefill_time_avg"] > 0
