"""What all plots share: values in words, and the legend."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.export.report.figures import number_text, ratio_text
from evprof.export.report.parts import Badge, PlotSeries
from evprof.export.report.plots.canvas import Canvas, shortened, text_width
from evprof.export.report.plots.palette import series_colors

LINE = 18.0
"""Height of a line of words."""


def value_text(value: float | None, unit: str) -> str:
    """A value with its unit as plots write it."""
    if value is None:
        return "n/a"
    if unit == "x":
        return ratio_text(value)
    return f"{short_number(value)} {unit}".rstrip()


def short_number(value: float) -> str:
    """Three significant digits: a picture is for comparing, the tables tell the rest."""
    size = abs(value)
    return number_text(value, 0 if size >= 100 else 1 if size >= 10 else 2) if size >= 0.1 else number_text(value)


def value_at(series: PlotSeries, index: int) -> float | None:
    """The series' value at an index; None where it has none."""
    return series.y[index] if index < len(series.y) else None


def ends_at(series: PlotSeries, index: int) -> tuple[float | None, float | None]:
    """The ends of the interval at an index; None where it has none."""
    low = series.low[index] if index < len(series.low) else None
    high = series.high[index] if index < len(series.high) else None
    return low, high


def draw_legend(canvas: Canvas, series: Sequence[PlotSeries], y: float, shapes: bool = False) -> float:
    """Names of the series with their colours, in as many lines as they need; returns where they end."""
    x, colors = 0.0, series_colors(series)
    for place, entry in enumerate(series):
        name = shortened(entry.name, canvas.width - 40)
        needed = 18 + text_width(name) + 16
        if x and x + needed - 16 > canvas.width:
            x, y = 0.0, y + LINE
        if shapes and entry.is_line:
            line = ((x, y - 4), (x + 14, y - 4))
            canvas.path(line, canvas.fill(colors[place] or ("load",)), is_dashed_line(entry))
        elif shapes:
            canvas.mark(x + 6, y - 4, place, canvas.fill(colors[place] or ("load",)))
        else:
            canvas.bar(x, y - 9, 10, 10, colors[place])
        canvas.text(x + 18, y, name, "dim")
        x += needed
    return y + 12


def is_dashed_line(series: PlotSeries) -> bool:
    """Theory is dashed, a fit is not."""
    return series.badge == Badge.THEORETICAL
