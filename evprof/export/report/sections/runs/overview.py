"""The section that answers most questions: every configuration's totals, lengths, rates and cache in one table."""

from __future__ import annotations

from evprof.export.report import readings
from evprof.export.report.data import ReportData
from evprof.export.report.figures import bytes_cell, count_cell, ms_cell, number_cell, rate_cell, rows_cell
from evprof.export.report.parts import GROUPED, Badge, Block, Cell, Paragraph, PlotSeries, ReportPlot, Section, Table
from evprof.export.report.readings import ReportReading
from evprof.export.report.sections.sizes.scaling import frames_shown
from evprof.metrics.arithmetic.statistics import Summary
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
    totals = [_summary(data, place, readings.total(data.basis)) for place in places]
    if sum(total is not None for total in totals) > 1:
        blocks.append(_plot(data, totals))
    return Section("Overview", tuple(blocks))


def _summary(data: ReportData, place: int, reading: ReportReading) -> Summary | None:
    return data.summary(place, reading.name, reading.read)


def _times(data: ReportData) -> Table:
    rows = []
    for place, name in enumerate(data.names):
        own = data.badge(place)
        total = _summary(data, place, readings.total(data.basis))
        rows.append(
            (
                Cell(name),
                rows_cell(len(data.columns[place].runs)),
                ms_cell(total, own),
                ms_cell(_summary(data, place, readings.first_token(data.basis)), own),
                ms_cell(_summary(data, place, readings.TIME_PER_TOKEN), Badge.DERIVED),
                number_cell(1000 / total.mean if total and total.mean else None, badge=Badge.DERIVED),
            )
        )
    heads = ("configuration", "runs", "total", "to first token", "per token", "samples/s")
    return Table(heads, tuple(rows), "Times")


def lengths_table(data: ReportData) -> Table:
    """Positions of the prompt by what they hold, tokens of the answer, rates and cache of every configuration."""
    rows = []
    for place, name in enumerate(data.names):
        own = data.badge(place)
        rows.append(
            (
                Cell(name),
                count_cell(_summary(data, place, readings.INPUT_LENGTH), badge=own),
                count_cell(_summary(data, place, readings.VISUAL_TOKENS), badge=own),
                count_cell(_summary(data, place, readings.TEXT_TOKENS), badge=own),
                count_cell(_summary(data, place, readings.OUTPUT_LENGTH), badge=own),
                rate_cell(_summary(data, place, readings.PREFILL_RATE)),
                rate_cell(_summary(data, place, readings.DECODE_RATE)),
                bytes_cell(_summary(data, place, readings.KV_BYTES), own),
            )
        )
    heads = ("configuration", "prompt", "of it visual", "of it text", "answer", "prefill", "decode", "KV cache")
    return Table(heads, tuple(rows), "Lengths in tokens, rates and cache")


def inputs_table(data: ReportData) -> Table:
    """What every configuration was shown, and how often."""
    rows = []
    for place, name in enumerate(data.names):
        column, own = data.columns[place], data.badge(place)
        run = column.runs[0]
        model = run.info.models.get(run.info.role)
        rows.append(
            (
                Cell(name),
                Cell(model.name if model else ""),
                count_cell(frames_shown(run), badge=own),
                rows_cell(len(column.samples())),
                rows_cell(len(column.runs)),
            )
        )
    return Table(("configuration", "model", "frames", "samples", "runs"), tuple(rows), "Inputs", text_columns=2)


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
