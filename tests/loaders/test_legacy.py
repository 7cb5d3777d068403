"""Result files of earlier scripts: recognized by content, and read by what their times cover."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import legacy_shapes
from evprof.core.errors import UserError
from evprof.loaders.legacy import json_rows
from evprof.loaders.legacy.family import is_legacy, open_legacy
from evprof.loaders.legacy.json_rows import JsonRows
from evprof.loaders.legacy.rows import LegacyRow
from evprof.loaders.probe import probe

FAMILY_OF = {
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


def written(folder: Path, value: Any) -> Path:
    path = folder / "result.json"
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def read(folder: Path, value: Any) -> tuple[list[LegacyRow], str]:
    """The rows, and all findings as one text."""
    file = open_legacy(written(folder, value))
    reading = file.read()
    rows = list(reading.rows())
    return rows, "\n".join(reading.problems.sentences(file.rows))


def covers(row: LegacyRow) -> list[str]:
    return ["+".join(entry.covers) for entry in row.intervals]


@pytest.mark.parametrize(("shape", "family"), FAMILY_OF.items())
def test_every_family_is_recognized_by_its_content(shape: str, family: str, tmp_path) -> None:
    path = written(tmp_path, getattr(legacy_shapes, shape)())
    assert open_legacy(path).family.name == family
    assert is_legacy(path)
    assert probe(path) == "legacy"


def test_one_versus_eight_covers_what_was_timed(tmp_path: Path) -> None:
    rows, problems = read(tmp_path, legacy_shapes.one_vs_eight(6))
    draft, target = rows[1], rows[7]
    assert covers(draft) == ["preprocess", "vision", "prefill", "decode"]
    assert covers(target) == ["preprocess", "vision", "vision+prefill", "decode"]
    assert (draft.role, target.role, draft.mode) == ("draft", "target", "side-by-side")
    assert (draft.lengths.input, draft.lengths.visual, draft.lengths.text) == (636, 577, 59)
    assert (target.lengths.visual, target.lengths.text, len(target.lengths.per_frame)) == (4608, 35, 8)
    assert (draft.figures["kv_cache_bytes"], draft.decode_steps) == (318 * 2**20, 5)
    assert draft.settings == {"event_frames": 1, "input": {"pooling": "none"}}
    assert draft.models["draft"].weight_bytes is None
    assert "Loading was not measured" in problems


@pytest.mark.parametrize(
    ("stages", "draft", "target"),
    [
        (3, ["vision+prefill+decode"], ["vision+prefill+decode"]),
        (4, ["vision", "prefill+decode"], ["vision", "vision+prefill+decode"]),
    ],
)
def test_stages_in_one_piece_are_never_split(stages: int, draft: list[str], target: list[str], tmp_path: Path) -> None:
    value = legacy_shapes.sample_rows(4)
    for row in value if stages == 4 else ():
        for prefix in ("egpt", "llava"):
            row[f"{prefix}_stage4_time"] = row[f"{prefix}_stage3_time"]
            row[f"{prefix}_stage3_time"] = 0.03
    rows, problems = read(tmp_path, value)
    assert (covers(rows[0])[2:], covers(rows[1])[2:]) == (draft, target)
    assert (rows[0].text, rows[0].token_ids) == ("a road with a car on it", tuple(range(3, 12)))
    assert rows[0].models["draft"].weight_bytes == round(13503.5 * 2**20)
    assert (rows[1].text, rows[1].models["target"].name) == ("a long road", "llava-hf/llava-1.5-7b-hf")
    # Two ids cannot be a text of seven words.
    assert (rows[6].output_tokens, rows[6].token_ids) == (None, ())
    assert "fewer token ids than the text has words" in problems
    assert "(1 of 4 rows: row 3)" in problems


def test_a_stage_that_took_no_time_is_absent_and_the_next_covers_it(tmp_path: Path) -> None:
    (draft, target, *_), problems = read(tmp_path, legacy_shapes.five_stages(3))
    assert covers(draft) == ["load", "preprocess", "vision", "prefill", "decode"]
    assert covers(target) == ["load", "preprocess", "vision+prefill", "decode"]
    assert target.lengths is None
    assert target.figures["published_prefill_length"] == 4124
    assert target.figures["overlap_window_from_load_ms"] == pytest.approx(730.8, abs=0.1)
    assert target.figures["overlap_window_from_vision_ms"] == pytest.approx(315 - 83 - 77)
    assert draft.lengths.visual == 578
    assert draft.models["draft"].quantization == "4bit"
    assert "counts the visual tokens twice" in problems
    assert "stage3_time is below 0.05 ms: no measurement" in problems
    assert any("twice" in note for note in target.notes)
    assert not any("twice" in note for note in draft.notes)


def test_an_answer_begins_after_the_prompt_that_its_ids_begin_with(tmp_path: Path) -> None:
    rows, problems = read(tmp_path, legacy_shapes.four_stages(4))
    draft, target = rows[0], rows[4]
    assert covers(target) == ["load", "preprocess", "vision", "prefill+decode"]
    assert (target.token_ids, target.output_tokens) == ((450, 6, 2), 3)
    assert (target.lengths.input, target.lengths.visual) == (583, 576)
    assert target.figures["published_output_tokens"] == 586
    assert (draft.output_tokens, draft.group, draft.mode) == (3, target.group, "side-by-side")
    assert "whatever its settings say" in problems


def test_speculative_rows_keep_both_models_and_their_counts(tmp_path: Path) -> None:
    rows, problems = read(tmp_path, legacy_shapes.end_to_end(4))
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
    counts = {"drafted_tokens": 5, "accepted_tokens": 1, "published_total_ms": 1650, "rounds": 1}
    assert speculative.figures.items() >= counts.items()
    assert speculative.prompt == plain.prompt == "Question 0?"
    assert "share one measurement of both prefills" in problems


def test_a_verified_draft_counts_everything_that_was_timed(tmp_path: Path) -> None:
    (plain, drafted, *_), problems = read(tmp_path, legacy_shapes.verified_drafts())
    assert covers(plain) == ["preprocess+vision+prefill+decode"]
    assert sum(entry.duration_ms for entry in drafted.intervals) == pytest.approx(90 + 300 + 315 + 65 + 220)
    assert [entry.role for entry in drafted.intervals] == ["draft", "draft", "target", "target"]
    assert (drafted.figures["drafted_tokens"], drafted.figures["accepted_tokens"]) == (4, 0)
    assert "not lossless (3 of 3 rows)" in problems


def test_answers_without_known_times_have_figures_and_no_stages(tmp_path: Path) -> None:
    rows, problems = read(tmp_path, legacy_shapes.word_estimates())
    assert not any(row.intervals for row in rows)
    assert (rows[0].figures, rows[0].output_tokens, rows[0].error) == ({"published_time_ms": 400.0}, 40, None)
    assert "no share of accepted tokens" in problems
    rows, _ = read(tmp_path, legacy_shapes.token_lists())
    assert [row.cell for row in rows[:3]] == [
        "EventGPT 4bit",
        "EventGPT 4bit, through a token adapter",
        "Video-LLaVA 4bit",
    ]
    assert rows[2].figures == {"published_equal_tokens": 2.0, "published_compared_tokens": 3.0}


def test_an_empty_answer_is_a_failure(tmp_path: Path) -> None:
    rows, problems = read(tmp_path, legacy_shapes.shared_decoder())
    assert [row.error for row in rows] == ["the answer is empty", None, None, None, None, None]
    assert rows[0].output_tokens is None
    assert "draft: the answer is empty (1 of 3 rows: row 0)" in problems
    value = legacy_shapes.word_estimates()
    for row in value["results"]:
        row |= {"egpt_tokens": 0, "egpt_text": ""}
    assert [row.error for row in read(tmp_path, value)[0]] == ["the answer is empty", None] * 3


def test_a_sample_may_fail_for_one_model(tmp_path: Path) -> None:
    (draft, target, first, _), problems = read(tmp_path, legacy_shapes.with_errors())
    assert (draft.error, covers(draft), draft.output_tokens) == (None, ["vision+prefill", "decode"], 30)
    assert (target.error, target.intervals) == ("'NoneType' object has no attribute", ())
    assert (first.error or "").startswith("CUDA out of memory")
    assert first.cell == "both models"
    assert "errors: failed samples: CUDA out of memory. Tried to allocate … MiB. (2 of 3 rows: rows 0, 1)" in problems
    value = legacy_shapes.five_stages(2)
    value["results"][1]["videollava"] = {"error": "out of memory", "traceback": "…"}
    value["errors"] = [{"sample_idx": 2, "egpt_error": None, "vl_error": "no file"}]
    rows, _ = read(tmp_path, value)
    assert [row.error for row in rows] == [None, None, None, "out of memory", "no file"]
    assert (rows[-1].role, rows[-1].cell) == ("target", rows[1].cell)


def test_flat_rows_with_vision_apart(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "sample_idx": 0,
        "vision_time": 0.008,
        "prefill_time": 0.084,
        "prefill_length": 637,
        "draft_time": 0.3,
    }
    row |= {"draft_tokens": 37, "vl_prefill_time": 0.27, "vl_generation_time": 0.97, "output_text": "a road"}
    (draft, target), _ = read(tmp_path, legacy_shapes.with_errors() | {"errors": [], "results": [row]})
    assert [entry.key for entry in draft.intervals] == ["vision_time", "prefill_time", "draft_time"]
    assert [entry.key for entry in target.intervals] == ["vl_prefill_time", "vl_generation_time"]
    assert (draft.text, target.text, draft.output_tokens) == (None, "a road", 37)


def test_findings_are_bounded(tmp_path: Path) -> None:
    value = legacy_shapes.with_errors()
    value["errors"] = [{"error": "".join(chr(97 + int(digit)) for digit in str(index))} for index in range(300)]
    _, problems = read(tmp_path, value)
    assert problems.count("\n") <= 100
    assert "too many to list" in problems


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "is no result file that evprof knows: those of `vllm bench serve`"),
        ({"results": []}, "is no result file that evprof knows: those of `vllm bench serve`"),
        ([1, "x", None], "is no result file that evprof knows: those of `vllm bench serve`"),
        ({"samples": [{"x": 1}]}, "is no result file that evprof knows: those of `vllm bench serve`"),
        (7, "no JSON object and no JSON list"),
        (b"", "the file is empty"),
        (b'{"results": [{"eventgpt": {"stage4_time": 1}}', "no JSON that can be read to its end"),
        (b'{"results": [] } trailing', "no JSON"),
        (b'{"results": "\xff\xfe"}', "no JSON"),
        (b"[" * 5000 + b"]" * 5000, "nested too deep"),
        (b'{"results": [{"vl_verify_ms": 1}]}\n{}', "divide it"),
    ],
)
def test_other_files_are_refused_in_a_sentence(value: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words) as caught:
        open_legacy(written(tmp_path, value))
    assert "\n" not in caught.value.sentence


def test_more_rows_than_a_session_can_hold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "MOST_ROWS", 500)
    with pytest.raises(UserError, match="more than 500 rows"):
        open_legacy(written(tmp_path, {"results": [{"eventgpt": {"stage4_time": 1}}] * 501}))


@given(
    texts=st.lists(st.text(max_size=30), min_size=1, max_size=20),
    numbers=st.lists(st.sampled_from([math.nan, math.inf, -math.inf, 1.5, 3]), min_size=1, max_size=20),
)
def test_texts_stay_and_no_number_is_lost(texts: list[str], numbers: list[float], tmp_path: Path) -> None:
    value = {"around": {"texts": texts, "numbers": numbers}, "results": [{"t": text} for text in texts]}
    reading = JsonRows(written(tmp_path, json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")))
    rows = [row for place, _, row in reading.rows() if place == ("results",)]
    assert rows == [{"t": text} for text in texts]
    assert reading.around["around"]["texts"] == texts
    assert reading.around["around"]["numbers"] == [number if math.isfinite(number) else None for number in numbers]
    assert reading.not_numbers == sum(not math.isfinite(number) for number in numbers)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a file with every key of it; of lists the first entry only."""
    if isinstance(value, dict):
        for key in list(value):
            yield value, key
            yield from places(value[key])
    elif isinstance(value, list) and value:
        yield value, 0
        yield from places(value[0])


@pytest.mark.parametrize("shape", FAMILY_OF)
def test_anything_anywhere_may_be_wrong(shape: str, tmp_path: Path) -> None:
    value = getattr(legacy_shapes, shape)(2) if shape != "with_errors" else legacy_shapes.with_errors()
    for container, key in list(places(value)):
        kept = container[key]
        wrongs: tuple[Any, ...] = (None, "12", [], {}, -1, 1e300, 10**15)
        for wrong in wrongs:
            container[key] = wrong
            try:
                _, problems = read(tmp_path, value)
            except UserError:  # The wrong value may be what identifies the family.
                continue
            assert all(sentence.endswith(".") for sentence in problems.splitlines())
        container[key] = kept


def test_a_row_of_no_known_kind_is_reported(tmp_path: Path) -> None:
    value = legacy_shapes.one_vs_eight(3)
    value["eventgpt"]["samples"].append("row")
    rows, problems = read(tmp_path, value)
    assert ("a row is no sample of a known kind" in problems, len(rows)) == (True, 6)
