"""Runs as flat tables for data frames: one row per run, stage, tensor, token, round, judged draft and so on.

Written one run at a time. Every run has a row, failed ones with their error.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace as Item
from typing import TYPE_CHECKING, Any, TextIO

from evprof.core.files.whole_file import whole_file
from evprof.core.records import COVERS, STAGES, PowerRecord
from evprof.core.run_log import RunLog
from evprof.core.texts import guarded
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

Columns = dict[str, str | Callable[[Any], Any]]
"""Columns of a table, each with the path of its value in an item ("run.info.mode"), or a function of the item."""


def table_rows(name: str, run: RunLog, session: str = "") -> list[Row]:
    """The rows of one run in one of the tables. Each begins with IDENTITY."""
    items, columns = _TABLES[name]
    imported = run.info.imported
    file = (imported.path, imported.row) if imported else (None, None)
    values = (session, run.run_id, run.info.cell, run.info.sample.name, *file)
    identity = dict(zip(IDENTITY, values, strict=True))
    readers = {column: of if callable(of) else _reader(of) for column, of in columns.items()}
    return [identity | {column: read(item) for column, read in readers.items()} for item in items(run)]


def _reader(path: str) -> Callable[[Any], Any]:
    """Reads the value at a path of attributes and keys; None behind something that is None."""
    names = path.split(".")

    def read(value: Any) -> Any:
        for name in names:
            if value is None:
                return None
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name)
        return value

    return read


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
        streams = {name: stack.enter_context(whole_file(place)) for name, place in places.items()}
        writers = {name: _writer(stream, COLUMNS[name]) for name, stream in streams.items()}
        for source in sources:
            for run in source.runs:
                for name, writer in writers.items():
                    writer.writerows(map(plain_row, table_rows(name, run, source.name)))
    return list(places.values())


def _writer(stream: TextIO, columns: Sequence[str]) -> csv.DictWriter[str]:
    writer = csv.DictWriter(stream, fieldnames=columns)
    writer.writeheader()
    return writer


def write_rows(rows: Iterable[Row], stream: TextIO, columns: Sequence[str]) -> None:
    """One table as CSV with a heading line, written even when there are no rows."""
    _writer(stream, columns).writerows(map(plain_row, rows))


def plain_row(row: Row) -> Row:
    """The row with its texts guarded: an apostrophe stands before what a spreadsheet would compute.

    Taking one leading apostrophe off every text gives the texts back. Numbers stay as they are.
    """
    return {key: guarded(value) if isinstance(value, str) else value for key, value in row.items()}


# Items of tables.


def _records(name: str) -> Callable[[RunLog], Iterator[Item]]:
    """The records of that name; those under a name of their own with this as `key`."""

    def items(run: RunLog) -> Iterator[Item]:
        found = getattr(run, name)
        for key, records in found.items() if isinstance(found, Mapping) else (("", found),):
            for record in records:
                yield Item(run=run, key=key, record=record)

    return items


def _runs(run: RunLog) -> list[Item]:
    info = run.info
    return [
        Item(
            run=run,
            values=info.given_settings | metrics_document(run),
            loaded=loading_document(run, info.role),
            model=info.models.get(info.role),
            counts=acceptance(run),
        )
    ]


def _figures(run: RunLog) -> list[Item]:
    """Every known figure of the run, of each model its own, then those of an imported file."""
    role, imported = run.info.role, run.info.imported
    found = [
        Item(role=owner, figure=figure.key, value=value)
        for owner in dict.fromkeys((role, *run.info.models))
        for figure in FIGURES.values()
        if owner == role or not figure.is_of_answer
        if (value := READERS[figure.key](run, owner, stages.END_TO_END)) is not None
    ]
    told = imported.figures.items() if imported else ()
    return [*found, *(Item(role=role, figure=name, value=value) for name, value in told)]


def _spans(run: RunLog) -> list[Item]:
    spans = sorted(run.spans.values(), key=lambda span: (span.start_ns, span.span_id))
    return [Item(run=run, span=span, record=span, part="" if span.is_stage else span.name) for span in spans]


def _tensors(run: RunLog) -> Iterator[Item]:
    for item in _spans(run):
        for tensor in item.span.tensors:
            yield Item(run=run, span=item.span, part=item.part, record=tensor)


def _stage_name(item: Item) -> str:
    """The stage that a span is or lies in."""
    run, span = item.run, item.span
    seen = {span.span_id}
    while span.parent_id in run.spans and span.parent_id not in seen:
        span = run.spans[span.parent_id]
        seen.add(span.span_id)
    return str(span.stage_name)


def _tokens(run: RunLog) -> Iterator[Item]:
    for token in sorted([*run.tokens, *run.rejected], key=lambda token: (token.t_ns, token.position)):
        others = run.alternatives_of(token)
        chance = others.chance_of(token.token_id) if others else None
        yield Item(run=run, record=token, others=others, chance=chance)


def _alternatives(run: RunLog) -> Iterator[Item]:
    """The likeliest tokens in every token's place, by the model that chose or proposed it; the likeliest has rank 1."""
    for record in run.alternatives.values():
        for rank, one in enumerate(record.listed, 1):
            yield Item(record=record, rank=rank, one=one)


