"""Runs as flat tables for data frames: one row per run, stage, tensor, token, round, judged draft and so on.

Written one run at a time. Every run is there, failed ones with their error.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from evprof.core.files.whole_file import whole_file
from evprof.core.records import COVERS, STAGES, PowerRecord
from evprof.core.rows.spans import Span
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.core.vocabulary.figures import ENERGY, FIGURES, figure_of
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.document import SETTINGS_KEYS, metrics_document
from evprof.metrics.figures import kv_cache, stages
from evprof.metrics.figures.energy import is_throttled
from evprof.metrics.figures.kv_cache import loading_document
from evprof.metrics.speculation.failure_modes import first_rejections
from evprof.metrics.speculation.outcome import acceptance

if TYPE_CHECKING:
    from evprof.export.report.data import Source

Row = dict[str, Any]

Columns = dict[str, Callable[[Any], Any]]
"""Columns of a table, each with its value for an item."""


def run_tables(run: RunLog, session: str = "") -> dict[str, list[Row]]:
    """The rows of one run. Each begins with whose it is: session, run, cell, sample, imported file and its row."""
    return {name: table_rows(name, run, session) for name in _TABLES}


def table_rows(name: str, run: RunLog, session: str = "") -> list[Row]:
    """The rows of one run in one of the tables."""
    items, columns = _TABLES[name]
    identity = _identity(run, session)
    return [identity | {column: read(item) for column, read in columns.items()} for item in items(run)]


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
    values = (
        session,
        run.run_id,
        run.info.cell,
        run.info.sample.name,
        imported.path if imported else None,
        imported.row if imported else None,
    )
    return dict(zip(IDENTITY, values, strict=True))


def _field(name: str) -> Callable[[Any], Any]:
    """A field of a record, which stands last in an item."""
    return lambda item: getattr(item[-1], name)


def _fields(*names: str) -> Columns:
    return {name: _field(name) for name in names}


def _moment(name: str) -> Callable[[Any], float | None]:
    """A moment of a record in ms since the zero of its run, which stands first in an item."""
    return lambda item: stages.start_ms(item[0], getattr(item[-1], name))


def _pairs(name: str) -> Callable[[RunLog], Iterator[tuple[RunLog, Any]]]:
    """The run with each of its records of that name."""
    return lambda run: ((run, record) for record in getattr(run, name))


def _named(name: str) -> Callable[[RunLog], Iterator[tuple[RunLog, str, Any]]]:
    """The run with each of its records of that name, which lie under a name of their own."""
    return lambda run: ((run, key, record) for key, records in getattr(run, name).items() for record in records)


def _runs(run: RunLog) -> list[tuple[RunLog, Row, Row, Any, Any]]:
    """The run with its settings and metrics, what it loaded, its model and its acceptance."""
    info = run.info
    loaded = loading_document(run, info.role) or {}
    return [(run, info.given_settings | metrics_document(run), loaded, info.models.get(info.role), acceptance(run))]


def _of_run(read: Callable[[RunLog], Any]) -> Callable[[Any], Any]:
    return lambda item: read(item[0])


def _info(*names: str) -> Columns:
    return {name: partial(_attribute, read=lambda item: item[0].info, name=name) for name in names}


def _optional(place: int, *names: str) -> Columns:
    """Columns that are attributes of something that a run may lack."""
    return {name: partial(_attribute, read=itemgetter(place), name=name) for name in names}


def _attribute(item: Any, read: Callable[[Any], Any], name: str) -> Any:
    owner = read(item)
    return None if owner is None else getattr(owner, name)


def _entry(place: int, key: str) -> Callable[[Any], Any]:
    """An entry of a dictionary of an item."""
    return lambda item: item[place].get(key)


def _stage_ms(name: str) -> Callable[[Any], float | None]:
    return lambda item: stages.stage_ms(item[0], name)


def _energy(key: str) -> Callable[[Any], float | None]:
    return lambda item: READERS[key](item[0], item[0].info.role, stages.END_TO_END)


def _phase_ms(name: str) -> Callable[[Any], float]:
    return lambda item: ms_from_ns(getattr(item[-1], f"{name}_ns"))


def _clip_ms(name: str) -> Callable[[Any], float | None]:
    def read(item: Any) -> float | None:
        time_us = getattr(item[0].info.sample, name)
        return None if time_us is None else time_us / 1000

    return read


def _figures(run: RunLog) -> list[tuple[str, str, float]]:
    """Every figure that is known of the run, of each model its own; and what an imported file says besides.

    The file's numbers come last, under our names with our units.
    """
    role, imported = run.info.role, run.info.imported
    known = [
        (owner, figure.key, value)
        for owner in dict.fromkeys((role, *run.info.models))
        for figure in FIGURES.values()
        if owner == role or not figure.is_of_answer
        if (value := READERS[figure.key](run, owner, stages.END_TO_END)) is not None
    ]
    return known + ([(role, name, value) for name, value in imported.figures.items()] if imported else [])


def _spans(run: RunLog) -> list[tuple[RunLog, Span]]:
    return [(run, span) for span in sorted(run.spans.values(), key=lambda span: (span.start_ns, span.span_id))]


def _stage_name(item: tuple[RunLog, Span]) -> str:
    """The stage that a span is or lies in."""
    run, span = item[:2]
    seen = {span.span_id}
    while span.parent_id in run.spans and span.parent_id not in seen:
        span = run.spans[span.parent_id]
        seen.add(span.span_id)
    return span.stage_name


def _part(item: tuple[RunLog, Span]) -> str:
    return "" if item[1].is_stage else item[1].name


def _tokens(run: RunLog) -> Iterator[tuple[RunLog, Any, Any]]:
    """The run, what else was likely in a token's place, and the token."""
    for token in sorted([*run.tokens, *run.rejected], key=lambda token: (token.t_ns, token.position)):
        yield run, run.alternatives_of(token), token


