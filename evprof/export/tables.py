"""Runs as flat tables for data frames: one row per run, stage, tensor, token, round, judged draft and so on.

Written one run at a time. Every run is there, failed ones with their error.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from evprof.core.files.whole_file import whole_file
from evprof.core.records import COVERS, STAGES, PowerRecord
from evprof.core.rows.span import Span
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.core.vocabulary.figures import ENERGY, FIGURES, figure_of
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.document import SETTINGS_KEYS, metrics_document
from evprof.metrics.figures import kv_cache, stages
from evprof.metrics.figures.loading import loading_document
from evprof.metrics.figures.throttling import is_throttled
from evprof.metrics.speculation.failure_modes import Rejection, first_rejections
from evprof.metrics.speculation.outcome import acceptance

if TYPE_CHECKING:
    from evprof.export.report.data import Source

Row = dict[str, Any]


def run_tables(run: RunLog, session: str = "") -> dict[str, list[Row]]:
    """The rows of one run. Each begins with whose it is: session, run, cell, sample, imported file and its row."""
    return {name: table_rows(name, run, session) for name in _ROWS}


def table_rows(name: str, run: RunLog, session: str = "") -> list[Row]:
    """The rows of one run in one of the tables."""
    identity = _identity(run, session)
    return [identity | row for row in _ROWS[name](run)]


def write_tables(sources: Iterable[Source], path: Path) -> list[Path]:
    """Writes the runs when `path` ends in `.csv`, otherwise every table into that folder; returns the files.

    Raises OSError; then nothing of what was there has changed.
    """
    if path.suffix.lower() == ".csv":
        places = {"runs": path}
    else:
        path.mkdir(parents=True, exist_ok=True)
        places = {name: path / f"{name}.csv" for name in COLUMNS}
    with ExitStack() as stack:
        writers = {name: _writer(stack.enter_context(whole_file(place)), name) for name, place in places.items()}
        for source in sources:
            for run in source.runs:
                rows = run_tables(run, source.name)
                for name, writer in writers.items():
                    writer.writerows(map(plain_row, rows[name]))
    return list(places.values())


def _writer(stream: TextIO, name: str) -> csv.DictWriter[str]:
    writer = csv.DictWriter(stream, fieldnames=COLUMNS[name])
    writer.writeheader()
    return writer


def write_rows(rows: Iterable[Row], stream: TextIO, columns: Sequence[str]) -> None:
    """One table as CSV with a heading line, written even when there are no rows."""
    writer = csv.DictWriter(stream, fieldnames=columns)
    writer.writeheader()
    writer.writerows(map(plain_row, rows))


_GUARDED = ("=", "+", "-", "@", "\t", "\r", "'")
"""How a text begins that a spreadsheet takes for a formula; and the guard itself, so that it can be taken off again."""


def plain_row(row: Row) -> Row:
    """The row with its texts guarded: an apostrophe stands before what a spreadsheet would compute.

    Taking one leading apostrophe off every text gives the texts back. Numbers stay as they are.
    """
    return {
        key: f"'{value}" if isinstance(value, str) and value.startswith(_GUARDED) else value
        for key, value in row.items()
    }


def _identity(run: RunLog, session: str) -> Row:
    imported = run.info.imported
    return {
        "session": session,
        "run_id": run.run_id,
        "cell": run.info.cell,
        "sample": run.info.sample.name,
        "imported_file": imported.path if imported else None,
        "imported_row": imported.row if imported else None,
    }


def _run_rows(run: RunLog) -> list[Row]:
    info = run.info
    model = info.models.get(info.role)
    counts = acceptance(run)
    row = {
        "group_id": info.group_id,
        "repeat": info.repeat,
        "mode": info.mode,
        "role": info.role,
        "status": info.status,
        "error": info.error,
        "warmup": info.warmup,
        "profiled": info.profiled,
        "cold": info.is_cold,
        "model": model.name if model else None,
        "dtype": model.dtype if model else None,
        "device": model.device if model else None,
        "quantization": model.quantization if model else None,
        **{key: info.given_settings.get(key) for key in (*SETTINGS_KEYS, "gamma")},
        "wall_ms": stages.wall_ms(run),
        **{f"{name}_ms": stages.stage_ms(run, name) for name in STAGES},
        "unattributed_ms": stages.unattributed_ms(run),
        **metrics_document(run),
        **_loading(run),
        "kv_measured_bytes": kv_cache.measured_bytes(run),
        "kv_formula_bytes": kv_cache.formula_bytes(run),
        "peak_rss_bytes": info.memory.peak_rss_bytes,
        "peak_allocated_bytes": info.memory.peak_allocated_bytes,
        **{name: READERS[name](run, info.role, stages.END_TO_END) for name in _ENERGY},
        "throttled": is_throttled(run),
        "draft_acceptance_rate": counts.draft_acceptance_rate if counts else None,
        "mean_acceptance_length": counts.mean_acceptance_length if counts else None,
        "clip_start_ms": _ms(info.sample.start_us),
        "clip_duration_ms": _ms(info.sample.duration_us),
        "prompt": info.sample.prompt,
        "reference": info.sample.reference,
        "text": info.text,
    }
    return [row]


_ENERGY = tuple(key for key, figure in FIGURES.items() if figure.head == ENERGY)

_LOADING = (
    "bytes_read",
    "bytes_from_disk",
    "events",
    "frames",
    "events_per_s",
    "frames_per_s",
    "decoder",
    "frame_cache",
)


def _loading(run: RunLog) -> Row:
    found = loading_document(run, run.info.role) or {}
    return {f"load_{name}": found.get(name) for name in _LOADING}


def _ms(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / 1000


def _figure_rows(run: RunLog) -> list[Row]:
    """Every figure that is known of the run, of each model its own; and what an imported file says besides.

    The file's numbers come last, under our names with our units.
    """
    role, imported = run.info.role, run.info.imported
    found = [
        (owner, figure.key, value)
        for owner in dict.fromkeys((role, *run.info.models))
        for figure in FIGURES.values()
        if owner == role or not figure.is_of_answer
        if (value := READERS[figure.key](run, owner, stages.END_TO_END)) is not None
    ]
    found += [(role, name, value) for name, value in imported.figures.items()] if imported else []
    return [
        {"role": owner, "figure": key, "value": value, "unit": figure_of(key).unit or None}
        for owner, key, value in found
    ]


def _stage_rows(run: RunLog) -> list[Row]:
    return [
        {
            "role": span.role,
            "stage": _stage_name(run, span),
            "part": "" if span.is_stage else span.name,
            "covers": COVERS.join(span.covers) if span.is_stage else "",
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
    return span.stage_name


def _tensor_rows(run: RunLog) -> list[Row]:
    return [
        {
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
            "role": token.role,
            "position": token.position,
            "token_id": token.known_id,
            "piece": token.piece,
            "origin": token.origin,
            "round": token.round_index if token.round_index >= 0 else None,
            "time_ms": stages.start_ms(run, token.t_ns) if run.info.has_token_times else None,
            "chance": None if odds is None else odds.chance_of(token.token_id),
            "entropy_bits": None if odds is None else odds.entropy_bits,
        }
        for token in sorted([*run.tokens, *run.rejected], key=lambda token: (token.t_ns, token.position))
        for odds in (run.alternatives_of(token),)
    ]


def _alternative_rows(run: RunLog) -> list[Row]:
    """The likeliest tokens in every token's place, by the model that chose or proposed it; the likeliest has rank 1."""
    return [
        {
            "role": record.role,
            "round": record.round_index if record.round_index >= 0 else None,
            "position": record.position,
            "token_id": record.token_id,
            "entropy_bits": record.entropy_bits,
            "rank": rank,
            "alternative_id": one.token_id,
            "alternative_piece": one.piece,
            "chance": one.chance,
        }
        for record in run.alternatives.values()
        for rank, one in enumerate(record.listed, 1)
    ]