def _rounds(run: RunLog) -> Iterator[Item]:
    rejections = {entry.round_index: entry for entry in first_rejections(run)}
    for entry in run.rounds:
        yield Item(run=run, record=entry, rejection=rejections.get(entry.round_index))


# Values of items.


def _moment(name: str) -> Callable[[Any], float | None]:
    """A moment of a record in ms since the zero of its run."""
    return lambda item: stages.start_ms(item.run, getattr(item.record, name))


def _chance(name: str) -> Callable[[Any], float | None]:
    return lambda item: None if getattr(item.record, name) < 0 else getattr(item.record, name) / 1_000_000


def _known(name: str) -> Callable[[Any], int | None]:
    """A number of a record that is -1 where it was not measured."""
    return lambda item: None if getattr(item.record, name) < 0 else getattr(item.record, name)


def _clip_ms(name: str) -> Callable[[Any], float | None]:
    return lambda item: None if (us := getattr(item.run.info.sample, name)) is None else us / 1000


def _energy(key: str) -> Callable[[Any], float | None]:
    return lambda item: READERS[key](item.run, item.run.info.role, stages.END_TO_END)


def _stage_ms(name: str) -> Callable[[Any], float | None]:
    return lambda item: stages.stage_ms(item.run, name)


def _phase_ms(name: str) -> Callable[[Any], float]:
    return lambda item: ms_from_ns(getattr(item.record, f"{name}_ns"))


def _fields(owner: str, *names: str) -> Columns:
    return {name: f"{owner}.{name}" for name in names}


_LOADING = (
    *("bytes_read", "bytes_from_disk", "events", "frames"),
    *("events_per_s", "frames_per_s", "decoder", "frame_cache"),
)
_METRICS = (
    *("time_to_first_token_ms", "inter_token_latency_ms", "input_sequence_length", "output_sequence_length"),
    *("visual_tokens", "prefill_throughput_tok_s", "decode_throughput_tok_s"),
)

