"""Lying bars: stacked from parts, or in groups with intervals; directly labelled where there is room."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.core.safe_text import one_line
from evprof.export.report.figures import MOST_DECIMALS, interval_decimals, interval_text, number_text, share_text
from evprof.export.report.parts import PlotSeries, ReportPlot
from evprof.export.report.plots.axes import Axis
from evprof.export.report.plots.canvas import Canvas, shortened, text_width
from evprof.export.report.plots.palette import series_colors
from evprof.export.report.plots.plot_words import LINE, draw_legend, ends_at, scale_below, value_at, value_text

_BAR, _THIN_BAR, _GAP = 22.0, 12.0, 14.0

_MOST_LABEL, _FEWEST_BESIDE = 0.34, 560.0
"""Labels stand beside their bars when they take no more than this share of a picture at least this wide."""


def draw_stacked(canvas: Canvas, plot: ReportPlot) -> float:
    """One bar per label, its parts end to end. Returns how high the picture became."""
    y = draw_legend(canvas, plot.series, 12) + 4
    totals = [
        sum(value for value in (value_at(series, index) for series in plot.series) if value and value > 0)
        for index in range(len(plot.labels))
    ]
    words = [value_text(total, plot.unit) for total in totals]
    left = _label_room(canvas, plot)
    room = max(map(text_width, words), default=0.0) + 12 if left else 0.0
    axis = Axis(0.0, max(totals, default=0.0) or 1.0, left, canvas.width - room)
    colors = series_colors(plot.series)
    for index, label in enumerate(plot.labels):
        y = _draw_label(canvas, label, y, left, _BAR, canvas.width - text_width(words[index]) - 16)
        if not left:
            canvas.text(canvas.width, y - 6, words[index], "strong", "end")
        x = axis.start
        for place, series in enumerate(plot.series):
            value = value_at(series, index)
            if not value or value < 0:
                continue
            wide = axis.at(value) - axis.start
            said = value_text(value, plot.unit)
            tip = f"{series.name}: {said}, {share_text(value / totals[index])} of {words[index]}"
            # A hair of ground between neighbours, where they are wide enough to spare it.
            canvas.bar(x, y, wide - (1.0 if wide > 3 else 0.0), _BAR, colors[place], tip)
            _label_segment(canvas, x, y, wide, series, said, colors[place])
            x += wide
        if left:
            canvas.text(x + 8, y + _BAR / 2 + 4.2, words[index], "strong")
        y += _BAR + (8 if left else _GAP - 4)
    return scale_below(canvas, axis, y, plot.unit)


def _label_room(canvas: Canvas, plot: ReportPlot) -> float:
    """How much of the left labels take when all stand beside their bars; 0: there is no room, they stand above."""
    needed = max((text_width(one_line(label, 400)) for label in plot.labels), default=0.0) + 16
    return needed if needed <= _MOST_LABEL * canvas.width and canvas.width > _FEWEST_BESIDE else 0.0


def _draw_label(  # noqa: PLR0917 - a label and its place
    canvas: Canvas, label: str, y: float, left: float, high: float, room: float
) -> float:
    """Draws a label beside or above bars that are `high` in all; returns where they begin."""
    if left:
        canvas.text(0, y + high / 2 + 4.2, label)
        return y
    canvas.text(0, y + LINE - 4, shortened(label, room))
    return y + LINE + 2


def _label_segment(  # noqa: PLR0917 - a place and what stands there
    canvas: Canvas, x: float, y: float, wide: float, series: PlotSeries, value: str, colors: Sequence[str]
) -> None:
    room = wide - 12
    short = value.split(" ", maxsplit=1)[0]
    text = next((words for words in (f"{series.name} {value}", value, short) if text_width(words) <= room), "")
    if not text:
        return
    is_plain = len(colors) == 1
    canvas.text(x + 6, y + _BAR / 2 + 4.2, text, "on" if is_plain else "halo", fill=_ink(colors) if is_plain else "")


def _ink(colors: Sequence[str]) -> str:
    return f"var(--on-{colors[0]})"


def draw_grouped(canvas: Canvas, plot: ReportPlot) -> float:
    """A bar per label and series, with intervals. Returns how high the picture became."""
    many = len(plot.series) > 1
    y = draw_legend(canvas, plot.series, 12) + 4 if many else 0.0
    ends = [
        value
        for series in plot.series
        for value in (*series.y, *series.high, 1.0 if plot.unit == "x" else None)
        if value is not None
    ]
    words = [_bar_text(series, index, plot.unit) for series in plot.series for index in range(len(plot.labels))]
    left = _label_room(canvas, plot)
    room = min(max(map(text_width, words), default=0.0) + 12, canvas.width * 0.55)
    axis = Axis(0.0, max(ends, default=0.0) or 1.0, left, canvas.width - room)
    colors = series_colors(plot.series)
    bar = _THIN_BAR if many else _BAR - 6
    high = len(plot.series) * (bar + 4) - 4
    rows: list[tuple[float, int, int]] = []
    tops: list[tuple[float, float]] = []
    for index, label in enumerate(plot.labels):
        y = _draw_label(canvas, label, y, left, high, canvas.width)
        rows += [(y + place * (bar + 4), index, place) for place in range(len(plot.series))]
        tops.append((y - 3, y + high + 3))
        y += high + (10 if left else _GAP - 2)
    if plot.unit == "x":
        # Beside every group rather than through all: labels may stand between them.
        for start, end in tops:
            canvas.line(axis.at(1.0), start, axis.at(1.0), end, "reference")
    for at, index, place in rows:
        _draw_bar(canvas, plot, axis, (at, bar), index, place, colors[place])
    return scale_below(canvas, axis, y, "" if plot.unit == "x" else plot.unit)


def _draw_bar(  # noqa: PLR0917 - one bar of a group
    canvas: Canvas, plot: ReportPlot, axis: Axis, at: tuple[float, float], index: int, place: int, colors: Sequence[str]
) -> None:
    series, (y, bar) = plot.series[place], at
    value = value_at(series, index)
    words = _bar_text(series, index, plot.unit)
    reach = axis.start
    if value is not None:
        reach = axis.at(max(value, 0.0))
        canvas.bar(axis.start, y, max(reach - axis.start, 0.8), bar, colors, f"{series.name}: {words}")
        low, high = ends_at(series, index)
        if low is not None and high is not None:
            canvas.whisker(axis.at(max(low, 0.0)), axis.at(max(high, 0.0)), y + bar / 2)
            reach = max(reach, axis.at(high))
    canvas.text(reach + 8, y + bar / 2 + 4.2, shortened(words, canvas.width - reach - 8), "small halo")


def _bar_text(series: PlotSeries, index: int, unit: str) -> str:
    value, (low, high) = value_at(series, index), ends_at(series, index)
    if value is None or low is None or high is None:
        return value_text(value, unit)
    if unit == "x":
        return f"{value_text(value, unit)} {interval_text((low, high))}"
    # The mean to the same place as its interval; more than two digits after the point are for tables.
    decimals = min(interval_decimals((low, high)), 2 if value >= 1 else MOST_DECIMALS)
    low_text, high_text = number_text(low, decimals), number_text(high, decimals)
    return f"{number_text(value, decimals)} {unit}".rstrip() + f" [{low_text}, {high_text}]"
