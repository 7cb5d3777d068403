"""Points and lines over numbers, with axes, intervals and a legend."""

from __future__ import annotations

from collections.abc import Iterator

from evprof.export.report.figures import number_text
from evprof.export.report.parts import ReportPlot
from evprof.export.report.plots.axes import Axis, fitted_axis, tick_texts
from evprof.export.report.plots.canvas import Canvas, shortened, text_width
from evprof.export.report.plots.palette import series_colors
from evprof.export.report.plots.plot_words import draw_legend, ends_at, is_dashed_line, shapes_of, value_text


def draw_points(canvas: Canvas, plot: ReportPlot) -> float:
    """Draws the plot and returns how high it became."""
    y = draw_legend(canvas, plot.series, 12, shapes=True)
    if title := _titled(plot.y_title, plot.unit):
        y += 12
        canvas.text(0, y, shortened(title, canvas.width), "dim")
    top, bottom = y + 12, y + 12 + min(300.0, max(200.0, canvas.width * 0.42))
    heights = fitted_axis(_heights(plot), bottom, top, plot.is_log_y)
    marks = heights.ticks(34.0)
    words = tick_texts(marks)
    left = max((text_width(text) for text in words), default=0.0) + 10
    across = fitted_axis((x for series in plot.series for x in series.x), left, canvas.width - 8, plot.is_log_x)
    for value, text in zip(marks, words, strict=True):
        at = heights.at(value)
        canvas.line(left, at, canvas.width, at)
        canvas.text(left - 8, at + 4, text, "dim", "end")
    _draw_x(canvas, across, bottom, plot)
    colors, shapes = series_colors(plot.series), shapes_of(plot.series)
    # Lines lie under points.
    order = sorted(range(len(plot.series)), key=lambda place: not plot.series[place].is_line)
    for place in order:
        color = canvas.fill(colors[place] or ("load",))
        _draw_series(canvas, plot, place, (across, heights), color, shapes[place])
    return bottom + (40 if plot.x_title else 24)


def _titled(title: str, unit: str) -> str:
    return f"{title} ({unit})" if title and unit and unit not in title else title or unit


def _heights(plot: ReportPlot) -> Iterator[float]:
    for series in plot.series:
        yield from (value for value in (*series.y, *series.low, *series.high) if value is not None)


def _draw_x(canvas: Canvas, axis: Axis, bottom: float, plot: ReportPlot) -> None:
    canvas.line(axis.start, bottom, canvas.width, bottom, "axis")
    reached = axis.start - 20
    ticks = axis.ticks(60.0)
    for value, text in zip(ticks, tick_texts(ticks), strict=True):
        x, half = axis.at(value), text_width(text) / 2
        x_text = min(max(x, half), canvas.width - half)
        canvas.line(x, bottom, x, bottom + 4, "axis")
        if x_text - half > reached:
            canvas.text(x_text, bottom + 17, text, "dim", "middle")
            reached = x_text + half + 6
    if plot.x_title:
        canvas.text(canvas.width, bottom + 34, shortened(plot.x_title, canvas.width), "dim", "end")


def _draw_series(  # noqa: PLR0917 - a series and its look
    canvas: Canvas, plot: ReportPlot, place: int, axes: tuple[Axis, Axis], color: str, shape: int
) -> None:
    series, (across, heights) = plot.series[place], axes
    points = [
        (x, y, index)
        for index, (x, y) in enumerate(zip(series.x, series.y, strict=False))
        if y is not None and (y > 0 or not plot.is_log_y) and (x > 0 or not plot.is_log_x)
    ]
    if series.is_line:
        places = [(across.at(x), heights.at(y)) for x, y, _ in sorted(points)]
        if places:
            canvas.path(places, color, is_dashed_line(series))
        return
    for x, y, index in points:
        low, high = ends_at(series, index)
        if low is not None and high is not None and (low > 0 or not plot.is_log_y):
            canvas.whisker(heights.at(low), heights.at(high), across.at(x), is_upright=True)
        tip = f"{series.name} at {number_text(x)}: {value_text(y, plot.unit)}"
        canvas.mark(across.at(x), heights.at(y), shape, color, tip)
