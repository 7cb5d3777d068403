"""The section on statistics: spread, percentiles and intervals of every time, outliers and warm-up flagged."""

from __future__ import annotations

from evprof.export.report import readings
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, interval_cell, ms_cell, rows_cell
from evprof.export.report.parts import NOT_AVAILABLE, Badge, Cell, Paragraph, Section, Table
from evprof.export.report.readings import ReportReading, part_title
from evprof.metrics.arithmetic.statistics import PERCENTILES, Summary, outliers, warmup_count
from evprof.metrics.figures.partition import shape_of

METHOD = (
    "Every sample weighs the same in a mean: its repeats count as one. Standard deviations are the sample's (n − 1) "
    "over runs; percentiles are interpolated linearly. Intervals are 95 % intervals of the mean, none below three "
    "runs: from scene to scene where there are three or more (bootstrap-t, Student's below eight), from engine process "
    "to engine process where there are several, and of repeats with regard to how alike neighbours in time are; the "
    "same runs always give the same interval. An outlier is more than 3.5 robust standard deviations from the median "
    "(Iglewicz and Hoaglin, 1993). Both outliers and runs that still seem to be warming up are counted here and left "
    "in every figure."
)


FEWEST_TELLING = 5
"""Of fewer values, one that lies apart may as well be the steady one."""


MOST_NAMED = 8
"""More runs than these are counted, not named."""


def section(data: ReportData) -> Section:
    """One line per configuration and time."""
    rows: list[tuple[Cell, ...]] = []
    for place, name in enumerate(data.names):
        shown = False
        for title, reading in _told(data, place):
            found = data.summary(place, reading)
            if found is not None:
                rows.append(_row("" if shown else name, title, found, data, place, reading))
                shown = True
    if not rows:
        return Section("Statistics", missing="At least one finished run with a measured time.")
    heads = (
        "configuration",
        "time",
        "n",
        "mean ± std",
        "95 % interval",
        "minimum",
        *(f"p{percent}" if percent != 50 else "median" for percent in PERCENTILES),
        "maximum",
        "outliers",
        "warming up",
    )
    return Section("Statistics", (Paragraph(METHOD), Table(heads, tuple(rows), "Times in ms", text_columns=2)))


def _told(data: ReportData, place: int) -> list[tuple[str, ReportReading]]:
    shapes = dict.fromkeys(map(shape_of, data.columns[place].runs))
    parts = {name: None for shape in shapes for name in readings.parts_of_shape(shape, data.basis)}
    return [
        ("total", readings.total(data.basis)),
        ("to first token", readings.figure("time_to_first_token_ms", data.basis)),
        ("per token", readings.TIME_PER_TOKEN),
        *((part_title(name), readings.part(name)) for name in parts),
    ]


def _row(  # noqa: PLR0917 - what a row says
    name: str, title: str, found: Summary, data: ReportData, place: int, reading: ReportReading
) -> tuple[Cell, ...]:
    own = reading.badge(data.badge(place))
    values = data.values(place, reading)
    return (
        Cell(name),
        Cell(title),
        rows_cell(found.count),
        ms_cell(found, own, has_unit=False),
        interval_cell(found.ci95, has_unit=False),
        ms_cell(found.minimum, own, has_unit=False),
        *(ms_cell(found.percentiles[percent], own, has_unit=False) for percent in PERCENTILES),
        ms_cell(found.maximum, own, has_unit=False),
        _flagged(data, place, reading, outliers(values))
        if len(values) >= FEWEST_TELLING
        else Cell(NOT_AVAILABLE, tone="dim", note=f"fewer than {FEWEST_TELLING} values tell no outlier"),
        _flagged(data, place, reading, tuple(range(warmup_count(values)))),
    )


def _flagged(data: ReportData, place: int, reading: ReportReading, indices: tuple[int, ...]) -> Cell:
    if not indices:
        return count_cell(0, badge=Badge.DERIVED)
    having = [run for run in data.columns[place].runs if reading.read(run) is not None]
    named = ", ".join(str(having[index].run_id) for index in indices)
    note = f"run{'s' * (len(indices) > 1)} {named}" if len(indices) <= MOST_NAMED else ""
    return count_cell(len(indices), badge=Badge.DERIVED, tone="warn", note=note)
