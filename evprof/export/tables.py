"""Runs as flat tables, one row per run, stage, tensor, token, round, cache length or memory sample, for data frames."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from evprof.core.records import STAGES
from evprof.core.run_log import RunLog, Span
from evprof.core.units import ms_from_ns
from evprof.metrics import kv_cache, stages
from evprof.metrics.document import metrics_document
from evprof.metrics.speculation import acceptance

Row = dict[str, Any]


def tables(runs: Sequence[RunLog]) -> dict[str, list[Row]]:
    """Table name -> rows. Times are ms on the run's own clock; what was not measured is None (an empty cell)."""
    return {
        "runs": [_run_row(run) for run in runs],
        "stages": [row for run in runs for row in _stage_rows(run)],
        "tensors": [row for run in runs for row in _tensor_rows(run)],
        "tokens": [row for run in runs for row in _token_rows(run)],
        "rounds": [row for run in runs for row in _round_rows(run)],
        "kv_cache": [row for run in runs for row in _kv_rows(run)],
        "memory": [row for run in runs for row in _memory_rows(run)],
    }


def write_tables(runs: Sequence[RunLog], path: Path) -> list[Path]:
    """Writes the runs when `path` ends in `.csv`, otherwise every table into that folder; returns the files."""
    found = tables(runs)
    if path.suffix.lower() == ".csv":
        found, places = {"runs": found["runs"]}, {"runs": path}
    else:
        path.mkdir(parents=True, exist_ok=True)
        places = {name: path / f"{name}.csv" for name in found}
    for name, rows in found.items():
        with places[name].open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            write_rows(rows, stream, COLUMNS[name])
    return list(places.values())


def write_rows(rows: Iterable[Row], stream: TextIO, columns: Sequence[str]) -> None:
    """One table as CSV with a heading line, written even when there are no rows."""
    writer = csv.DictWriter(stream, fieldnames=columns)
    writer.writeheader()
    writer.writerows(rows)


def _run_row(run: RunLog) -> Row:
    info = run.info
    model = info.models.get(info.role)
    counts = acceptance(run)
    return {
        "run_id": info.run_id,
        "group_id": info.group_id,
        "repeat": info.repeat,
        "mode": info.mode,
        "role": info.role,
        "status": info.status,
        "warmup": info.warmup,
        "profiled": info.profiled,
        "model": model.name if model else None,
        "dtype": model.dtype if model else None,
        "device": model.device if model else None,
        "wall_ms": stages.wall_ms(run),
        **{f"{name}_ms": stages.stage_ms(run, name) for name in STAGES},
        "unattributed_ms": stages.unattributed_ms(run),
        **metrics_document(run),
        "kv_measured_bytes": kv_cache.measured_bytes(run),
        "kv_formula_bytes": kv_cache.formula_bytes(run),
        "peak_rss_bytes": info.memory.peak_rss_bytes,
        "peak_allocated_bytes": info.memory.peak_allocated_bytes,
        "draft_acceptance_rate": counts.draft_acceptance_rate if counts else None,
        "mean_acceptance_length": counts.mean_acceptance_length if counts else None,
        "text": info.text,
    }


def _stage_rows(run: RunLog) -> list[Row]:
    return [
        {
            "run_id": run.run_id,
            "role": span.role,
            "stage": _stage_name(run, span),
            "part": "" if span.is_stage else span.name,
            "start_ms": stages.start_ms(run, span.start_ns),
            "duration_ms": stages.span_ms(span),
        }
        for span in sorted(run.spans.values(), key=lambda span: (span.start_ns, span.span_id))
    ]


def _stage_name(run: RunLog, span: Span) -> str:
    """The stage that a span is or lies in."""
    seen = {span.span_id}
    while span.parent_id in run.spans and span.parent_id not in seen:
        span = run.spans[span.parent_id]
        seen.add(span.span_id)
    return span.name


