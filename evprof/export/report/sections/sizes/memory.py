"""Section: what runs took of memory at most, by dtype; how caches lie in it; what several samples at once took."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any

from evprof.core.batches import BatchRow
from evprof.core.run_log import RunLog
from evprof.export.report.data import ReportData
from evprof.export.report.figures import (
    bytes_cell,
    count_cell,
    ms_cell,
    nothing_measured,
    rate_cell,
    ratio_cell,
    ratio_text,
    rows_cell,
)
from evprof.export.report.parts import Badge, Block, Cell, ColumnsOf, Paragraph, Section, Table, table_of
from evprof.export.report.sections.evidence import badge_of, names_of
from evprof.export.report.sections.noted_rows import Row, number_in, rows_of
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.comparison.figures import remembered_bytes
from evprof.metrics.configurations.gathering import Configuration, without_reference
from evprof.metrics.configurations.settings_text import settings_of
from evprof.metrics.estimates.estimates import Read
from evprof.metrics.estimates.paired import compare, values_of
from evprof.metrics.figures.decoding import decode_ms_per_token
from evprof.metrics.figures.kv_cache import measured_bytes
from evprof.metrics.figures.stages import total_ms
from evprof.session.facts import read_batches

TITLE = "Memory"


def _weights(run: RunLog) -> float | None:
    model = run.info.models.get(run.info.role)
    return model.weight_bytes if model is not None else None


PEAKS: tuple[tuple[str, Read], ...] = (
    ("weights", _weights),
    ("KV cache", measured_bytes),
    ("peak allocated", partial(remembered_bytes, name="peak_allocated_bytes")),
    ("peak reserved", lambda run: run.info.memory.peak_reserved_bytes),
    ("peak resident", partial(remembered_bytes, name="peak_rss_bytes")),
)


_PEAKS = {"allocated": "what the allocator of the GPU gave out", "rss": "resident memory of the whole process"}


def section(data: ReportData) -> Section:
    """Peaks, dtypes against each other, cache layouts, batches; what of these there is."""
    blocks = [*peaks(data), *layouts(data), *batches(data)]
    if not blocks:
        return Section(TITLE, missing="Runs that tell their memory (imported files rarely do).")
    return Section(TITLE, tuple(blocks))


def peaks(data: ReportData) -> list[Block]:
    """Every configuration's peaks, and pairs of configurations that differ in dtype alone."""
    names = names_of(data)
    listed = [column for column in without_reference(data.columns) if any(values_of(column, read) for _, read in PEAKS)]
    if not listed:
        return []
    columns: ColumnsOf[Configuration] = [
        ("configuration", lambda column: names[id(column)]),
        ("dtype", _dtype),
        *((name, partial(_peak, read=read)) for name, read in PEAKS),
    ]
    found: list[Block] = [table_of(listed, columns, "Means over samples", text_columns=2)]
    if all(remembered_bytes(run, "peak_allocated_bytes") is None for run in data.runs):
        found.append(
            Paragraph(
                "Peak resident memory is the whole process's, with all models that were loaded: it tells no dtypes "
                "apart. Of a GPU the allocator's peak is told, which does."
            )
        )
    pairs = [(one, other) for one, other in combinations(listed, 2) if _differ_in_dtype(one, other)]
    if pairs:
        found.append(_dtypes(pairs, names, data.basis))
    return found


def _peak(column: Configuration, read: Read) -> Cell:
    return bytes_cell(summarize(values_of(column, read)), badge_of(column.runs))


def _dtype(column: Configuration) -> str:
    info = column.runs[0].info
    model = info.models.get(info.role)
    return "" if model is None else f"{model.dtype}, {model.quantization}" if model.quantization else model.dtype


def _differ_in_dtype(one: Configuration, other: Configuration) -> bool:
    return _dtype(one) != _dtype(other) and _all_else(one) == _all_else(other) and one.session == other.session


def _all_else(column: Configuration) -> object:
    run = column.runs[0]
    model = run.info.models.get(run.info.role)
    listed = settings_of(run, run.info.role)
    asked = tuple((setting.key, setting.text) for setting in listed if setting.key != "dtype")
    return run.info.role, run.info.mode, model.name if model else "", asked, bool(model and model.quantization)


