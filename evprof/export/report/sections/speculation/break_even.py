"""Section: what speculation costs and what it would have to accept, the predicted curve beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evprof.core.vocabulary.modes import SPECULATIVE
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, ms_cell, number_text, ratio_cell, share_cell
from evprof.export.report.parts import (
    POINTS,
    Badge,
    Block,
    Cell,
    Paragraph,
    PlotSeries,
    ReportPlot,
    Section,
    Table,
    not_available,
)
from evprof.export.report.sections.evidence import names_of
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.figures.stages import END_TO_END
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.payoff import (
    DECODE,
    SLIP_002,
    MeasuredSpeedup,
    Payoff,
    Prediction,
    expected_table,
    payoff_over,
    prediction_over,
    step_ms_of,
)

TITLE = "Break-even of speculation"

MOST_DRAWN = 4
"""Configurations in one plot."""

LESSON = (
    "S = tau / (gamma·c + v): tau tokens a round gives, c a drafted token and v the rest of a round in plain steps of "
    "the target, all measured. Break-even is the acceptance at which the whole answer, the draft's own stages "
    "included, takes as long as the target alone; where none is given, speculation cannot pay at any acceptance."
)


@dataclass(frozen=True)
class Weighed:
    """A speculative configuration against the target alone: by formula, and as measured on the same samples."""

    column: Configuration
    found: Prediction
    payoff: Payoff


def section(data: ReportData) -> Section:
    """Costs, curve with the measured points, break-even acceptance, and document 002's table from here."""
    names = names_of(data)
    listed = weighed_of(data)
    if not listed:
        return Section(
            TITLE, missing="No speculation in rounds was run together with its target alone on the same sample."
        )
    blocks: list[Block] = [Paragraph(LESSON), _table(listed, names), _curve(listed[:MOST_DRAWN], names)]
    blocks += _expected(data, listed[0], names)
    return Section(TITLE, tuple(blocks))


def weighed_of(data: ReportData) -> list[Weighed]:
    """Every configuration that speculates in rounds and has a plain one beside it."""
    found = []
    for column in data.columns:
        info = column.runs[0].info
        if info.mode != SPECULATIVE or info.imported is not None:
            continue
        payoff = payoff_over(column.runs, data.beside(column), data.processes)
        step = None if payoff is None else step_ms_of(payoff.baseline)
        if payoff is not None and step is not None and (predicted := prediction_over(payoff.runs, step)) is not None:
            found.append(Weighed(column, predicted, payoff))
    return found


def _table(listed: Sequence[Weighed], names: dict[int, str]) -> Table:
    rows = []
    for entry in listed:
        found = entry.found
        rate = found.break_even_rate
        rows.append(
            (
                Cell(names[id(entry.column)]),
                Cell(number_text(found.mean_gamma), Badge.DERIVED),
                ratio_cell(found.c),
                ratio_cell(found.v),
                share_cell(found.alpha),
                ratio_cell(found.predicted_decode),
                _measured(entry.payoff.of(DECODE)),
                _measured(entry.payoff.of(END_TO_END)),
                not_available("(at any acceptance)") if rate is None else share_cell(rate),
                ms_cell(found.preparation_ms, Badge.DERIVED),
                Cell(f"{len(entry.payoff.runs)} against {entry.payoff.baseline.words}"),
            )
        )
    heads = (
        "configuration",
        "γ drafted",
        "c, a drafted token",
        "v, rest of a round",
        "α accepted of judged",
        "decoding by the formula, same runs",
        "measured decoding",
        "measured whole answer",
        "break-even, accepted of drafted",
        "preparing the draft",
        "runs against plain",
    )
    return Table(heads, tuple(rows), caption="Speeds against the target alone; above 1.00x speculation is faster")


def _measured(found: MeasuredSpeedup | None) -> Cell:
    return ratio_cell(found.speedup, found.interval, lower_is_better=False) if found else not_available()


def _curve(listed: Sequence[Weighed], names: dict[int, str]) -> ReportPlot:
    series = []
    for entry in listed:
        found, name = entry.found, names[id(entry.column)]
        points = break_even.curve(found.costs, found.by_place if found.alpha is None else found.alpha)
        x, y = tuple(float(point.gamma) for point in points), tuple(point.speedup for point in points)
        series.append(PlotSeries(f"{name}, predicted", x, y, is_line=True, badge=Badge.DERIVED))
        decode = entry.payoff.of(DECODE)
        if decode is not None:
            ends = decode.interval or (None, None)
            series.append(
                PlotSeries(
                    f"{name}, measured",
                    (found.mean_gamma,),
                    (decode.speedup,),
                    low=(ends[0],),
                    high=(ends[1],),
                    badge=Badge.MEASURED,
                )
            )
    gammas = (float(break_even.GAMMAS[0]), float(break_even.GAMMAS[-1]))
    series.append(PlotSeries("no gain", gammas, (1.0, 1.0), is_line=True, badge=Badge.THEORETICAL))
    return ReportPlot(
        POINTS,
        "Decoding speed against the target alone",
        tuple(series),
        x_title="drafted tokens a round",
        y_title="times as fast",
        caption="Predicted from measured costs and the acceptance per token; measured with its 95 % interval",
    )


def _expected(data: ReportData, entry: Weighed, names: dict[int, str]) -> list[Block]:
    run = entry.column.runs[0]
    rows = expected_table(run, data.beside(entry.column))
    if not rows:
        return []
    cells = tuple(
        (
            count_cell(row.tokens, badge=Badge.THEORETICAL),
            ms_cell(row.plain_ms, Badge.DERIVED),
            ms_cell(row.rounds_ms, Badge.DERIVED),
            ms_cell(row.parallel_ms, Badge.DERIVED),
            ms_cell(row.printed_ms, Badge.IMPORTED),
            ms_cell(row.printed_parallel_ms, Badge.IMPORTED),
        )
        for row in rows
    )
    heads = (
        "tokens",
        "target alone, here",
        "in rounds, here",
        "one block in the prefill, here",
        "target alone, 002 printed",
        "parallel + adapter, 002 printed",
    )
    caption = f"Document 002's expected totals, from this machine's runs ({names[id(entry.column)]})"
    return [Table(heads, cells, caption=caption), Paragraph(SLIP_002, tone="warn", badge=Badge.IMPORTED)]
