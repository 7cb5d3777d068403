"""Traces of any runs, of any number of sessions, in both layouts: sound, and nothing missing that is not counted."""

from __future__ import annotations

import json
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import (
    BEGIN,
    END,
    SETTLED,
    KvRecord,
    MemoryRecord,
    Record,
    RoundRecord,
    SpanRecord,
    TokenRecord,
)
from evprof.core.run_info import ImportedFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.export.chrome_trace import ChromeTrace
from evprof.export.files import write_export
from evprof.export.report.data import Source
from trace_check import TraceCheck, is_step

ZERO = 77_000_000_123

moments = st.integers(-40, 4000)
lengths = st.integers(0, 1500)
roles = st.sampled_from(["draft", "target", "referee"])
names = st.sampled_from(
    ["load", "vision", "prefill", "decode", "vision+prefill", "prefill+decode", "tower", "draft", "verify"]
)
pieces = st.one_of(st.text(max_size=4), st.sampled_from(["[memory]", "\x00\x1f", '"\\', "\u2028", "\ud800", "<0xE2>"]))


@st.composite
def span_records(draw: st.DrawFn, run_id: int, span_id: int) -> list[Record]:
    start, length, role, name = ZERO + draw(moments), draw(lengths), draw(roles), draw(names)
    parent = draw(st.integers(-1, 3))
    found: list[Record] = [SpanRecord(run_id, span_id, parent, BEGIN, role, name, start, -1)]
    state = draw(st.sampled_from(["open", "ended", "settled", "settled", "settled"]))
    if state != "open":
        found.append(SpanRecord(run_id, span_id, parent, END, role, name, start, start + length))
    if state == "settled":
        # Device times may be anywhere, and of an odd device even backwards.
        shift = draw(st.integers(-3, 3))
        found.append(SpanRecord(run_id, span_id, parent, SETTLED, role, name, start + shift, start + length))
    return found


@st.composite
def logs(draw: st.DrawFn, run_id: int) -> RunLog:
    imported = draw(st.sampled_from([None, None, ImportedFacts("old.json", "five-stage", run_id)]))
    start = draw(st.sampled_from([ZERO, ZERO, ZERO, None]))
    status = draw(st.sampled_from(["finished", "failed", "cancelled", "running"]))
    end = draw(st.sampled_from([None, ZERO + 900, ZERO + 5000]))
    info = RunInfo(
        run_id, 1, 0, "target", "target", GenerationSettings(), Sample(), "2026-01-02T03:04:05+00:00", status, "why\x07"
    )
    info.start_ns, info.end_ns, info.imported = start, end, imported
    run = RunLog(info)
    records: list[Record] = []
    for span_id in range(draw(st.integers(0, 9))):
        records += draw(span_records(run_id, span_id))
    for index in range(draw(st.integers(0, 3))):
        durations = draw(st.tuples(lengths, lengths, lengths))
        at = ZERO + draw(moments)
        records.append(RoundRecord(run_id, index, at, *durations, draw(st.integers(0, 4)), 1, 1, "5,6", 0))
    for place in range(draw(st.integers(0, 4))):
        origin = draw(st.sampled_from(["target", "rejected"]))
        at = ZERO + draw(moments)
        records.append(TokenRecord(run_id, "target", place, 7, origin, -1, at, draw(pieces)))
    for _ in range(draw(st.integers(0, 3))):
        records.append(KvRecord(run_id, draw(roles), ZERO + draw(moments), 3, 9))
        records.append(MemoryRecord(run_id, ZERO + draw(moments), 5, draw(st.sampled_from([-1, 8]))))
    for record in records:
        run.absorb(record)
    return run


@st.composite
def sessions(draw: st.DrawFn) -> list[Source]:
    return [
        Source(Path(f"{name}.evprof"), [draw(logs(run_id)) for run_id in range(1, 1 + draw(st.integers(0, 3)))])
        for name in ("one", "two")[: draw(st.integers(1, 2))]
    ]


def expected(sources: list[Source]) -> Counter[str]:
    """What the records hold that has a place in time, counted without the exporter."""
    found: Counter[str] = Counter()
    for run in (run for source in sources for run in source.runs):
        if run.info.start_ns is None:
            found["runs_without_a_start"] += 1
            continue
        for span in run.spans.values():
            kind = "stage" if span.is_stage else "part"
            found["unsettled" if not span.is_settled else "early" if span.start_ns < ZERO else kind] += 1
        for entry in run.rounds:
            found["early" if entry.start_ns < ZERO else "round"] += 1
            starts = entry.start_ns, entry.start_ns + entry.draft_ns, entry.start_ns + entry.draft_ns + entry.verify_ns
            for at in starts:
                found["early" if at < ZERO else "phase"] += 1
        for token in (*run.tokens, *run.rejected):
            is_timed = run.info.imported is None
            found[("early" if token.t_ns < ZERO else "token") if is_timed else "untimed"] += 1
        for records, each in (([*chain(*run.kv.values())], 2), (run.memory, 1)):
            early = sum(record.t_ns < ZERO for record in records)
            found["early"] += early
            found["counter"] += each * (len(records) - early)
        found["outcome"] += run.info.status in ("failed", "cancelled")
    return +found


