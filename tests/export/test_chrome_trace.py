"""The Chrome trace: slices nest, numbers are numbers, names are those of the stages."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import BEGIN, SETTLED, MemoryRecord, RoundRecord, SpanRecord, TokenRecord
from evprof.core.run_info import ImportedFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.export.chrome_trace import THREADS, left_out_sentences
from evprof.export.trace_entries import TracePlace, run_entries
from evprof.export.trace_slices import nested_tracks
from evprof.metrics.document import run_document
from exported import chrome_trace

ZERO = 123_456_789_000_000_001


@pytest.fixture(scope="module")
def entries(runs) -> list[dict[str, Any]]:
    return json.loads(json.dumps(chrome_trace(runs), allow_nan=False))["traceEvents"]


def slices(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["ph"] == "X"]


def test_stages_are_where_the_document_says(entries, runs) -> None:
    for run in runs:
        found = {
            (entry["tid"], entry["name"]): entry
            for entry in slices(entries)
            if entry["pid"] == run.run_id and entry["cat"] == "stage"
        }
        for stage in run_document(run)["stages"]:
            entry = found[THREADS[run.info.role], stage["name"]]
            assert entry["ts"] / 1000 == pytest.approx(stage["start_ms"])
            assert entry["dur"] / 1000 == pytest.approx(stage["duration_ms"])


def test_arrows_lead_from_prefill_to_decode_and_from_drafts_to_their_verification(entries, runs) -> None:
    by_id = {entry["id"]: entry for entry in entries if entry["ph"] == "f"}
    arrows = [(entry, by_id[entry["id"]]) for entry in entries if entry["ph"] == "s"]
    assert len(by_id) == len(arrows)

    def slice_at(end: dict[str, Any]) -> dict[str, Any]:
        track = [entry for entry in slices(entries) if (entry["pid"], entry["tid"]) == (end["pid"], end["tid"])]
        return max((entry for entry in track if entry["ts"] == end["ts"]), key=track.index)

    ends = [(start["name"], slice_at(start)["name"], slice_at(stop)["name"]) for start, stop in arrows]
    drafted = sum(entry.drafted > 0 for entry in runs[2].rounds)
    assert ends.count(("first token", "prefill", "decode")) == 3
    assert ends.count(("drafted tokens", "draft", "verify")) == drafted > 0
    assert len(ends) == 3 + drafted


def test_drafts_of_models_lead_to_the_models_verification(speculative_run: RunLog) -> None:
    """The second round's parts were not recorded in time: its arrow joins the phases of the round."""
    speculative_run.rounds[:] = [entry._replace(hidden=0) for entry in speculative_run.rounds]
    found = chrome_trace([speculative_run])["traceEvents"]
    ends = [(entry["ph"], entry["tid"], entry["ts"]) for entry in found if entry.get("name") == "drafted tokens"]
    draft, target, rounds = (THREADS[name] for name in ("draft", "target", "rounds"))
    assert sorted(ends) == [("f", target, 80), ("f", rounds, 125), ("s", draft, 60), ("s", rounds, 105)]


def test_drafts_hidden_in_the_prefill_lead_to_the_verification_behind_it() -> None:
    """Drafting beside the prefill, verified in decode: the round's bar is the drafting alone, and still nests."""
    log = RunLog(RunInfo(1, 1, 0, "target", "parallel-prefill", start_ns=0, status="finished"))
    for span_id, parent, role, name, start, end in (
        (0, -1, "draft", "prefill", 0, 20_000),
        (1, -1, "target", "prefill", 5_000, 60_000),
        (2, -1, "draft", "decode", 20_000, 50_000),
        (3, -1, "target", "decode", 60_000, 100_000),
        (4, 3, "target", "verify", 62_000, 70_000),
    ):
        log.absorb(SpanRecord(1, span_id, parent, SETTLED, role, name, start, end))
    log.absorb(RoundRecord(1, 0, 20_000, 30_000, 8_000, 1_000, 4, 2, 3, "1,2,3,4", 1))
    found = chrome_trace([log])["traceEvents"]
    ends = [(entry["ph"], entry["tid"], entry["ts"]) for entry in found if entry.get("name") == "drafted tokens"]
    assert sorted(ends) == [("f", THREADS["target"], 62), ("s", THREADS["rounds"], 20)]
    rounds = [entry for entry in slices(found) if entry["tid"] == THREADS["rounds"]]
    assert [(entry["name"], entry["ts"], entry["dur"]) for entry in rounds] == [
        ("hidden round 0: 2 of 4", 20, 30),
        ("draft", 20, 30),
    ]
    assert rounds[0]["args"]["verify_ns"] == 8_000


