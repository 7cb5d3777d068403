"""What all plots share: values in words, the legend, and the scale below lying bars."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.export.report.figures import number_text, ratio_text
from evprof.export.report.parts import Badge, PlotSeries
from evprof.export.report.plots.axes import Axis, tick_texts
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
    for place, (entry, shape) in enumerate(zip(series, shapes_of(series), strict=True)):
        name = shortened(entry.name, canvas.width - 40)
        needed = 18 + text_width(name) + 16
        if x and x + needed - 16 > canvas.width:
            x, y = 0.0, y + LINE
        if shapes and entry.is_line:
            line = ((x, y - 4), (x + 14, y - 4))
            canvas.path(line, canvas.fill(colors[place] or ("load",)), is_dashed_line(entry))
        elif shapes:
            canvas.mark(x + 6, y - 4, shape, canvas.fill(colors[place] or ("load",)))
        else:
            canvas.bar(x, y - 9, 10, 10, colors[place])
        canvas.text(x + 18, y, name, "dim")
        x += needed
    return y + 12


def shapes_of(series: Sequence[PlotSeries]) -> list[int]:
    """The shape of each series' points: that of its family, whose members colours tell apart."""
    known: dict[str | int, int] = {}
    for place, entry in enumerate(series):
        if not entry.is_line:
            known.setdefault(entry.family or place, len(known))
    return [known.get(entry.family or place, 0) for place, entry in enumerate(series)]


def is_dashed_line(series: PlotSeries) -> bool:
    """Theory is dashed, a fit is not."""
    return series.badge == Badge.THEORETICAL


def scale_below(canvas: Canvas, axis: Axis, y: float, unit: str) -> float:
    """A quiet axis under lying bars; returns where it ends."""
    ticks = axis.ticks(72.0)
    canvas.line(axis.start, y, axis.end, y, "axis")
    reached = -1.0
    for value, text in zip(ticks, tick_texts(ticks), strict=True):
        x = axis.at(value)
        canvas.line(x, y, x, y + 4, "axis")
        words = f"{text} {unit}".rstrip() if value == ticks[-1] else text
        anchor = "start" if x < axis.start + 12 else "end" if x > canvas.width - text_width(words) / 2 else "middle"
        left = x - text_width(words) * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        if left > reached:
            canvas.text(x, y + 17, words, "dim", anchor)
            reached = left + text_width(words) + 8
    return y + 22