def _alternatives(run: RunLog) -> Iterator[tuple[int, Any, Any]]:
    """The likeliest tokens in every token's place, by the model that chose or proposed it; the likeliest has rank 1."""
    for record in run.alternatives.values():
        for rank, one in enumerate(record.listed, 1):
            yield rank, one, record


def _rounds(run: RunLog) -> Iterator[tuple[RunLog, Row, Any]]:
    """The run, why a round ended (its first rejected token), and the round."""
    rejections = {entry.round_index: entry.to_json() for entry in first_rejections(run)}
    for entry in run.rounds:
        yield run, rejections.get(entry.round_index, {}), entry


def _chance(name: str) -> Callable[[Any], float | None]:
    def read(item: Any) -> float | None:
        ppm = getattr(item[-1], name)
        return None if ppm < 0 else ppm / 1_000_000

    return read


def _known(name: str) -> Callable[[Any], int | None]:
    """A number of a record that is -1 where it was not measured."""

    def read(item: Any) -> int | None:
        value: int = getattr(item[-1], name)
        return value if value >= 0 else None

    return read


_LOADING = (
    *("bytes_read", "bytes_from_disk", "events", "frames"),
    *("events_per_s", "frames_per_s", "decoder", "frame_cache"),
)
_METRICS = (
    *("time_to_first_token_ms", "inter_token_latency_ms", "input_sequence_length", "output_sequence_length"),
    *("visual_tokens", "prefill_throughput_tok_s", "decode_throughput_tok_s"),
)
_PHASES = ("draft", "verify", "rollback")
_REJECTION = {
    "rejected_at": "position",
    "rejected_piece": "draft_piece",
    "instead": "target_piece",
    "rejected_kind": "kind",
}

