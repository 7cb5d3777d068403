"""Section: peaks of memory, the layout of caches, several samples at once, and energy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from evprof.core.records import COVERS, STAGES, BatchRow
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import ENERGY, FIGURES
from evprof.export.report import figures as fmt
from evprof.export.report import parts as doc
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.pairs import number_in
from evprof.export.report.parts import Badge, Block, Bullets, Cell, ColumnsOf, Paragraph, Section
from evprof.export.report.readings import ReportReading, figure
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.comparison.comparability import meters
from evprof.metrics.comparison.figures import remembered_bytes
from evprof.metrics.configurations.gathering import Configuration, without_reference
from evprof.metrics.estimates.observations import Read
from evprof.metrics.estimates.paired import values_of
from evprof.metrics.figures.energy import (
    computing_devices,
    energy_document,
    is_throttled,
    slowed_down,
    throttle_sentence,
)
from evprof.metrics.figures.kv_cache import measured_bytes
from evprof.session.facts import read_batches


def _of_all(sizes: Sequence[int | None]) -> float | None:
    """The bytes of all models of a run together; None where one of them is not known."""
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


PEAKS: dict[str, Read] = {
    "weights": lambda run: _of_all([model.weight_bytes for model in run.info.models.values()]),
    "KV caches": lambda run: _of_all([measured_bytes(run, role) for role in run.info.models or (run.info.role,)]),
    "peak allocated": partial(remembered_bytes, name="peak_allocated_bytes"),
    "peak reserved": lambda run: run.info.memory.peak_reserved_bytes,
    "peak resident": partial(remembered_bytes, name="peak_rss_bytes"),
}

_PEAKS_OF_BATCHES = {"allocated": "of the GPU's allocator", "rss": "resident memory of the whole process"}
_REST = "unattributed"


def section(data: ReportData) -> Section:
    blocks = [*peaks(data), *layouts(data), *batches(data), *doc.headed("Energy", energy(data))]
    return doc.section_of("Memory and energy", blocks, "Runs that recorded their memory (imported files rarely do).")


def peaks(data: ReportData) -> list[Block]:
    shown = [
        column for column in without_reference(data.columns) if any(values_of(column, read) for read in PEAKS.values())
    ]
    if not shown:
        return []

    def dtype(column: Configuration) -> str:
        model = column.runs[0].info.models.get(column.runs[0].info.role)
        return ", ".join(filter(None, (model.dtype, model.quantization))) if model is not None else ""

    def peak(column: Configuration, read: Read) -> Cell:
        return fmt.bytes_cell(summarize(values_of(column, read)), badge_of(column.runs))

    columns: ColumnsOf[Configuration] = [
        ("dtype", dtype),
        *((name, partial(peak, read=read)) for name, read in PEAKS.items()),
    ]
    caption = (
        "Memory, means over samples: weights and caches of all models of a run; resident memory is the whole process's"
    )
    return [data.table(columns, caption, shown, text_columns=2)]


def layouts(data: ReportData) -> list[Block]:
    """How keys and values of a layer lie in memory, as suites noted it."""

    def sizes(row: dict[str, Any], key: str) -> str:
        value = row.get(key)
        return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else ""

    def a_layer(row: dict[str, Any]) -> float | None:
        known = row.get("per_layer_bytes")
        return number_in({"bytes": known[0] if isinstance(known, list) and known else known}, "bytes")

    rows = list(data.noted_rows("cache_layout"))
    if not rows:
        return []
    table = doc.table_of(
        rows,
        [
            ("model", lambda row: str(row.get("model") or "")),
            ("cache", lambda row: str(row.get("cache") or "")),
            ("keys of a layer", lambda row: sizes(row, "shape")),
            ("strides", lambda row: sizes(row, "strides")),
            ("contiguous", lambda row: ("yes" if row["is_contiguous"] else "no") if "is_contiguous" in row else ""),
            ("a layer", lambda row: fmt.bytes_cell(a_layer(row))),
            ("in use", lambda row: fmt.bytes_cell(number_in(row, "used_bytes"))),
            ("reserved", lambda row: fmt.bytes_cell(number_in(row, "reserved_bytes"))),
        ],
        "Memory layout of both caches",
        text_columns=5,
    )
    return [table]


def batches(data: ReportData) -> list[Block]:
    """Several samples at once, as suites and runs noted it, to the first row of the same model."""

    def to_first(row: BatchRow, name: str) -> Cell:
        rate, base = getattr(row, name), getattr(firsts[row.model], name)
        return Cell(fmt.ratio_text(rate / base), Badge.DERIVED) if rate and base else fmt.nothing_measured()

    noted = [row for source in data.sources for row in read_batches(source.facts)]
    if not noted:
        return []
    firsts = {row.model: row for row in reversed(noted)}
    table = doc.table_of(
        noted,
        [
            ("model", lambda row: row.model),
            ("batch", lambda row: fmt.count_cell(row.batch)),
            ("rate", lambda row: fmt.rate_cell(row.samples_per_s, "samples/s")),
            ("to the first", partial(to_first, name="samples_per_s")),
            ("decode", lambda row: fmt.rate_cell(row.decode_tok_s)),
            ("to the first", partial(to_first, name="decode_tok_s")),
            ("prefill", lambda row: fmt.ms_cell(row.prefill_ms)),
            ("decode", lambda row: fmt.ms_cell(row.decode_ms)),
            ("caches", lambda row: fmt.bytes_cell(row.cache_bytes)),
            ("peak", lambda row: fmt.bytes_cell(row.peak_bytes, note=_PEAKS_OF_BATCHES.get(row.peak_of, ""))),
            ("n", lambda row: fmt.rows_cell(row.n)),
        ],
        "Several samples at once: medians over n rounds of the same requests; no interval, so no verdict",
    )
    return [table]


def energy(data: ReportData) -> list[Block]:
    """Energy in all, by token and by stage, power, and runs in which a GPU was slowed down."""
    shown = [column for column in data.columns if any(map(meters, column.runs))]
    if not shown:
        return []

    def devices(column: Configuration) -> str:
        return ", ".join(dict.fromkeys(name for run in column.runs for name in computing_devices(run)))

    def slowed(column: Configuration) -> Cell:
        known = [run for run in column.runs if is_throttled(run) is not None]
        text = f"{len(slowed_down(known)):,} of {len(known):,} runs"
        return Cell(text, Badge.MEASURED) if known else fmt.nothing_measured()

    figures = [(one.title, figure(key)) for key, one in FIGURES.items() if one.head == ENERGY]
    documents = [energy_document(run) for column in shown for run in column.runs]
    names = {name for document in documents if document for name in document["stages"]}
    ordered = sorted(names, key=lambda name: (max(map(STAGES.index, name.split(COVERS))), len(name)))
    text = (
        "Energy is that of whole devices from a run's zero to its end: idle power and other programs are in it. A "
        f"stage shorter than a step of the device's counter is n/a; its energy is in {_REST}."
    )
    return [
        data.table(
            [("devices", devices), *figures, ("slowed down", slowed)],
            "Energy and power, means over samples and repeats",
            shown,
            text_columns=2,
        ),
        data.table([(name, _energy_of(name)) for name in (*ordered, _REST)], "Energy by stage", shown),
        Paragraph(text),
        *_throttling([run for column in shown for run in slowed_down(column.runs)]),
    ]


def _energy_of(name: str) -> ReportReading:
    def read(run: RunLog) -> float | None:
        document = energy_document(run)
        if document is None:
            return None
        value: float | None = document["unattributed_j"] if name == _REST else document["stages"].get(name)
        return value

    return ReportReading(f"energy of {name}", read, "J", is_derived=name == _REST)


def _throttling(slowed: Sequence[RunLog]) -> list[Block]:
    sentences = dict.fromkeys(sentence for run in slowed if (sentence := throttle_sentence(run)))
    text = f"{len(slowed):,} of the runs were slowed down; the times are not what the GPU can do:"
    return [Paragraph(text, "warn"), Bullets(tuple(sentences))] if slowed else []