def test_a_run_that_broke_off_says_where_and_why() -> None:
    log = RunLog(RunInfo(1, 1, 0, "target", "target", status="failed", error="no\x07 memory", start_ns=0))
    log.absorb(SpanRecord(1, 0, -1, SETTLED, "target", "load", 0, 10_000))
    log.absorb(SpanRecord(1, 1, -1, BEGIN, "target", "vision", 12_000, -1))
    text = json.dumps(chrome_trace([log]))
    assert "\\u0007" in text
    found = json.loads(text)["traceEvents"]
    assert [entry["name"] for entry in slices(found)] == ["load"]
    (outcome,) = (entry for entry in found if entry["ph"] == "i")
    assert (outcome["name"], outcome["ts"], outcome["s"]) == ("failed", 10, "p")
    assert outcome["args"] == {"status": "failed", "error": "no\x07 memory", "during": ["vision"]}


def test_stages_measured_as_one_are_one_slice() -> None:
    info = RunInfo(1, 1, 0, "target", "target", start_ns=0, status="finished")
    info.imported = ImportedFacts("old.json", "five-stage", 3)
    log = RunLog(info)
    log.absorb(SpanRecord(1, 0, -1, SETTLED, "target", "vision+prefill", 0, 10_000))
    log.absorb(SpanRecord(1, 1, -1, SETTLED, "target", "decode", 10_000, 30_000))
    log.absorb(TokenRecord(1, "target", 0, 7, "target", -1, 30_000, " a"))
    document = chrome_trace([log])
    fused, decode = slices(document["traceEvents"])
    assert fused["name"] == "vision + prefill"
    assert fused["args"]["covers"] == ["vision", "prefill"]
    assert fused["args"]["badge"] == decode["args"]["badge"] == "imported"
    assert "covers" not in decode["args"]
    # Its tokens have no times of their own.
    assert not any(entry["ph"] == "i" for entry in document["traceEvents"])
    assert document["otherData"]["left_out"]["tokens_without_times"] == 1
    sentence = "1 token of imported runs had no times of their own and is not in the trace."
    assert left_out_sentences(document) == [sentence]
    arrow = [entry["ph"] for entry in document["traceEvents"] if entry["name"] == "first token"]
    assert arrow == ["s", "f"]


def of_kind(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [entry for entry in document["traceEvents"] if entry["ph"] == kind]


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
    assert left_out_sentences(document) == ["2 spans never finished and are not in the trace."]


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


def test_a_step_ends_with_its_run_and_not_with_the_last_sample(build_runs) -> None:
    info = RunInfo(3, 3, 0, "target", "target", start_ns=ZERO, end_ns=ZERO + 1_000_000)
    (run,) = build_runs((info, [MemoryRecord(3, ZERO + 9_000_000, 10_000, -1)]))
    entries, _ = run_entries(run, ZERO, TracePlace(1, step=1), Counter())
    (step,) = (entry for entry in entries if entry["name"] == "ProfilerStep#1")
    assert (step["ts"], step["dur"]) == (0, 1_000)


def test_arguments_hold_tensors_even_of_one_name_and_tokens_as_they_are(speculative_run: RunLog) -> None:
    document = json.loads(json.dumps(chrome_trace([speculative_run])))
    vision = next(entry for entry in of_kind(document, "X") if entry["name"] == "vision")
    assert vision["args"]["inputs"] == ["pixel_values: float32[8,3,64,64], 393216 bytes"]
    assert len(vision["args"]["outputs"]) == 2
    tokens = [entry for entry in of_kind(document, "i") if entry["cat"] == "token"]
    assert [entry["args"]["piece"] for entry in tokens] == [" a", '\x01"<', "b", "", " é", " no"]
    assert all(entry["name"] for entry in tokens)
    assert tokens[-1]["args"]["origin"] == "rejected"


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
