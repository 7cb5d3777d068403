"""The Chrome trace: slices nest, numbers are numbers, names are those of the stages."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from evprof.core.records import BEGIN, END, SpanRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.export.chrome_trace import THREADS, chrome_trace
from evprof.metrics.document import run_document


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
    log = RunLog(RunInfo(1, 1, 0, "target", "target", {}, {}, start_ns=0))
    log.absorb(SpanRecord(1, 0, -1, BEGIN, "target", "load", 0, -1))
    log.absorb(SpanRecord(1, 0, -1, END, "target", "load", 0, 10))
    assert slices(chrome_trace([log])["traceEvents"]) == []
    unstarted = RunLog(RunInfo(2, 1, 0, "target", "target", {}, {}))
    assert chrome_trace([unstarted])["traceEvents"] == []