@pytest.mark.parametrize("as_steps", [False, True])
@given(data=st.data())
def test_any_runs_give_a_sound_trace(as_steps: bool, data: st.DataObject) -> None:
    sources = data.draw(sessions())
    trace = ChromeTrace(sources, as_steps=as_steps, names_sessions=len(sources) > 1)
    entries = list(trace.entries())
    check = TraceCheck(trace.head | {"traceEvents": entries} | trace.tail)
    assert check.problems == []
    wanted = expected(sources)
    counts = check.counts
    kinds = ("stage", "part", "round", "phase", "token", "counter", "outcome")
    assert {kind: counts[kind] for kind in kinds} == {kind: wanted[kind] for kind in kinds}
    other = check.document["otherData"]
    assert other["left_out"]["unsettled_spans"] == wanted["unsettled"]
    assert other["left_out"]["records_before_the_zero"] == wanted["early"]
    assert other["left_out"]["tokens_without_times"] == wanted["untimed"]
    assert other["left_out"]["runs_without_a_start"] == wanted["runs_without_a_start"]
    assert other["slices"] == len(check.slices)
    assert other["counters"] == wanted["counter"]
    # Processes are runs, and no two runs share one.
    begun = [run for source in sources for run in source.runs if run.info.start_ns is not None]
    assert len({entry["pid"] for entry in check.entries}) == len(begun) == other["runs"]
    steps = [entry for entry in check.entries if is_step(entry)]
    assert len(steps) == (len(begun) if as_steps else 0)
    for before, after in pairwise(steps):
        assert before["ts"] + before["dur"] < after["ts"]


@pytest.mark.leaves_threads
@given(data=st.data())
def test_the_other_formats_take_any_runs(data: st.DataObject) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    sources = data.draw(sessions())
    runs = [run for source in sources for run in source.runs]
    with TemporaryDirectory() as folder:
        write_export(sources, "parquet", Path(folder) / "parquet")
        table = parquet.read_table(Path(folder) / "parquet" / "tokens.parquet")
        assert table.num_rows == sum(run.count("tokens") for run in runs)
        files = write_export(sources, "aiperf", Path(folder) / "aiperf", many=True) if runs else []
        records = [line for path in files if path.suffix == ".jsonl" for line in path.read_text("utf-8").split("\n")]
        told = [json.loads(line)["metadata"]["x_request_id"] for line in records if line]
        assert sorted(told) == sorted(str(run.run_id) for run in runs)


def test_the_checker_finds_what_is_wrong() -> None:
    """A checker that cannot fail checks nothing."""

    def problems(*entries: dict[str, object]) -> str:
        named = [
            {"ph": "M", "name": name, "pid": 1, "tid": tid, "ts": 0, "args": {}}
            for tid, name in (
                *((0, name) for name in ("process_name", "process_sort_index")),
                *((2, name) for name in ("thread_name", "thread_sort_index")),
            )
        ]
        return " ".join(TraceCheck({"traceEvents": [*named, *entries]}).problems)

    def bar(ts: float, dur: float, **more: object) -> dict[str, object]:
        return {"ph": "X", "name": "bar", "cat": "stage", "pid": 1, "tid": 2, "ts": ts, "dur": dur, "args": {}} | more

    def end(ph: str, ts: float, **more: object) -> dict[str, object]:
        return {"ph": ph, "name": "arrow", "cat": "flow", "id": "1", "pid": 1, "tid": 2, "ts": ts, "bp": "e"} | more

    assert problems(bar(0, 10), end("s", 0), bar(10, 5), end("f", 10)) == ""
    assert "cuts across" in problems(bar(0, 10), bar(5, 10))
    assert "order" in problems(bar(5, 1), bar(0, 1))
    assert "float" in problems(bar(0.1, 0.7), bar(0.2, 0.6000000000000002))
    assert "fields" in problems(bar(-1, 10))
    assert "fields" in problems(bar(0, 10, tid="2"))
    assert "names" in problems(bar(0, 10, tid=3))
    assert "in no slice" in problems(bar(0, 10), end("s", 20), bar(30, 5), end("f", 30))
    assert "has ends" in problems(bar(0, 10), end("s", 0))
    assert "next slice" in problems(bar(0, 10), end("s", 0), bar(10, 5), end("f", 10, bp="b"))
    assert "goes back" in problems(
        {"ph": "C", "name": "bytes", "pid": 1, "tid": 0, "ts": 5, "args": {"bytes": 1}},
        {"ph": "C", "name": "bytes", "pid": 1, "tid": 0, "ts": 4, "args": {"bytes": 1}},
    )
