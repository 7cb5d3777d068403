"""Section: every configuration's totals, lengths, rates and cache."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from evprof.export.report import readings
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.figures import count_cell, number_cell, rows_cell
from evprof.export.report.parts import (
    Badge,
    Block,
    Cell,
    CellOf,
    Paragraph,
    Section,
    Table,
    table_of,
)
from evprof.export.report.readings import ReportReading
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.figures.decoding import frames_shown
from evprof.metrics.figures.stages import END_TO_END, MODEL_ONLY, WITHOUT_LOAD

BASIS_WORDS = {
    END_TO_END: "end to end (the whole wall, reading the files included)",
    WITHOUT_LOAD: "without stage load (reading and decoding the files left out)",
    MODEL_ONLY: "model only (vision, prefill and decode)",
}

Columns = Mapping[str, ReportReading | CellOf[Configuration]]


def section(data: ReportData) -> Section:
    """Times, then lengths and rates."""
    blocks: list[Block] = [
        Paragraph(
            f"Totals count {BASIS_WORDS[data.basis]}. Means of all runs of a configuration ± their standard deviation "
            "(n − 1); warm-up, profiled and failed runs are in none of them. Time per token is decode time over tokens "
            "2…n, of both models where a file timed the draft's decoding apart."
        ),
        _times(data),
        *lengths(data),
    ]
    return Section("Overview", tuple(blocks))


def _times(data: ReportData) -> Table:
    total = readings.total(data.basis)

    def per_second(column: Configuration) -> Cell:
        summary = data.summary(column, total)
        return number_cell(1000 / summary.mean if summary and summary.mean else None, badge=Badge.DERIVED)

    columns: Columns = {
        "runs": _runs,
        "total": total,
        "to first token": readings.figure("time_to_first_token_ms", data.basis),
        "per token": readings.TIME_PER_TOKEN,
        "samples/s": per_second,
    }
    return _by_configuration(data, columns, "Times")


def lengths(data: ReportData) -> list[Block]:
    """Positions of the prompt by what they hold, tokens of the answer, rates and cache of every configuration."""
    columns: Columns = {
        "prompt": readings.figure("input_sequence_length"),
        "of it visual": readings.figure("visual_tokens"),
        "of it text": readings.TEXT_TOKENS,
        "answer": readings.figure("output_sequence_length"),
        "prefill": readings.figure("prefill_throughput_tok_s"),
        "decode": readings.figure("decode_throughput_tok_s"),
        "KV cache": readings.KV_BYTES,
    }
    return [_by_configuration(data, columns, "Lengths in tokens, rates and cache")]


def inputs(data: ReportData) -> Table:
    """Model, frames and samples of every configuration."""

    def model(column: Configuration) -> str:
        info = column.runs[0].info
        return facts.name if (facts := info.models.get(info.role)) else ""

    columns: Columns = {
        "model": model,
        "frames": lambda column: count_cell(frames_shown(column.runs[0]), badge=badge_of(column.runs)),
        "samples": lambda column: rows_cell(len(column.samples())),
        "runs": _runs,
    }
    return _by_configuration(data, columns, "Inputs", text_columns=2)


def _by_configuration(data: ReportData, columns: Columns, caption: str, text_columns: int = 1) -> Table:
    """A row for every configuration; of each column its head, and its figure or what makes its cell."""
    cells = {
        head: partial(data.cell, reading=what) if isinstance(what, ReportReading) else what
        for head, what in columns.items()
    }
    return table_of(data.columns, ({"configuration": data.name} | cells).items(), caption, text_columns)


def _runs(column: Configuration) -> Cell:
    return rows_cell(len(column.runs))