def _dtypes(pairs: Sequence[tuple[Configuration, Configuration]], names: dict[int, str], basis: str) -> Table:
    rows = []
    for one, other in pairs:
        cells = []
        reads: tuple[Read, ...] = (lambda run: total_ms(run, basis), decode_ms_per_token, _weights)
        for read in (*reads, measured_bytes, PEAKS[2][1]):
            found = compare(one, other, read)
            if found is None or found.ratio is None:
                cells.append(nothing_measured())
                continue
            interval = found.ratio_interval
            is_exact = len(set(found.before)) == len(set(found.after)) == 1
            cells.append(
                Cell(ratio_text(found.ratio), Badge.DERIVED)
                if is_exact
                else ratio_cell(found.ratio, interval, lower_is_better=True if interval else None)
            )
        count = compare(one, other, lambda run: total_ms(run, basis))
        rows.append(
            (
                Cell(f"{_dtype(other)} / {_dtype(one)}"),
                Cell(f"{names[id(other)]} / {names[id(one)]}"),
                *cells,
                rows_cell(count.count if count else None),
            )
        )
    heads = (
        "dtypes",
        "configurations",
        f"total, {basis}",
        "time per token",
        "weights",
        "KV cache",
        "peak allocated",
        "n",
    )
    return Table(heads, tuple(rows), "One dtype against another, all else equal, with 95 % intervals", text_columns=2)


def layouts(data: ReportData) -> list[Block]:
    """How keys and values of a layer lie in memory, as suites noted it."""
    rows = list(rows_of(data, "cache_layout"))
    columns: ColumnsOf[Row] = [
        ("model", lambda row: str(row.get("model") or "")),
        ("cache", lambda row: str(row.get("cache") or "")),
        ("keys of a layer", lambda row: _listed(row.get("shape"))),
        ("strides", lambda row: _listed(row.get("strides"))),
        ("contiguous", lambda row: ("yes" if row["is_contiguous"] else "no") if "is_contiguous" in row else ""),
        ("a layer", lambda row: bytes_cell(_of_a_layer(row))),
        ("in use", lambda row: bytes_cell(number_in(row, "used_bytes"))),
        ("set aside", lambda row: bytes_cell(number_in(row, "reserved_bytes"))),
    ]
    return [table_of(rows, columns, "Memory layout of both caches", text_columns=5)] if rows else []


def batches(data: ReportData) -> list[Block]:
    """Several samples at once, as suites and runs noted it, to the first row of the same model."""
    noted = [row for source in data.sources for row in read_batches(source.facts)]
    firsts = {row.model: row for row in reversed(noted)}
    columns: ColumnsOf[BatchRow] = [
        ("model", lambda row: row.model),
        ("batch", lambda row: count_cell(row.batch)),
        ("rate", lambda row: rate_cell(row.samples_per_s, "samples/s")),
        ("to the first", lambda row: _to_first(row.samples_per_s, firsts[row.model].samples_per_s)),
        ("decode", lambda row: rate_cell(row.decode_tok_s)),
        ("to the first", lambda row: _to_first(row.decode_tok_s, firsts[row.model].decode_tok_s)),
        ("prefill", lambda row: ms_cell(row.prefill_ms)),
        ("decode", lambda row: ms_cell(row.decode_ms)),
        ("caches", lambda row: bytes_cell(row.cache_bytes)),
        ("peak", lambda row: bytes_cell(row.peak_bytes, note=_PEAKS.get(row.peak_of, ""))),
        ("n", lambda row: rows_cell(row.n)),
    ]
    caption = "Several samples at once: medians over n rounds of the same requests; no interval, so no verdict"
    return [table_of(noted, columns, caption)] if noted else []


def _to_first(rate: float | None, base: float | None) -> Cell:
    return Cell(ratio_text(rate / base), Badge.DERIVED) if rate and base else nothing_measured()


def _listed(value: Any) -> str:
    return f"[{', '.join(str(entry) for entry in value)}]" if isinstance(value, list) else ""


def _of_a_layer(row: Row) -> float | None:
    """Bytes of the first layer, whose number stands alone or in a list with the others'."""
    listed = row.get("per_layer_bytes")
    first = listed[0] if isinstance(listed, list) and listed else listed
    return number_in({"bytes": first}, "bytes")
