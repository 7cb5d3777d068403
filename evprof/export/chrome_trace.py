"""Runs as Chrome Trace Events, for Perfetto, chrome://tracing and whatever else reads that format.

One process per run, drawn aligned at the runs' zero as in the window; one thread per role for stages and their parts,
one each for rounds, tokens, rejected tokens and pictures; counters for KV cache and memory. Settled spans only; what
has no place in the trace is counted under `otherData.left_out`. Format: "Trace Event Format" (ph X, C, i, M; µs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import evprof
from evprof.core.records import DRAFT, TARGET, RoundRecord, TensorRecord, TokenRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.export.nesting import nested_tracks
from evprof.metrics.stages import is_measured

Entry = dict[str, Any]

THREADS = {DRAFT: 1000, TARGET: 2000, "rounds": 3000, "tokens": 4000, "rejected tokens": 5000, "pictures": 6000}
"""Thread number of each track's first thread, in order of drawing; slices that do not nest go to the next number."""

OTHER_TRACK = 7000
"""Spans of a role that has no track of its own."""

LEFT_OUT = ("runs_without_a_start", "records_of_those_runs", "unsettled_spans")
"""What the trace cannot show, counted."""


@dataclass(frozen=True)
class _Slice:
    """One bar: `base` is its track's first thread number; times in ns on the recording's clock."""

    base: int
    track: str
    name: str
    category: str
    start_ns: int
    end_ns: int
    arguments: Entry


def chrome_trace(runs: Iterable[RunLog]) -> dict[str, Any]:
    """The trace document. Runs whose zero is unknown have no place in time: left out, and counted."""
    entries: list[Entry] = []
    left_out = dict.fromkeys(LEFT_OUT, 0)
    for run in runs:
        if run.info.start_ns is None:
            left_out["runs_without_a_start"] += 1
            left_out["records_of_those_runs"] += _record_count(run)
            continue
        left_out["unsettled_spans"] += sum(not is_measured(span) for span in run.spans.values())
        entries += _run_entries(run, run.info.start_ns)
    return {
        "traceEvents": entries,
        "displayTimeUnit": "ms",
        "otherData": {
            "producer": f"evprof {evprof.__version__}",
            "clock": "each run begins at its own zero",
            "left_out": left_out,
        },
    }


def left_out_sentences(document: dict[str, Any]) -> list[str]:
    """What a person should hear about the parts of a session that a trace does not show."""
    counts = document["otherData"]["left_out"]
    sentences: list[str] = []
    if counts["runs_without_a_start"]:
        sentences.append(f"{counts['runs_without_a_start']} runs never began and are not in the trace.")
    if counts["unsettled_spans"]:
        sentences.append(f"{counts['unsettled_spans']} spans were never finished and are not in the trace.")
    return sentences


def _record_count(run: RunLog) -> int:
    by_role = sum(map(len, run.kv.values())) + sum(map(len, run.frames.values()))
    return by_role + len(run.spans) + len(run.tokens) + len(run.rejected) + len(run.rounds) + len(run.memory)


def _run_entries(run: RunLog, zero_ns: int) -> Iterator[Entry]:
    slices = [*_spans(run), *_rounds(run)]
    threads = _threads(slices)
    drawn = [_slice(run, entry, thread, zero_ns) for entry, thread in zip(slices, threads, strict=True)]
    instants = [*_tokens(run, zero_ns), *_pictures(run, zero_ns)]
    yield from _process(run.info)
    yield from _thread_names(run, slices, threads, {entry["tid"] for entry in instants})
    # Parents before children at equal starts, as viewers expect.
    yield from sorted(drawn, key=lambda entry: (entry["tid"], entry["ts"], -entry["dur"]))
    yield from instants
    yield from _counters(run, zero_ns)


def _process(info: RunInfo) -> Iterator[Entry]:
    model = info.models.get(info.role)
    title = f"run {info.run_id} · {info.mode} · {model.name if model else info.role}"
    for name, arguments in (
        ("process_name", {"name": title}),
        ("process_labels", {"labels": ", ".join(_labels(info))}),
        ("process_sort_index", {"sort_index": info.run_id}),
    ):
        yield {"ph": "M", "name": name, "pid": info.run_id, "tid": 0, "ts": 0, "args": arguments}


def _labels(info: RunInfo) -> list[str]:
    flags = (("warm-up", info.warmup), ("profiled", info.profiled))
    return [info.status, *(name for name, holds in flags if holds)]


def _thread_names(run: RunLog, slices: list[_Slice], threads: list[int], instant_threads: set[int]) -> Iterator[Entry]:
    names = {thread: entry.track for entry, thread in zip(slices, threads, strict=True)}
    first = {entry.track: entry.base for entry in slices}
    names |= {thread: track for track, thread in THREADS.items() if thread in instant_threads}
    for thread, track in sorted(names.items()):
        lane = thread - first.get(track, thread)
        title = f"{track} ({lane + 1})" if lane else track
        for kind, arguments in (("thread_name", {"name": title}), ("thread_sort_index", {"sort_index": thread})):
            yield {"ph": "M", "name": kind, "pid": run.run_id, "tid": thread, "ts": 0, "args": arguments}