_TABLES: dict[str, tuple[Callable[[RunLog], Iterable[Any]], Columns]] = {
    "runs": (
        _runs,
        {
            **_fields("run.info", "group_id", "repeat", "mode", "role", "status", "error", "warmup", "profiled"),
            "cold": "run.info.is_cold",
            "model": "model.name",
            **_fields("model", "dtype", "device", "quantization"),
            **_fields("values", *dict.fromkeys((*SETTINGS_KEYS, "gamma"))),
            "wall_ms": lambda item: stages.wall_ms(item.run),
            **{f"{name}_ms": _stage_ms(name) for name in STAGES},
            "unattributed_ms": lambda item: stages.unattributed_ms(item.run),
            **_fields("values", *_METRICS),
            **{f"load_{name}": f"loaded.{name}" for name in _LOADING},
            "kv_measured_bytes": lambda item: kv_cache.measured_bytes(item.run),
            "kv_formula_bytes": lambda item: kv_cache.formula_bytes(item.run),
            **_fields("run.info.memory", "peak_rss_bytes", "peak_allocated_bytes"),
            **{key: _energy(key) for key, figure in FIGURES.items() if figure.head == ENERGY},
            "throttled": lambda item: is_throttled(item.run),
            **_fields("counts", "draft_acceptance_rate", "mean_acceptance_length"),
            "clip_start_ms": _clip_ms("start_us"),
            "clip_duration_ms": _clip_ms("duration_us"),
            **_fields("run.info.sample", "prompt", "reference"),
            "text": "run.info.text",
        },
    ),
    "stages": (
        _spans,
        {
            "role": "span.role",
            "stage": _stage_name,
            "part": "part",
            "covers": lambda item: COVERS.join(item.span.covers) if item.span.is_stage else "",
            "start_ms": _moment("start_ns"),
            "duration_ms": lambda item: stages.span_ms(item.span),
        },
    ),
    "tensors": (
        _tensors,
        {
            "role": "span.role",
            "stage": _stage_name,
            "part": "part",
            "direction": "record.direction",
            "tensor": "record.name",
            "shape": lambda item: item.record.shape.replace(",", "x"),
            "dtype": "record.dtype",
            "bytes": "record.nbytes",
        },
    ),
    "tokens": (
        _tokens,
        {
            **_fields("record", "role", "position"),
            "token_id": "record.known_id",
            **_fields("record", "piece", "origin"),
            "round": _known("round_index"),
            "time_ms": lambda item: _moment("t_ns")(item) if item.run.info.has_token_times else None,
            "chance": "chance",
            "entropy_bits": "others.entropy_bits",
        },
    ),
    "rounds": (
        _rounds,
        {
            "round": "record.round_index",
            "start_ms": _moment("start_ns"),
            **{f"{name}_ms": _phase_ms(name) for name in ("draft", "verify", "rollback")},
            **_fields("record", "drafted", "accepted", "emitted"),
            "drafted_ids": lambda item: item.record.drafted_ids.replace(",", " "),
            "hidden": lambda item: bool(item.record.hidden),
            "rejected_at": "rejection.position",
            "rejected_piece": "rejection.draft_piece",
            "instead": "rejection.target_piece",
            "rejected_kind": "rejection.kind",
        },
    ),
    "judgements": (
        _records("judgements"),
        {
            "round": "record.round_index",
            **_fields("record", "place", "position", "draft_id", "target_id"),
            "accepted": lambda item: bool(item.record.accepted),
            "draft_chance": _chance("draft_ppm"),
            "cross_chance": _chance("cross_ppm"),
            "target_chance": _chance("target_ppm"),
            "overlap": _chance("overlap_ppm"),
            **_fields("record", "draft_piece", "target_piece"),
        },
    ),
    "alternatives": (
        _alternatives,
        {
            "role": "record.role",
            "round": _known("round_index"),
            **_fields("record", "position", "token_id", "entropy_bits"),
            "rank": "rank",
            "alternative_id": "one.token_id",
            "alternative_piece": "one.piece",
            "chance": "one.chance",
        },
    ),
    "kv_cache": (
        _records("kv"),
        {"role": "key", "time_ms": _moment("t_ns"), "positions": "record.length", "bytes": "record.nbytes"},
    ),
    "memory": (
        _records("memory"),
        {"time_ms": _moment("t_ns"), "resident_bytes": "record.rss_bytes", "gpu_bytes": _known("gpu_bytes")},
    ),
    "power": (
        _records("power"),
        {"device": "key", "time_ms": _moment("t_ns"), **{name: _known(name) for name in PowerRecord._fields[3:]}},
    ),
    "figures": (
        _figures,
        {
            "role": "role",
            "figure": "figure",
            "value": "value",
            "unit": lambda item: figure_of(item.figure).unit or None,
        },
    ),
}

IDENTITY = ("session", "run_id", "cell", "sample", "imported_file", "imported_row")
"""The first columns of every table."""

COLUMNS = {name: (*IDENTITY, *columns) for name, (_, columns) in _TABLES.items()}
