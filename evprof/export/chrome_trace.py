"""Runs as Chrome Trace Events, for Perfetto, chrome://tracing and whatever else reads that format.

One process per run, drawn aligned at the runs' zero as in the window; one thread per role plus one for the rounds.
Settled spans only. Format: "Trace Event Format" (ph X, C, i, M; ts and dur in µs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import evprof
from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog, Span
from evprof.metrics.stages import is_measured

Entry = dict[str, Any]

THREADS = {DRAFT: 1, TARGET: 2, "rounds": 3, "tokens": 4}
"""Thread numbers inside a run's process, in order of drawing."""


def chrome_trace(runs: Iterable[RunLog]) -> dict[str, Any]:
    """The trace document. Runs whose zero is unknown have no place in time and are left out."""
    entries: list[Entry] = []
    for run in runs:
        if run.info.start_ns is not None:
            entries += _run_entries(run, run.info.start_ns)
    return {
        "traceEvents": entries,
        "displayTimeUnit": "ms",
        "otherData": {"producer": f"evprof {evprof.__version__}", "clock": "each run begins at its own zero"},
    }


def _run_entries(run: RunLog, zero_ns: int) -> Iterator[Entry]:
    yield from _names(run)
    for span in run.spans.values():
        if is_measured(span) and span.end_ns is not None:
            times_ns = span.start_ns - zero_ns, span.end_ns - span.start_ns
            yield _slice(run, span.role, span.name, times_ns, _arguments(span))
    yield from _rounds(run, zero_ns)
    for token in run.tokens:
        arguments = {"piece": token.piece, "id": token.token_id, "position": token.position, "origin": token.origin}
        yield {
            "ph": "i",
            "s": "t",
            "name": token.piece.strip() or "token",
            "cat": "token",
            "pid": run.run_id,
            "tid": THREADS["tokens"],
            "ts": (token.t_ns - zero_ns) / 1000,
            "args": arguments,
        }
    yield from _counters(run, zero_ns)


def _names(run: RunLog) -> Iterator[Entry]:
    model = run.info.models.get(run.info.role)
    title = f"run {run.run_id} · {run.info.mode} · {model.name if model else run.info.role}"
    yield {"ph": "M", "name": "process_name", "pid": run.run_id, "tid": 0, "args": {"name": title}}
    yield {"ph": "M", "name": "process_sort_index", "pid": run.run_id, "tid": 0, "args": {"sort_index": run.run_id}}
    for name, thread in THREADS.items():
        yield {"ph": "M", "name": "thread_name", "pid": run.run_id, "tid": thread, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": run.run_id, "tid": thread, "args": {"sort_index": thread}}


def _slice(run: RunLog, thread: str, name: str, times_ns: tuple[int, int], arguments: Entry) -> Entry:
    """A slice that starts and lasts `times_ns`."""
    return {
        "ph": "X",
        "name": name,
        "cat": "round" if thread == "rounds" else "stage",
        "pid": run.run_id,
        "tid": THREADS.get(thread, THREADS[TARGET]),
        "ts": times_ns[0] / 1000,
        "dur": times_ns[1] / 1000,
        "args": arguments,
    }


def _arguments(span: Span) -> Entry:
    return {
        f"{'input' if tensor.direction == 'in' else 'output'} {tensor.name}": f"{tensor.dtype}[{tensor.shape}]"
        for tensor in span.tensors
    }


def _rounds(run: RunLog, zero_ns: int) -> Iterator[Entry]:
    for entry in run.rounds:
        facts = {
            "round": entry.round_index,
            "drafted": entry.drafted,
            "accepted": entry.accepted,
            "emitted": entry.emitted,
        }
        at = entry.start_ns - zero_ns
        for name, duration_ns in (
            ("draft", entry.draft_ns),
            ("verify", entry.verify_ns),
            ("rollback", entry.rollback_ns),
        ):
            if duration_ns > 0:
                yield _slice(run, "rounds", name, (at, duration_ns), facts)
            at += duration_ns


def _counters(run: RunLog, zero_ns: int) -> Iterator[Entry]:
    for role, records in run.kv.items():
        for record in records:
            yield _counter(run, f"KV cache {role}", record.t_ns - zero_ns, {"bytes": record.nbytes})
    for sample in run.memory:
        values = {"resident": sample.rss_bytes} | ({"GPU": sample.gpu_bytes} if sample.gpu_bytes >= 0 else {})
        yield _counter(run, "memory", sample.t_ns - zero_ns, values)


def _counter(run: RunLog, name: str, at_ns: int, values: dict[str, int]) -> Entry:
    return {"ph": "C", "name": name, "pid": run.run_id, "tid": 0, "ts": at_ns / 1000, "args": values}