_TABLES: dict[str, tuple[Callable[[RunLog], Iterable[Any]], Columns]] = {
    "runs": (
        _runs,
        {
            **_info("group_id", "repeat", "mode", "role", "status", "error", "warmup", "profiled"),
            "cold": lambda item: item[0].info.is_cold,
            "model": lambda item: item[3].name if item[3] else None,
            **_optional(3, "dtype", "device", "quantization"),
            **{key: _entry(1, key) for key in dict.fromkeys((*SETTINGS_KEYS, "gamma"))},
            "wall_ms": _of_run(stages.wall_ms),
            **{f"{name}_ms": _stage_ms(name) for name in STAGES},
            "unattributed_ms": _of_run(stages.unattributed_ms),
            **{name: _entry(1, name) for name in _METRICS},
            **{f"load_{name}": _entry(2, name) for name in _LOADING},
            "kv_measured_bytes": _of_run(kv_cache.measured_bytes),
            "kv_formula_bytes": _of_run(kv_cache.formula_bytes),
            "peak_rss_bytes": lambda item: item[0].info.memory.peak_rss_bytes,
            "peak_allocated_bytes": lambda item: item[0].info.memory.peak_allocated_bytes,
            **{key: _energy(key) for key, figure in FIGURES.items() if figure.head == ENERGY},
            "throttled": _of_run(is_throttled),
            **_optional(4, "draft_acceptance_rate", "mean_acceptance_length"),
            "clip_start_ms": _clip_ms("start_us"),
            "clip_duration_ms": _clip_ms("duration_us"),
            "prompt": lambda item: item[0].info.sample.prompt,
            "reference": lambda item: item[0].info.sample.reference,
            "text": lambda item: item[0].info.text,
        },
    ),
    "stages": (
        _spans,
        {
            "role": _field("role"),
            "stage": _stage_name,
            "part": _part,
            "covers": lambda item: COVERS.join(item[1].covers) if item[1].is_stage else "",
            "start_ms": _moment("start_ns"),
            "duration_ms": lambda item: stages.span_ms(item[1]),
        },
    ),
    "tensors": (
        lambda run: ((*item, tensor) for item in _spans(run) for tensor in item[1].tensors),
        {
            "role": lambda item: item[1].role,
            "stage": _stage_name,
            "part": _part,
            "direction": _field("direction"),
            "tensor": _field("name"),
            "shape": lambda item: item[2].shape.replace(",", "x"),
            "dtype": _field("dtype"),
            "bytes": _field("nbytes"),
        },
    ),
    "tokens": (
        _tokens,
        {
            **_fields("role", "position"),
            "token_id": _field("known_id"),
            **_fields("piece", "origin"),
            "round": _known("round_index"),
            "time_ms": lambda item: _moment("t_ns")(item) if item[0].info.has_token_times else None,
            "chance": lambda item: item[1].chance_of(item[2].token_id) if item[1] else None,
            "entropy_bits": lambda item: item[1].entropy_bits if item[1] else None,
        },
    ),
    "rounds": (
        _rounds,
        {
            "round": _field("round_index"),
            "start_ms": _moment("start_ns"),
            **{f"{name}_ms": _phase_ms(name) for name in _PHASES},
            **_fields("drafted", "accepted", "emitted"),
            "drafted_ids": lambda item: item[2].drafted_ids.replace(",", " "),
            "hidden": lambda item: bool(item[2].hidden),
            **{column: _entry(1, name) for column, name in _REJECTION.items()},
        },
    ),
    "judgements": (
        _pairs("judgements"),
        {
            "round": _field("round_index"),
            **_fields("place", "position", "draft_id", "target_id"),
            "accepted": lambda item: bool(item[1].accepted),
            "draft_chance": _chance("draft_ppm"),
            "cross_chance": _chance("cross_ppm"),
            "target_chance": _chance("target_ppm"),
            "overlap": _chance("overlap_ppm"),
            **_fields("draft_piece", "target_piece"),
        },
    ),
    "alternatives": (
        _alternatives,
        {
            "role": _field("role"),
            "round": _known("round_index"),
            **_fields("position", "token_id", "entropy_bits"),
            "rank": lambda item: item[0],
            "alternative_id": lambda item: item[1].token_id,
            "alternative_piece": lambda item: item[1].piece,
            "chance": lambda item: item[1].chance,
        },
    ),
    "kv_cache": (
        _named("kv"),
        {
            "role": lambda item: item[1],
            "time_ms": _moment("t_ns"),
            "positions": _field("length"),
            "bytes": _field("nbytes"),
        },
    ),
    "memory": (
        _pairs("memory"),
        {"time_ms": _moment("t_ns"), "resident_bytes": _field("rss_bytes"), "gpu_bytes": _known("gpu_bytes")},
    ),
    "power": (
        _named("power"),
        {
            "device": lambda item: item[1],
            "time_ms": _moment("t_ns"),
            **{name: _known(name) for name in PowerRecord._fields[3:]},
        },
    ),
    "figures": (
        _figures,
        {
            "role": lambda item: item[0],
            "figure": lambda item: item[1],
            "value": lambda item: item[2],
            "unit": lambda item: figure_of(item[1]).unit or None,
        },
    ),
}

IDENTITY = ("session", "run_id", "cell", "sample", "imported_file", "imported_row")
"""The first columns of every table."""

COLUMNS = {name: (*IDENTITY, *columns) for name, (_, columns) in _TABLES.items()}
"""Column names of each table, in order."""
