"""The Chrome trace: slices nest, numbers are numbers, names are those of the stages."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from evprof.core.records import BEGIN, END, SETTLED, RoundRecord, SpanRecord, TokenRecord
from evprof.core.run_info import ImportedFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.export.chrome_trace import THREADS, left_out_sentences
from evprof.metrics.document import run_document
from exported import chrome_trace


@pytest.fixture(scope="module")
def entries(runs) -> list[dict[str, Any]]:
    return json.loads(json.dumps(chrome_trace(runs), allow_nan=False))["traceEvents"]


def slices(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["ph"] == "X"]


def test_slices_of_one_thread_nest(entries) -> None:
    lanes = defaultdict(list)
    for entry in slices(entries):
        lanes[entry["pid"], entry["tid"]].append((entry["ts"], entry["ts"] + entry["dur"]))
    assert len(lanes) == 1 + 1 + 3
    for lane in lanes.values():
        open_ends: list[float] = []
        for start, end in sorted(lane, key=lambda pair: (pair[0], -pair[1])):
            while open_ends and open_ends[-1] <= start + 1e-6:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-6
            open_ends.append(end)


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


def test_rounds_tokens_and_counters(entries, runs) -> None:
    speculative = runs[2]
    drafts = [entry for entry in slices(entries) if entry["cat"] == "phase" and entry["name"] == "draft"]
    assert len(drafts) == len(speculative.rounds)
    marks = [entry for entry in entries if entry["ph"] == "i" and entry["pid"] == speculative.run_id]
    tokens = [entry for entry in marks if entry["tid"] == THREADS["tokens"]]
    assert [entry["args"]["id"] for entry in tokens] == [token.token_id for token in speculative.tokens]
    counters = [entry for entry in entries if entry["ph"] == "C" and entry["name"] == "KV cache target bytes"]
    assert counters[-1]["args"]["bytes"] == speculative.kv["target"][-1].nbytes


def test_each_run_is_a_named_process(entries) -> None:
    names = {entry["pid"]: entry["args"]["name"] for entry in entries if entry["name"] == "process_name"}
    assert set(names) == {1, 2, 3}
    assert "speculative" in names[3]


def test_what_is_not_settled_is_left_out() -> None:
    log = RunLog(RunInfo(1, 1, 0, "target", "target", start_ns=0))
    log.absorb(SpanRecord(1, 0, -1, BEGIN, "target", "load", 0, -1))
    log.absorb(SpanRecord(1, 0, -1, END, "target", "load", 0, 10))
    assert slices(chrome_trace([log])["traceEvents"]) == []
    unstarted = RunLog(RunInfo(2, 1, 0, "target", "target"))
    assert chrome_trace([unstarted])["traceEvents"] == []


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