def _tensor_rows(run: RunLog) -> list[Row]:
    return [
        {
            "run_id": run.run_id,
            "role": span.role,
            "stage": _stage_name(run, span),
            "part": "" if span.is_stage else span.name,
            "direction": tensor.direction,
            "tensor": tensor.name,
            "shape": tensor.shape.replace(",", "x"),
            "dtype": tensor.dtype,
            "bytes": tensor.nbytes,
        }
        for span in sorted(run.spans.values(), key=lambda span: (span.start_ns, span.span_id))
        for tensor in span.tensors
    ]


def _token_rows(run: RunLog) -> list[Row]:
    return [
        {
            "run_id": run.run_id,
            "role": token.role,
            "position": token.position,
            "token_id": token.token_id,
            "piece": token.piece,
            "origin": token.origin,
            "round": token.round_index if token.round_index >= 0 else None,
            "time_ms": stages.start_ms(run, token.t_ns),
        }
        for token in sorted([*run.tokens, *run.rejected], key=lambda token: (token.t_ns, token.position))
    ]


def _round_rows(run: RunLog) -> list[Row]:
    return [
        {
            "run_id": run.run_id,
            "round": entry.round_index,
            "start_ms": stages.start_ms(run, entry.start_ns),
            "draft_ms": ms_from_ns(entry.draft_ns),
            "verify_ms": ms_from_ns(entry.verify_ns),
            "rollback_ms": ms_from_ns(entry.rollback_ns),
            "drafted": entry.drafted,
            "accepted": entry.accepted,
            "emitted": entry.emitted,
            "drafted_ids": entry.drafted_ids.replace(",", " "),
            "hidden": bool(entry.hidden),
        }
        for entry in run.rounds
    ]


def _kv_rows(run: RunLog) -> list[Row]:
    return [
        {
            "run_id": run.run_id,
            "role": role,
            "time_ms": stages.start_ms(run, record.t_ns),
            "positions": record.length,
            "bytes": record.nbytes,
        }
        for role, records in run.kv.items()
        for record in records
    ]


def _memory_rows(run: RunLog) -> list[Row]:
    return [
        {
            "run_id": run.run_id,
            "time_ms": stages.start_ms(run, sample.t_ns),
            "resident_bytes": sample.rss_bytes,
            "gpu_bytes": sample.gpu_bytes if sample.gpu_bytes >= 0 else None,
        }
        for sample in run.memory
    ]


COLUMNS: dict[str, tuple[str, ...]] = {
    "runs": (
        "run_id",
        "group_id",
        "repeat",
        "mode",
        "role",
        "status",
        "warmup",
        "profiled",
        "model",
        "dtype",
        "device",
        "wall_ms",
        "load_ms",
        "preprocess_ms",
        "vision_ms",
        "prefill_ms",
        "decode_ms",
        "unattributed_ms",
        "time_to_first_token_ms",
        "inter_token_latency_ms",
        "input_sequence_length",
        "output_sequence_length",
        "visual_tokens",
        "prefill_throughput_tok_s",
        "decode_throughput_tok_s",
        "kv_measured_bytes",
        "kv_formula_bytes",
        "peak_rss_bytes",
        "peak_allocated_bytes",
        "draft_acceptance_rate",
        "mean_acceptance_length",
        "text",
    ),
    "stages": ("run_id", "role", "stage", "part", "start_ms", "duration_ms"),
    "tensors": ("run_id", "role", "stage", "part", "direction", "tensor", "shape", "dtype", "bytes"),
    "tokens": ("run_id", "role", "position", "token_id", "piece", "origin", "round", "time_ms"),
    "rounds": (
        "run_id",
        "round",
        "start_ms",
        "draft_ms",
        "verify_ms",
        "rollback_ms",
        "drafted",
        "accepted",
        "emitted",
        "drafted_ids",
        "hidden",
    ),
    "kv_cache": ("run_id", "role", "time_ms", "positions", "bytes"),
    "memory": ("run_id", "time_ms", "resident_bytes", "gpu_bytes"),
}
"""Column names of each table, in order."""
