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
    ColumnsOf,
    Paragraph,
    PlotSeries,
    ReportPlot,
    Section,
    Table,
    not_available,
    table_of,
)
from evprof.export.report.sections.evidence import measured_cell, names_of, payoff_in, runs_against
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.figures.stages import END_TO_END
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.payoff import (
    DECODE,
    SLIP_002,
    Expected,
    Payoff,
    Prediction,
    expected_table,
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
        payoff = payoff_in(data, column)
        step = None if payoff is None else step_ms_of(payoff.baseline)
        if payoff is not None and step is not None and (predicted := prediction_over(payoff.runs, step)) is not None:
            found.append(Weighed(column, predicted, payoff))
    return found


def _table(listed: Sequence[Weighed], names: dict[int, str]) -> Table:
    columns: ColumnsOf[Weighed] = [
        ("configuration", lambda entry: names[id(entry.column)]),
        ("γ drafted", lambda entry: Cell(number_text(entry.found.mean_gamma), Badge.DERIVED)),
        ("c, a drafted token", lambda entry: ratio_cell(entry.found.c)),
        ("v, rest of a round", lambda entry: ratio_cell(entry.found.v)),
        ("α accepted of judged", lambda entry: share_cell(entry.found.alpha)),
        ("decoding by the formula, same runs", lambda entry: ratio_cell(entry.found.predicted_decode)),
        ("measured decoding", lambda entry: measured_cell(entry.payoff.of(DECODE))),
        ("measured whole answer", lambda entry: measured_cell(entry.payoff.of(END_TO_END))),
        ("break-even, accepted of drafted", lambda entry: _break_even(entry.found.break_even_rate)),
        ("preparing the draft", lambda entry: ms_cell(entry.found.preparation_ms, Badge.DERIVED)),
        ("runs against plain", lambda entry: runs_against(entry.payoff)),
    ]
    return table_of(listed, columns, "Speeds against the target alone; above 1.00× speculation is faster")


def _break_even(rate: float | None) -> Cell:
    return not_available("(at any acceptance)") if rate is None else share_cell(rate)


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
    columns: ColumnsOf[Expected] = [
        ("tokens", lambda row: count_cell(row.tokens, badge=Badge.THEORETICAL)),
        ("target alone, here", lambda row: ms_cell(row.plain_ms, Badge.DERIVED)),
        ("in rounds, here", lambda row: ms_cell(row.rounds_ms, Badge.DERIVED)),
        ("one block in the prefill, here", lambda row: ms_cell(row.parallel_ms, Badge.DERIVED)),
        ("target alone, 002 printed", lambda row: ms_cell(row.printed_ms, Badge.IMPORTED)),
        ("parallel + adapter, 002 printed", lambda row: ms_cell(row.printed_parallel_ms, Badge.IMPORTED)),
    ]
    caption = f"Document 002's expected totals, from this machine's runs ({names[id(entry.column)]})"
    return [table_of(rows, columns, caption), Paragraph(SLIP_002, tone="warn", badge=Badge.IMPORTED)]
