"""Plots as text: bars of block characters and small tables, for where no picture can be."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.core.safe_text import one_line
from evprof.core.units import times_text
from evprof.export.report.figures import interval_text, number_text
from evprof.export.report.parts import GROUPED, STACKED, PlotSeries, ReportPlot

WIDTH = 48
"""Characters of the longest bar."""

FILLS = "█▓▒░▚▤▥"
"""What parts of stacked bars are drawn with, in order."""

_EIGHTHS = " ▏▎▍▌▋▊▉"


def plot_text(plot: ReportPlot) -> str:
    """The plot as lines of text."""
    if plot.kind == STACKED:
        lines = _stacked(plot)
    elif plot.kind == GROUPED:
        lines = _grouped(plot)
    else:
        lines = _points(plot)
    return "\n".join(lines)


def _stacked(plot: ReportPlot) -> list[str]:
    totals = [
        sum(value or 0.0 for value in (series.y[index] for series in plot.series if index < len(series.y)))
        for index in range(len(plot.labels))
    ]
    longest = max(totals, default=0.0) or 1.0
    labels = _padded([_shortened(label, 40) for label in plot.labels])
    lines = []
    for index, (label, total) in enumerate(zip(labels, totals, strict=True)):
        bar, reached = "", 0.0
        for place, series in enumerate(plot.series):
            reached += (series.y[index] if index < len(series.y) else None) or 0.0
            bar += FILLS[place % len(FILLS)] * (round(WIDTH * reached / longest) - len(bar))
        lines.append(f"{label}  {bar:<{WIDTH}}  {number_text(total)} {plot.unit}".rstrip())
    named = "  ".join(f"{FILLS[place % len(FILLS)]} {series.name}" for place, series in enumerate(plot.series))
    return [*lines, "", named]


def _grouped(plot: ReportPlot) -> list[str]:
    values = [value for series in plot.series for value in series.y if value is not None]
    longest = max(values, default=0.0) or 1.0
    many = len(plot.series) > 1
    rows: list[tuple[str, str, str]] = []
    for index, label in enumerate(plot.labels):
        for series in plot.series:
            name = _shortened(f"{label} · {series.name}" if many else label, 48)
            value = series.y[index] if index < len(series.y) else None
            rows.append((name, _bar(value, longest), _value(series, index, plot.unit)))
    names = _padded([row[0] for row in rows])
    return [f"{name}  {bar:<{WIDTH}}  {text}".rstrip() for name, (_, bar, text) in zip(names, rows, strict=True)]


def _bar(value: float | None, longest: float) -> str:
    eighths = max(0, round(8 * WIDTH * (value or 0.0) / longest))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def _value(series: PlotSeries, index: int, unit: str) -> str:
    value = series.y[index] if index < len(series.y) else None
    if value is None:
        return "n/a"
    text = f"{number_text(value)} {unit}".rstrip() if unit != "x" else times_text(value)
    low = series.low[index] if index < len(series.low) else None
    high = series.high[index] if index < len(series.high) else None
    if low is None or high is None:
        return text
    return f"{text} {interval_text((low, high), '' if unit == 'x' else unit).removesuffix(f' {unit}')}"


def _points(plot: ReportPlot) -> list[str]:
    at = sorted({x for series in plot.series for x in series.x})
    names = [_shortened(series.name, 32) for series in plot.series]
    columns = [[plot.x_title or "x", *(number_text(x) for x in at)]]
    for name, series in zip(names, plot.series, strict=True):
        found = dict(zip(series.x, series.y, strict=False))
        columns.append([name, *("·" if found.get(x) is None else number_text(found[x] or 0.0) for x in at)])
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    return [f"{plot.y_title} ({plot.unit})" if plot.unit and plot.y_title else plot.y_title or plot.unit, "", *lines]


def _shortened(text: str, most: int) -> str:
    shown = one_line(text, 400)
    return shown if len(shown) <= most else f"{shown[: most - 1].rstrip()}…"


def _padded(texts: Sequence[str]) -> list[str]:
    width = max(map(len, texts), default=0)
    return [text.ljust(width) for text in texts]
