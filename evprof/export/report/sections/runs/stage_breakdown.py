"""The section on stages: where every configuration's time goes, on three bases, and what was measured in one piece."""

from __future__ import annotations

from evprof.core.records import COVERS, STAGES
from evprof.core.run_log import RunLog
from evprof.export.report import readings
from evprof.export.report.data import ReportData
from evprof.export.report.figures import interval_cell, ms_cell, rows_cell, share_cell
from evprof.export.report.parts import (
    STACKED,
    Badge,
    Block,
    Bullets,
    Cell,
    Paragraph,
    PlotSeries,
    ReportPlot,
    Section,
    Table,
)
from evprof.export.report.readings import UNATTRIBUTED
from evprof.metrics.arithmetic.statistics import Summary
from evprof.metrics.figures.partition import is_in_pieces, shape_of
from evprof.metrics.figures.stages import BASES, END_TO_END, MODEL_ONLY, WITHOUT_LOAD

NOT_TOLD = {
    END_TO_END: "a stage of it was not measured",
    WITHOUT_LOAD: "a stage of it was not measured, or only in one piece with loading",
    MODEL_ONLY: "a stage of it was not measured, or only in one piece with others",
}


def section(data: ReportData) -> Section:
    """Plot, every stage's mean side by side, the three bases, and each stage with its interval and share."""
    if not any(shape_of(run).blocks for run in data.runs):
        return Section("Stages", missing="Runs with at least one measured stage.")
    blocks: list[Block] = [_plot(data), _means(data), _bases(data)]
    if pieces := _pieces(data):
        blocks += [Paragraph("Measured in one piece, and never split by guess:"), Bullets(pieces)]
    return Section("Stages", (*blocks, details_table(data)))


def _parts(data: ReportData, basis: str) -> list[str]:
    """Everything that any configuration's time is made of, in order of stages, what no stage covers last."""
    shapes = data.once("shapes", lambda: {shape_of(run) for column in data.columns for run in column.runs})
    found = {name for shape in shapes for name in readings.parts_of_shape(shape, basis)}
    rank = {name: place for place, name in enumerate((*STAGES, UNATTRIBUTED))}
    return sorted(found, key=lambda name: (rank[name.split(COVERS)[0]], name.count(COVERS), name))


def _summary(data: ReportData, place: int, name: str) -> Summary | None:
    return data.summary(place, readings.part(name))


def _plot(data: ReportData) -> ReportPlot:
    places = range(len(data.columns))
    series = []
    for name in _parts(data, data.basis):
        found = [_summary(data, place, name) for place in places]
        if any(summary and summary.mean > 0 for summary in found):
            means = tuple(summary.mean if summary else None for summary in found)
            series.append(PlotSeries(readings.part_title(name), (), means, color=name, badge=data.badge(0)))
    caption = "Mean time of each stage."
    if any(entry.color == UNATTRIBUTED for entry in series):
        caption += " Hatched: what no stage covers."
    if any(COVERS in entry.color for entry in series):
        caption += " Striped: several stages that were measured in one piece."
    return ReportPlot(STACKED, "Where the time goes", tuple(series), tuple(data.names), unit="ms", caption=caption)


def _means(data: ReportData) -> Table:
    places = range(len(data.columns))
    parts = [part for part in _parts(data, data.basis) if any(_summary(data, place, part) for place in places)]
    rows = []
    for place, name in enumerate(data.names):
        own = data.badge(place)
        cells = [ms_cell(_summary(data, place, part), own, has_unit=False) for part in parts]
        rows.append((Cell(name), *cells, ms_cell(data.summary(place, readings.total(data.basis)), own, has_unit=False)))
    heads = ("configuration", *(readings.part_title(part) for part in parts), "total")
    return Table(heads, tuple(rows), "Mean ± standard deviation of each stage, ms")


def _bases(data: ReportData) -> Table:
    rows = []
    for place, name in enumerate(data.names):
        cells = []
        for basis in BASES:
            found = data.summary(place, readings.total(basis))
            cells.append(ms_cell(found, data.badge(place), has_unit=False, note="" if found else NOT_TOLD[basis]))
        rows.append((Cell(name), *cells))
    return Table(
        ("configuration", "end to end", "without load", "model only"), tuple(rows), "Totals on three bases, ms"
    )


def _pieces(data: ReportData) -> tuple[str, ...]:
    """What covers several stages, in sentences, each with the configurations it is true of."""
    said: dict[str, list[str]] = {}
    for name, column in zip(data.names, data.columns, strict=True):
        spans = {
            (span.covers, run.accounts_for(span))
            for run in filter(is_in_pieces, column.runs[:50])
            for span in run.stages()
        }
        for covers, owned in sorted(spans):
            if len(covers) > 1:
                said.setdefault(_piece(covers, owned), []).append(name)
    for name, column in zip(data.names, data.columns, strict=True):
        if shared := _of_both(column.runs[0]):
            verb = "is" if len(shared) == 1 else "are"
            said.setdefault(
                f"{' and '.join(shared)} {verb} of both models together, the draft's and the target's", []
            ).append(name)
    return tuple(f"{sentence} ({', '.join(names)})" for sentence, names in said.items())


def _of_both(run: RunLog) -> list[str]:
    """The parts of an imported run that two models' times make up."""
    if run.info.imported is None:
        return []
    roles: dict[str, set[str]] = {}
    for span in run.stages():
        roles.setdefault(COVERS.join(run.accounts_for(span)), set()).add(span.role)
    return [readings.part_title(name) for name, found in roles.items() if name and len(found) > 1]


def _piece(covers: tuple[str, ...], owned: tuple[str, ...]) -> str:
    words = f"{', '.join(covers[:-1])} and {covers[-1]}"
    if owned == covers:
        return f"{words} are one interval"
    again = " and ".join(name for name in covers if name not in owned)
    return f"the interval told as {' + '.join(owned)} holds {again} once more, which was also measured apart"


def details_table(data: ReportData) -> Table:
    """Every stage of every configuration with its interval and its share of the total."""
    rows: list[tuple[Cell, ...]] = []
    for place, name in enumerate(data.names):
        own = data.badge(place)
        measured = [(part, found) for part in _parts(data, data.basis) if (found := _summary(data, place, part))]
        total = data.summary(place, readings.total(data.basis))
        whole = total.mean if total else sum(found.mean for _, found in measured)
        note = "" if total else "of the measured stages together: there is no total on this basis"
        told = [(readings.part_title(part), found) for part, found in measured]
        if total:
            told.append(("total", total))
        for index, (title, found) in enumerate(told):
            rows.append(
                (
                    Cell("" if index else name),
                    Cell(title),
                    ms_cell(found, own),
                    ms_cell(found.median, own),
                    interval_cell(found.ci95),
                    share_cell(found.mean / whole if whole else None, Badge.DERIVED, note=note),
                    rows_cell(found.count),
                )
            )
    heads = ("configuration", "stage", "mean ± std", "median", "95 % interval of the mean", "share", "n")
    return Table(heads, tuple(rows), "Stage by stage", text_columns=2)
