"""Result files of vLLM, SGLang and AIPerf: told by content, and read by what their times cover."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import serving_shapes
from evprof.core.errors import UserError
from evprof.loaders.legacy import json_rows
from evprof.loaders.legacy.family import FAMILIES, is_legacy, open_legacy
from evprof.loaders.legacy.json_rows import DOCUMENTS, REQUESTS, JsonRows
from evprof.loaders.legacy.reading import Reading
from evprof.loaders.legacy.rows import FileProblems, LegacyRow
from evprof.loaders.legacy.servers import TimeCheck
from evprof.loaders.probe import probe

FAMILY_OF = {
    "vllm.json": "vLLM serving benchmark",
    "vllm_speculative.json": "vLLM serving benchmark",
    "vllm_short.json": "vLLM serving benchmark",
    "vllm_appended.json": "vLLM serving benchmark",
    "sglang.jsonl": "SGLang serving benchmark",
    "sglang_speculative.jsonl": "SGLang serving benchmark",
    "sglang_batches.jsonl": "SGLang one batch",
    "profile_export.jsonl": "AIPerf records",
    "profile_export_speculative.jsonl": "AIPerf records",
}

FIRST = ("preprocess", "vision", "prefill")


def written(folder: Path, content: Any, name: str = "result.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def read(path: Path) -> tuple[Reading, list[LegacyRow], list[str]]:
    file = open_legacy(path)
    reading = file.read()
    listed = list(reading.rows())
    return reading, listed, reading.problems.sentences(file.rows)


def told(problems: list[str], *words: str) -> bool:
    return any(all(word in problem for word in words) for problem in problems)


@pytest.mark.parametrize(("name", "family"), FAMILY_OF.items())
def test_every_kind_is_told_by_its_content(name: str, family: str, tmp_path: Path) -> None:
    assert FAMILY_OF.keys() == serving_shapes.FILES.keys()
    path = written(tmp_path, serving_shapes.FILES[name](), "whatever.txt")
    found = open_legacy(path)
    assert found.family.name == family
    assert [each.name for each in FAMILIES if each.opened(found.preview)] == [family]
    assert is_legacy(path)
    assert probe(path) == "legacy"


def test_a_request_of_vllm_has_what_its_client_measured(tmp_path: Path) -> None:
    reader, rows, problems = read(written(tmp_path, serving_shapes.vllm_serving()))
    assert len(rows) == 4
    row = rows[0]
    assert [(entry.covers, entry.duration_ms) for entry in row.intervals] == [
        (FIRST, pytest.approx(81.0)),
        (("decode",), pytest.approx(35.3)),
    ]
    assert (row.output_tokens, row.text, row.error, row.mode) == (4, "answer 0", None, "target")
    assert row.token_times_ms == pytest.approx((81.0, 92.0, 104.5, 116.3))
    assert row.figures == {"input_sequence_length": 512.0}
    assert row.models["target"].name == "example/video-7b"
    assert row.sample == "request 0, 512 tokens"
    assert row.started_at == "2026-07-14T10:15:02"
    assert rows[2].figures["client_queue_ms"] == pytest.approx(31.0)
    assert reader.covers["target"]["ttft"] == [*FIRST]
    assert told(problems, "holds the network", "queue")


def test_a_failed_request_is_no_row_of_zeros(tmp_path: Path) -> None:
    for made in (serving_shapes.vllm_serving(), serving_shapes.sglang_serving()):
        _, rows, problems = read(written(tmp_path, made))
        failed = rows[-1]
        assert failed.error == "TimeoutError: no answer after 30 s"
        assert (failed.intervals, failed.output_tokens) == ((), None)
        assert told(problems, "failed requests: TimeoutError", "1 of 4 rows: row 3")
    _, rows, _ = read(written(tmp_path, serving_shapes.vllm_serving(is_detailed=False)))
    assert [row.error is None for row in rows] == [True, True, True, False]


def test_without_details_vllm_keeps_latencies_in_one_piece(tmp_path: Path) -> None:
    _, rows, _ = read(written(tmp_path, serving_shapes.vllm_serving(is_detailed=False)))
    assert [entry.covers for entry in rows[0].intervals] == [(*FIRST, "decode")]
    assert rows[0].intervals[0].duration_ms == pytest.approx(116.3)
    assert not rows[0].has_first_token_time


def test_appended_benchmarks_are_configurations_of_their_own(tmp_path: Path) -> None:
    reader, rows, _ = read(written(tmp_path, serving_shapes.vllm_appended()))
    assert [row.row for row in rows] == list(range(8))
    assert list(dict.fromkeys(row.cell for row in rows)) == [
        "example/video-7b, vLLM, at most 2 at once",
        "example/video-7b, vLLM, 4 requests/s",
    ]
    assert rows[4].sample == rows[0].sample
    assert (reader.config["benchmark 1.request_rate"], reader.config["benchmark 2.request_rate"]) == ("inf", 4.0)
    once = json.dumps(serving_shapes.vllm_serving())
    _, rows, _ = read(written(tmp_path, f"{once}\n{once}"))
    assert len({row.cell for row in rows}) == 2


def test_speculation_of_a_whole_benchmark_stands_with_one_request(tmp_path: Path) -> None:
    _, rows, _ = read(written(tmp_path, serving_shapes.vllm_serving(is_speculative=True)))
    counts = {"drafted_tokens": 16.0, "accepted_tokens": 6.0, "verified_rounds": 8.0}
    assert {name: rows[0].figures[name] for name in counts} == counts
    assert not any(name in row.figures for name in counts for row in rows[1:])
    assert told(list(rows[0].notes), "whole benchmark")
    assert {row.mode for row in rows} == {"speculative"}


def test_pieces_of_several_tokens_give_no_token_times(tmp_path: Path) -> None:
    made = serving_shapes.vllm_serving()
    made["output_lens"][0] = 7
    _, rows, problems = read(written(tmp_path, made))
    assert rows[0].token_times_ms == ()
    assert rows[0].has_first_token_time
    assert told(problems, "pieces of several tokens", "1 of 4 rows: row 0")


def test_gaps_that_sglang_divided_are_no_token_times(tmp_path: Path) -> None:
    made = serving_shapes.sglang_serving(accept_length=2.4)
    made["itls"][0] = [0.01, 0.004, 0.004]
    _, rows, _ = read(written(tmp_path, made))
    assert rows[0].token_times_ms == ()
    assert len(rows[1].token_times_ms) == 3
    assert rows[0].figures["mean_acceptance_length"] == 2.4
    assert rows[0].mode == "speculative"


def test_lines_of_sglang_are_benchmarks(tmp_path: Path) -> None:
    _, rows, problems = read(written(tmp_path, serving_shapes.sglang_lines()))
    assert len(rows) == 4
    assert rows[0].models["target"].name == "example/video-7b"
    assert told(problems, "2 benchmarks without times of single requests left out")
    # A rate without end is written as Infinity, and nothing is wrong with it.
    assert not told(problems, "NaN or Infinity")


def test_a_batch_of_sglang_is_one_run(tmp_path: Path) -> None:
    _, rows, _ = read(written(tmp_path, serving_shapes.sglang_batches()))
    engine, server = rows
    assert [(entry.covers, entry.duration_ms) for entry in engine.intervals] == [
        (("prefill",), pytest.approx(34.0)),
        (("decode",), pytest.approx(57.1)),
    ]
    assert [entry.covers for entry in server.intervals] == [FIRST, ("decode",)]
    assert server.figures == {"batch_size": 8.0, "input_sequence_length": 1024.0, "mean_acceptance_length": 2.31}
    assert server.cell == "SGLang, mine, batch of 8, 1024+16 tokens"
    assert told(list(server.notes), "8 prompts")
    assert engine.notes == ()


def test_records_of_aiperf_are_read_by_their_units(tmp_path: Path) -> None:
    _, rows, problems = read(written(tmp_path, serving_shapes.aiperf_records()))
    assert [row.is_warmup for row in rows] == [True, False, False, False, False]
    assert rows[1].sample == "scene-0"
    assert rows[1].started_at == "2025-10-07T05:00:07+00:00"
    assert (rows[4].error, rows[4].is_cancelled) == (
        "RequestCancellationError: Request was cancelled after 0.000 seconds",
        True,
    )
    assert rows[4].figures == {"input_sequence_length": 550.0}
    record = serving_shapes.aiperf_record(0)
    record["metrics"]["time_to_first_token"] = {"value": 0.081, "unit": "s"}
    record["metrics"]["request_latency"] = {"value": 116_300_000, "unit": "ns"}
    _, rows, _ = read(written(tmp_path, json.dumps(record)))
    assert [entry.duration_ms for entry in rows[0].intervals] == pytest.approx([81.0, 35.3])
    record["metrics"]["request_latency"]["unit"] = "furlongs"
    _, rows, problems = read(written(tmp_path, json.dumps(record)))
    assert told(problems, "request_latency is in a unit that is none of time")
    del record["metrics"]["request_latency"], record["metrics"]["time_to_first_token"]
    _, rows, _ = read(written(tmp_path, json.dumps(record)))
    assert (rows[0].error, rows[0].intervals) == (None, ())  # the file does not say that it failed


def test_records_of_aiperf_tell_their_speculation(tmp_path: Path) -> None:
    _, rows, _ = read(written(tmp_path, serving_shapes.aiperf_records(speculates=True)))
    counts = {"drafted_tokens": 6.0, "accepted_tokens": 3.0, "verified_rounds": 2.0}
    assert rows[1].figures == {"input_sequence_length": 512.0} | counts
    assert rows[1].accepted_histogram == {1: 1, 2: 1}
    assert {row.mode for row in rows} == {"speculative"}
    wrong = serving_shapes.aiperf_record(0, speculates=True)
    wrong["spec_decode_acceptance"]["acceptance_histogram"] = {"1": 9}
    _, rows, problems = read(written(tmp_path, json.dumps(wrong)))
    assert rows[0].accepted_histogram == {}
    assert told(problems, "does not add up")
    wrong["spec_decode_acceptance"]["num_accepted_draft_tokens"] = 99
    _, rows, problems = read(written(tmp_path, json.dumps(wrong)))
    assert "accepted_tokens" not in rows[0].figures
    assert told(problems, "contradict each other")


def test_what_is_wrong_with_a_number_is_told(tmp_path: Path) -> None:
    made = serving_shapes.vllm_serving()
    made["ttfts"][0] = -1
    made["itls"][1] = [0.1, "soon"]
    made["latencies"][1] = "long"
    made["output_lens"][2] = 2.5
    _, rows, problems = read(written(tmp_path, made))
    assert told(problems, "ttfts is no time", "row 0")
    assert told(problems, "itls is no list of times", "row 1")
    assert told(problems, "latencies is no time", "row 1")
    assert told(problems, "output_lens is no count", "row 2")
    assert [row.error is None for row in rows] == [True, True, True, False]
    assert rows[0].intervals[0].covers == (*FIRST, "decode")


def test_lists_of_different_lengths_lose_no_request(tmp_path: Path) -> None:
    made = serving_shapes.vllm_serving(fails=False)
    del made["ttfts"][2:], made["itls"][1:]
    _, rows, _ = read(written(tmp_path, made))
    assert [row.has_first_token_time for row in rows] == [True, True, False]
    assert [len(row.token_times_ms) for row in rows] == [4, 0, 0]


def test_too_many_requests_are_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(json_rows, "MOST_ROWS", 3)
    for name in ("vllm.json", "profile_export.jsonl"):
        with pytest.raises(UserError, match="more than 3"):
            open_legacy(written(tmp_path, serving_shapes.FILES[name]()))


@given(
    lists=st.lists(
        st.lists(st.integers(-(2**62), 2**62) | st.text(max_size=5) | st.none(), max_size=6), min_size=2, max_size=2
    ),
    documents=st.integers(1, 3),
)
def test_lists_side_by_side_come_out_as_they_went_in(lists: list[list[Any]], documents: int, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("lists") / "a.json"
    path.write_text("\n".join([json.dumps({"ttfts": lists[0], "n": 1, "itls": lists[1]})] * documents), "utf-8")
    reading = JsonRows(path)
    found = list(reading.rows())
    assert [row for place, _, row in found if place == DOCUMENTS] == [{"ttfts": [], "n": 1, "itls": []}] * documents
    rows = [row for place, _, row in found if place == REQUESTS]
    assert rows[: len(rows) // documents] * documents == rows
    for name, values in zip(("ttfts", "itls"), lists, strict=True):
        assert [row[name] for row in rows if name in row] == values * documents
    assert reading.counts.get(REQUESTS, 0) == documents * max(map(len, lists))


MS = st.floats(0.001, 10_000)


@given(first=MS, gaps=st.lists(MS, max_size=20), extra=st.integers(0, 3))
def test_parts_of_an_answer_add_up_to_its_latency(first: float, gaps: list[float], extra: int) -> None:
    tokens = len(gaps) + 1 + extra
    found = TimeCheck(0, FileProblems()).answer(first, None, gaps, tokens)
    assert sum(entry.duration_ms for entry in found.intervals) == pytest.approx(first + sum(gaps))
    assert len(found.token_times_ms) == (tokens if not extra else 0)
    if found.token_times_ms:
        assert found.token_times_ms[-1] == pytest.approx(first + sum(gaps))
        assert list(found.token_times_ms) == sorted(found.token_times_ms)
