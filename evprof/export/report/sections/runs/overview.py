"""The section that answers most questions: every configuration's totals, lengths, rates and cache in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from evprof.export.report import readings
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, number_cell, rows_cell
from evprof.export.report.parts import (
    GROUPED,
    Badge,
    Block,
    Cell,
    Paragraph,
    PlotSeries,
    ReportPlot,
    Section,
    Table,
    table_of,
)
from evprof.export.report.readings import ReportReading
from evprof.metrics.arithmetic.statistics import Summary
from evprof.metrics.figures.decoding import frames_shown
from evprof.metrics.figures.stages import END_TO_END, MODEL_ONLY, WITHOUT_LOAD

BASIS_WORDS = {
    END_TO_END: "end to end (the whole wall, reading the files included)",
    WITHOUT_LOAD: "without stage load (reading and decoding the files left out)",
    MODEL_ONLY: "model only (vision, prefill and decode)",
}


def section(data: ReportData) -> Section:
    """Times, then lengths and rates, then where a run had a total, a plot of them."""
    places = range(len(data.columns))
    blocks: list[Block] = [
        Paragraph(
            f"Totals count {BASIS_WORDS[data.basis]}. Means of all runs of a configuration ± their standard deviation "
            "(n − 1); warm-up, profiled and failed runs are in none of them. Time per token is decode time over tokens "
            "2…n, of both models where a file timed the draft's decoding apart."
        ),
        _times(data),
        lengths_table(data),
    ]
    totals = [data.summary(place, readings.total(data.basis)) for place in places]
    if sum(total is not None for total in totals) > 1:
        blocks.append(_plot(data, totals))
    return Section("Overview", tuple(blocks))


CellOf = Callable[[int], Cell | str]


def _times(data: ReportData) -> Table:
    total = readings.total(data.basis)

    def per_second(place: int) -> Cell:
        found = data.summary(place, total)
        return number_cell(1000 / found.mean if found and found.mean else None, badge=Badge.DERIVED)

    told: dict[str, ReportReading | CellOf] = {
        "runs": partial(_runs, data),
        "total": total,
        "to first token": readings.figure("time_to_first_token_ms", data.basis),
        "per token": readings.TIME_PER_TOKEN,
        "samples/s": per_second,
    }
    return _by_configuration(data, told, "Times")


def lengths_table(data: ReportData) -> Table:
    """Positions of the prompt by what they hold, tokens of the answer, rates and cache of every configuration."""
    told: dict[str, ReportReading | CellOf] = {
        "prompt": readings.figure("input_sequence_length"),
        "of it visual": readings.figure("visual_tokens"),
        "of it text": readings.TEXT_TOKENS,
        "answer": readings.figure("output_sequence_length"),
        "prefill": readings.figure("prefill_throughput_tok_s"),
        "decode": readings.figure("decode_throughput_tok_s"),
        "KV cache": readings.KV_BYTES,
    }
    return _by_configuration(data, told, "Lengths in tokens, rates and cache")


def inputs_table(data: ReportData) -> Table:
    """Model, frames and samples of every configuration."""
    firsts = [column.runs[0] for column in data.columns]
    models = [run.info.models.get(run.info.role) for run in firsts]
    told: dict[str, ReportReading | CellOf] = {
        "model": lambda place: model.name if (model := models[place]) else "",
        "frames": lambda place: count_cell(frames_shown(firsts[place]), badge=data.badge(place)),
        "samples": lambda place: rows_cell(len(data.columns[place].samples())),
        "runs": partial(_runs, data),
    }
    return _by_configuration(data, told, "Inputs", text_columns=2)


def _by_configuration(
    data: ReportData, told: Mapping[str, ReportReading | CellOf], caption: str, text_columns: int = 1
) -> Table:
    """A row for every configuration; of each column its head, and its figure or what makes its cell."""
    cells = {
        head: partial(data.cell, reading=what) if isinstance(what, ReportReading) else what
        for head, what in told.items()
    }
    columns = {"configuration": data.names.__getitem__} | cells
    return table_of(range(len(data.columns)), columns.items(), caption, text_columns)


def _runs(data: ReportData, place: int) -> Cell:
    return rows_cell(len(data.columns[place].runs))


def _plot(data: ReportData, totals: list[Summary | None]) -> ReportPlot:
    ends = [total.ci95 if total else None for total in totals]
    series = PlotSeries(
        "total",
        (),
        tuple(total.mean if total else None for total in totals),
        color="total",
        low=tuple(end[0] if end else None for end in ends),
        high=tuple(end[1] if end else None for end in ends),
        badge=data.badge(0),
    )
    has_intervals = any(ends)
    return ReportPlot(
        GROUPED,
        "Total by configuration",
        (series,),
        tuple(data.names),
        unit="ms",
        caption="Mean, with its 95 % interval." if has_intervals else "Mean.",
    )
