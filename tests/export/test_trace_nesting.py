"""The Chrome trace: slices nest on every thread, times are the records', nothing is lost without being counted."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import SETTLED, SpanRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.export.chrome_trace import left_out_sentences
from evprof.export.trace_slices import nested_tracks
from exported import chrome_trace

ZERO = 123_456_789_000_000_001


def of_kind(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [entry for entry in document["traceEvents"] if entry["ph"] == kind]


def assert_nested(document: dict[str, Any]) -> None:
    """Replays each thread's slices in file order on a stack, as viewers do, in whole nanoseconds."""
    stacks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for entry in of_kind(document, "X"):
        start = round(entry["ts"] * 1000)
        end = start + round(entry["dur"] * 1000)
        assert end >= start
        stack = stacks.setdefault((entry["pid"], entry["tid"]), [])
        while stack and stack[-1][1] <= start:
            stack.pop()
        assert not stack or (stack[-1][0] <= start and end <= stack[-1][1])
        stack.append((start, end))


def test_every_record_is_an_entry_or_is_counted(speculative_run: RunLog) -> None:
    run = speculative_run
    document = json.loads(json.dumps(chrome_trace([run]), allow_nan=False))
    categories = Counter(entry["cat"] for entry in of_kind(document, "X"))
    assert categories == {"stage": 4, "part": 5, "round": 2, "phase": 4}
    left_out = document["otherData"]["left_out"]
    assert categories["stage"] + categories["part"] + left_out["unsettled_spans"] == len(run.spans)
    instants = Counter(entry["cat"] for entry in of_kind(document, "i"))
    assert instants == {"token": len(run.tokens) + len(run.rejected), "picture": 1}
    counters = Counter(entry["name"] for entry in of_kind(document, "C"))
    assert counters == {
        "KV cache draft bytes": 3,
        "KV cache draft positions": 3,
        "KV cache target bytes": 3,
        "KV cache target positions": 3,
        "memory": 2,
    }
    assert left_out == {
        "runs_without_a_start": 0,
        "records_of_those_runs": 0,
        "unsettled_spans": 2,
        "records_before_the_zero": 0,
        "tokens_without_times": 0,
    }
    assert left_out_sentences(document) == ["2 spans were never finished and are not in the trace."]


def test_a_run_without_a_zero_is_counted(speculative_run: RunLog, unborn_run: RunLog) -> None:
    document = chrome_trace([speculative_run, unborn_run])
    assert {entry["pid"] for entry in document["traceEvents"]} == {3}
    assert document["otherData"]["left_out"]["runs_without_a_start"] == 1
    assert document["otherData"]["left_out"]["records_of_those_runs"] == 2
    assert left_out_sentences(document)[0] == "1 run never began and is not in the trace."
    assert left_out_sentences(chrome_trace([])) == []


def test_slices_nest_on_every_thread(speculative_run: RunLog) -> None:
    document = chrome_trace([speculative_run])
    assert_nested(document)
    tower = next(entry for entry in of_kind(document, "X") if entry["name"] == "tower")
    vision = next(entry for entry in of_kind(document, "X") if entry["name"] == "vision")
    assert (tower["pid"], tower["tid"]) == (vision["pid"], vision["tid"])
    # The span that outlasts its parent keeps its times and moves to a thread of its own.
    cut = next(entry for entry in of_kind(document, "X") if entry["args"].get("span") == 8)
    assert (cut["ts"], cut["dur"], cut["tid"]) == (190, 11, vision["tid"] + 1)


def test_times_count_from_the_runs_zero_in_microseconds(speculative_run: RunLog) -> None:
    document = chrome_trace([speculative_run])
    slices = {entry["args"]["span"]: entry for entry in of_kind(document, "X") if "span" in entry["args"]}
    for span_id, span in speculative_run.spans.items():
        if span.is_settled and span.end_ns is not None:
            assert round(slices[span_id]["ts"] * 1000) == span.start_ns - ZERO
            assert round(slices[span_id]["dur"] * 1000) == span.end_ns - span.start_ns
    rounds = [entry for entry in of_kind(document, "X") if entry["cat"] == "round"]
    # What was drafted inside the prefill was verified elsewhere: that bar is the drafting alone.
    assert [(entry["ts"], entry["dur"]) for entry in rounds] == [(60, 40.333), (105, 20)]
    assert [entry["name"] for entry in rounds] == ["round 0: 1 of 2", "hidden round 1: 2 of 2"]
    assert rounds[1]["args"]["hidden"] is True
    phases = [entry for entry in of_kind(document, "X") if entry["cat"] == "phase"]
    assert [(entry["name"], entry["ts"]) for entry in phases[:3]] == [("draft", 60), ("verify", 80), ("rollback", 100)]