def _round_rows(run: RunLog) -> list[Row]:
    rejections = {entry.round_index: entry for entry in first_rejections(run)}
    return [
        {
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
            **_rejection(rejections.get(entry.round_index)),
        }
        for entry in run.rounds
    ]


def _rejection(entry: Rejection | None) -> Row:
    """Why a round ended: the first rejected token, what stands in its place, and the kind of difference."""
    found = {} if entry is None else entry.to_json()
    return {column: found.get(name) for column, name in _REJECTION.items()}


_REJECTION = {
    "rejected_at": "position",
    "rejected_piece": "draft_piece",
    "instead": "target_piece",
    "rejected_kind": "kind",
}


def _judgement_rows(run: RunLog) -> list[Row]:
    """What both models thought of every judged token; an unknown probability is an empty cell."""
    return [
        {
            "round": entry.round_index,
            "place": entry.place,
            "position": entry.position,
            "draft_id": entry.draft_id,
            "target_id": entry.target_id,
            "accepted": bool(entry.accepted),
            "draft_chance": _chance(entry.draft_ppm),
            "cross_chance": _chance(entry.cross_ppm),
            "target_chance": _chance(entry.target_ppm),
            "overlap": _chance(entry.overlap_ppm),
            "draft_piece": entry.draft_piece,
            "target_piece": entry.target_piece,
        }
        for entry in run.judgements
    ]


