"""Section: spread, percentiles and intervals of every time, and flagged outliers and warm-up."""

from __future__ import annotations

from functools import partial

from evprof.export.report import readings
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.figures import count_cell, interval_cell, ms_cell, rows_cell
from evprof.export.report.parts import (
    NOT_AVAILABLE,
    Badge,
    Block,
    Cell,
    ColumnsOf,
    Paragraph,
    Section,
    section_of,
    table_of,
)
from evprof.export.report.readings import ReportReading, part_title
from evprof.metrics.arithmetic.statistics import PERCENTILES, Summary, outliers, warmup_count
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.figures.partition import shape_of

METHOD = (
    "Every sample weighs the same in a mean: its repeats count as one. Standard deviations are the sample's (n − 1) "
    "over runs; percentiles are interpolated linearly. Intervals are 95 % intervals of the mean over samples, over "
    "engine processes where there are several, none below three runs. An outlier is more than 3.5 robust standard "
    "deviations from the median (Iglewicz and Hoaglin, 1993). Outliers and runs that still seem to be warming up are "
    "counted here and left in every figure."
)

FEWEST_TELLING = 5
"""Of fewer values, one that lies apart may as well be the steady one."""

MOST_NAMED = 8
"""More runs than these are counted, not named."""


def section(data: ReportData) -> Section:
    """One line per configuration and time."""
    return section_of("Statistics", distributions(data), "At least one finished run with a measured time.")


Row = tuple[Configuration, str, ReportReading, Summary]


def distributions(data: ReportData) -> list[Block]:
    """Every time of every configuration with its spread, percentiles and interval."""
    rows = [
        (column, title, reading, summary)
        for column in data.columns
        for title, reading in _times(data, column)
        if (summary := data.summary(column, reading)) is not None
    ]
    if not rows:
        return []

    def spent(row: Row, percent: int) -> Cell:
        return ms_cell(row[3].percentiles[percent], _own(row), has_unit=False)

    def apart(row: Row) -> Cell:
        values = data.values(row[0], row[2])
        if len(values) < FEWEST_TELLING:
            return Cell(NOT_AVAILABLE, tone="dim", note=f"fewer than {FEWEST_TELLING} values tell no outlier")
        return _flagged(row, outliers(values))

    columns: ColumnsOf[Row] = [
        ("configuration", lambda row: data.name(row[0])),
        ("time", lambda row: row[1]),
        ("n", lambda row: rows_cell(row[3].count)),
        ("mean ± std", lambda row: ms_cell(row[3], _own(row), has_unit=False)),
        ("95 % interval", lambda row: interval_cell(row[3].ci95, has_unit=False)),
        ("minimum", lambda row: ms_cell(row[3].minimum, _own(row), has_unit=False)),
        *((f"p{one}" if one != 50 else "median", partial(spent, percent=one)) for one in PERCENTILES),
        ("maximum", lambda row: ms_cell(row[3].maximum, _own(row), has_unit=False)),
        ("outliers", apart),
        ("warming up", lambda row: _flagged(row, tuple(range(warmup_count(data.values(row[0], row[2])))))),
    ]
    return [Paragraph(METHOD), table_of(rows, columns, "Times in ms", text_columns=2)]


def _times(data: ReportData, column: Configuration) -> list[tuple[str, ReportReading]]:
    shapes = dict.fromkeys(map(shape_of, column.runs))
    parts = {name: None for shape in shapes for name in readings.parts_of_shape(shape, data.basis)}
    return [
        ("total", readings.total(data.basis)),
        ("to first token", readings.figure("time_to_first_token_ms", data.basis)),
        ("per token", readings.TIME_PER_TOKEN),
        *((part_title(name), readings.part(name)) for name in parts),
    ]


def _own(row: Row) -> Badge:
    return row[2].badge(badge_of(row[0].runs))


def _flagged(row: Row, indices: tuple[int, ...]) -> Cell:
    if not indices:
        return count_cell(0, badge=Badge.DERIVED)
    runs = [run for run in row[0].runs if row[2].read(run) is not None]
    named = ", ".join(str(runs[index].run_id) for index in indices)
    note = f"run{'s' * (len(indices) > 1)} {named}" if len(indices) <= MOST_NAMED else ""
    return count_cell(len(indices), badge=Badge.DERIVED, tone="warn", note=note)