def _threads(slices: list[_Slice]) -> list[int]:
    """The thread of each slice: its track's first, or one further where it would cut across another slice."""
    threads = [0] * len(slices)
    for base in {entry.base for entry in slices}:
        places = [place for place, entry in enumerate(slices) if entry.base == base]
        lanes = nested_tracks([(slices[place].start_ns, slices[place].end_ns) for place in places])
        for place, lane in zip(places, lanes, strict=True):
            threads[place] = base + lane
    return threads


def _slice(run: RunLog, entry: _Slice, thread: int, zero_ns: int) -> Entry:
    return {
        "ph": "X",
        "name": entry.name,
        "cat": entry.category,
        "pid": run.run_id,
        "tid": thread,
        "ts": (entry.start_ns - zero_ns) / 1000,
        "dur": (entry.end_ns - entry.start_ns) / 1000,
        "args": entry.arguments,
    }


def _spans(run: RunLog) -> Iterator[_Slice]:
    for span in run.spans.values():
        if not is_measured(span) or span.end_ns is None:
            continue
        base = THREADS[span.role] if span.role in (DRAFT, TARGET) else OTHER_TRACK
        yield _Slice(
            base,
            span.role if base != OTHER_TRACK else "other",
            span.name,
            "stage" if span.is_stage else "part",
            span.start_ns,
            max(span.start_ns, span.end_ns),
            {"span": span.span_id, "role": span.role, **_tensors(span.tensors)},
        )


def _tensors(tensors: list[TensorRecord]) -> Entry:
    """Lists, not keys by name: two tensors of one span may be called the same."""
    found: Entry = {}
    for tensor in tensors:
        side = "inputs" if tensor.direction == "in" else "outputs"
        found.setdefault(side, []).append(f"{tensor.name}: {tensor.dtype}[{tensor.shape}], {tensor.nbytes} bytes")
    return found


def _rounds(run: RunLog) -> Iterator[_Slice]:
    """A bar for each round, and within it drafting, verifying and rolling back, one after the other."""
    for entry in run.rounds:
        at_ns = entry.start_ns
        parts = (("draft", entry.draft_ns), ("verify", entry.verify_ns), ("rollback", entry.rollback_ns))
        end_ns = at_ns + sum(duration_ns for _, duration_ns in parts)
        title = f"round {entry.round_index}: {entry.accepted} of {entry.drafted}"
        yield _Slice(THREADS["rounds"], "rounds", title, "round", at_ns, end_ns, _round_arguments(entry))
        for name, duration_ns in parts:
            yield _Slice(
                THREADS["rounds"], "rounds", name, "phase", at_ns, at_ns + duration_ns, {"round": entry.round_index}
            )
            at_ns += duration_ns


def _round_arguments(entry: RoundRecord) -> Entry:
    return {
        "round": entry.round_index,
        "drafted": entry.drafted,
        "accepted": entry.accepted,
        "emitted": entry.emitted,
        "drafted_ids": entry.drafted_ids,
        "hidden": bool(entry.hidden),
    }


def _tokens(run: RunLog, zero_ns: int) -> Iterator[Entry]:
    for track, tokens in (("tokens", run.tokens), ("rejected tokens", run.rejected)):
        for token in tokens:
            yield _instant(run, track, token.piece.strip() or "token", token.t_ns - zero_ns, _token_arguments(token))


def _token_arguments(token: TokenRecord) -> Entry:
    return {
        "piece": token.piece,
        "id": token.token_id,
        "position": token.position,
        "origin": token.origin,
        "role": token.role,
        "round": token.round_index,
    }


def _pictures(run: RunLog, zero_ns: int) -> Iterator[Entry]:
    """Where each picture was made ready is not recorded: they stand at the start of their role's vision stage."""
    for role, frames in run.frames.items():
        stage = run.stage("vision", role)
        at_ns = stage.start_ns - zero_ns if stage is not None else 0
        for frame in frames:
            arguments = {"role": role, "index": frame.frame_index, "start_us": frame.start_us, "end_us": frame.end_us}
            yield _instant(run, "pictures", frame.label or f"picture {frame.frame_index}", at_ns, arguments)


def _instant(run: RunLog, track: str, name: str, at_ns: int, arguments: Entry) -> Entry:
    return {
        "ph": "i",
        "s": "t",
        "name": name,
        "cat": "picture" if track == "pictures" else "token",
        "pid": run.run_id,
        "tid": THREADS[track],
        "ts": at_ns / 1000,
        "args": arguments,
    }


def _counters(run: RunLog, zero_ns: int) -> Iterator[Entry]:
    for role, records in run.kv.items():
        for record in records:
            yield _counter(run, f"KV cache {role} bytes", record.t_ns - zero_ns, {"bytes": record.nbytes})
            yield _counter(run, f"KV cache {role} positions", record.t_ns - zero_ns, {"positions": record.length})
    for sample in run.memory:
        values = {"resident": sample.rss_bytes} | ({"GPU": sample.gpu_bytes} if sample.gpu_bytes >= 0 else {})
        yield _counter(run, "memory", sample.t_ns - zero_ns, values)


def _counter(run: RunLog, name: str, at_ns: int, values: dict[str, int]) -> Entry:
    return {"ph": "C", "name": name, "pid": run.run_id, "tid": 0, "ts": at_ns / 1000, "args": values}