def _chance(ppm: int) -> float | None:
    return None if ppm < 0 else ppm / 1_000_000


def _kv_rows(run: RunLog) -> list[Row]:
    return [
        {
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
            "time_ms": stages.start_ms(run, sample.t_ns),
            "resident_bytes": sample.rss_bytes,
            "gpu_bytes": sample.gpu_bytes if sample.gpu_bytes >= 0 else None,
        }
        for sample in run.memory
    ]


def _power_rows(run: RunLog) -> list[Row]:
    return [
        {"device": device, "time_ms": stages.start_ms(run, record.t_ns)}
        | {name: value if value >= 0 else None for name, value in record._asdict().items() if name in _POWER}
        for device, records in run.power.items()
        for record in records
    ]


_POWER = PowerRecord._fields[3:]

_ROWS: dict[str, Callable[[RunLog], list[Row]]] = {
    "runs": _run_rows,
    "stages": _stage_rows,
    "tensors": _tensor_rows,
    "tokens": _token_rows,
    "rounds": _round_rows,
    "judgements": _judgement_rows,
    "alternatives": _alternative_rows,
    "kv_cache": _kv_rows,
    "memory": _memory_rows,
    "power": _power_rows,
    "figures": _figure_rows,
}

IDENTITY = ("session", "run_id", "cell", "sample", "imported_file", "imported_row")
"""The first columns of every table."""

_OWN_COLUMNS: dict[str, tuple[str, ...]] = {
    "runs": (
        *("group_id", "repeat", "mode", "role", "status", "error", "warmup", "profiled", "cold"),
        *("model", "dtype", "device", "quantization"),
        *SETTINGS_KEYS,
        "gamma",
        "wall_ms",
        *(f"{name}_ms" for name in STAGES),
        "unattributed_ms",
        *("time_to_first_token_ms", "inter_token_latency_ms", "input_sequence_length", "output_sequence_length"),
        *("visual_tokens", "prefill_throughput_tok_s", "decode_throughput_tok_s"),
        *(f"load_{name}" for name in _LOADING),
        *("kv_measured_bytes", "kv_formula_bytes", "peak_rss_bytes", "peak_allocated_bytes"),
        *_ENERGY,
        "throttled",
        *("draft_acceptance_rate", "mean_acceptance_length"),
        *("clip_start_ms", "clip_duration_ms", "prompt", "reference", "text"),
    ),
    "stages": ("role", "stage", "part", "covers", "start_ms", "duration_ms"),
    "tensors": ("role", "stage", "part", "direction", "tensor", "shape", "dtype", "bytes"),
    "tokens": ("role", "position", "token_id", "piece", "origin", "round", "time_ms", "chance", "entropy_bits"),
    "rounds": (
        *("round", "start_ms", "draft_ms", "verify_ms", "rollback_ms"),
        *("drafted", "accepted", "emitted", "drafted_ids", "hidden"),
        *_REJECTION,
    ),
    "judgements": (
        *("round", "place", "position", "draft_id", "target_id", "accepted"),
        *("draft_chance", "cross_chance", "target_chance", "overlap", "draft_piece", "target_piece"),
    ),
    "alternatives": (
        *("role", "round", "position", "token_id", "entropy_bits"),
        *("rank", "alternative_id", "alternative_piece", "chance"),
    ),
    "kv_cache": ("role", "time_ms", "positions", "bytes"),
    "memory": ("time_ms", "resident_bytes", "gpu_bytes"),
    "power": ("device", "time_ms", *_POWER),
    "figures": ("role", "figure", "value", "unit"),
}

COLUMNS = {name: (*IDENTITY, *columns) for name, columns in _OWN_COLUMNS.items()}
"""Column names of each table, in order."""