def test_arguments_hold_tensors_even_of_one_name_and_tokens_as_they_are(speculative_run: RunLog) -> None:
    document = json.loads(json.dumps(chrome_trace([speculative_run])))
    vision = next(entry for entry in of_kind(document, "X") if entry["name"] == "vision")
    assert vision["args"]["inputs"] == ["pixel_values: float32[8,3,64,64], 393216 bytes"]
    assert len(vision["args"]["outputs"]) == 2
    tokens = [entry for entry in of_kind(document, "i") if entry["cat"] == "token"]
    assert [entry["args"]["piece"] for entry in tokens] == [" a", '\x01"<', "b", "", " é", " no"]
    assert all(entry["name"] for entry in tokens)
    assert tokens[-1]["args"]["origin"] == "rejected"


def test_every_thread_is_named_once_and_sorted(speculative_run: RunLog) -> None:
    document = chrome_trace([speculative_run])
    metadata = of_kind(document, "M")
    names = {entry["tid"]: entry["args"]["name"] for entry in metadata if entry["name"] == "thread_name"}
    used = {entry["tid"] for entry in document["traceEvents"] if entry["ph"] in "Xi"}
    assert set(names) == used
    assert [names[thread] for thread in sorted(names)] == [
        "draft",
        "target",
        "target (2)",
        "rounds",
        "tokens",
        "rejected tokens",
        "pictures",
    ]
    counts = Counter((entry["name"], entry["tid"]) for entry in metadata)
    assert set(counts.values()) == {1}
    process = {entry["name"]: entry["args"] for entry in metadata if entry["tid"] == 0}
    assert process["process_name"]["name"] == "run 3 · speculative · tiny"
    assert process["process_labels"]["labels"] == "finished"
    assert process["process_sort_index"]["sort_index"] == 3


def test_required_fields_are_there_with_numbers_for_times(speculative_run: RunLog) -> None:
    for entry in chrome_trace([speculative_run])["traceEvents"]:
        assert isinstance(entry["name"], str)
        assert isinstance(entry["pid"], int)
        assert isinstance(entry["tid"], int)
        assert isinstance(entry["ts"], int | float)
        if entry["ph"] == "C":
            assert all(isinstance(value, int) for value in entry["args"].values())


intervals = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=25)


@given(intervals)
def test_tracks_hold_only_nested_or_separate_intervals(pairs: list[tuple[int, int]]) -> None:
    spans = [(start, start + length) for start, length in pairs]
    tracks = nested_tracks(spans)
    for one in range(len(spans)):
        for other in range(one):
            if tracks[one] == tracks[other]:
                (a, b), (c, d) = spans[one], spans[other]
                assert b <= c or d <= a or (a <= c and d <= b) or (c <= a and b <= d)


@given(intervals)
def test_any_spans_give_a_trace_that_nests(pairs: list[tuple[int, int]]) -> None:
    run = RunLog(RunInfo(1, 1, 0, "target", "target", start_ns=ZERO))
    for span_id, (start, length) in enumerate(pairs):
        run.absorb(SpanRecord(1, span_id, -1, SETTLED, "target", "load", ZERO + start, ZERO + start + length))
    document = chrome_trace([run])
    assert len(of_kind(document, "X")) == len(pairs)
    assert_nested(document)


@pytest.mark.parametrize("depth", [1, 5])
def test_what_nests_already_stays_on_one_track(depth: int) -> None:
    assert nested_tracks([(place, 100 - place) for place in range(depth)]) == [0] * depth
    assert nested_tracks([(0, 10), (10, 20), (10, 20), (20, 20)]) == [0, 0, 0, 0]
    assert nested_tracks([(0, 10), (5, 15), (8, 12), (15, 20)]) == [0, 1, 1, 0]
