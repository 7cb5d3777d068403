"""Lying bars: stacked from parts, or in groups with intervals; directly labelled where there is room."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.export.report.axes import Axis, tick_texts
from evprof.export.report.canvas import Canvas, shortened, text_width
from evprof.export.report.figures import interval_text, share_text
from evprof.export.report.palette import series_colors
from evprof.export.report.parts import Plot, Series
from evprof.export.report.plot_words import LINE, draw_legend, ends_at, value_at, value_text

_BAR, _THIN_BAR, _GAP = 22.0, 12.0, 14.0


def draw_stacked(canvas: Canvas, plot: Plot) -> float:
    """One bar per label, its parts end to end. Returns how high the picture became."""
    y = draw_legend(canvas, plot.series, 12)
    totals = [
        sum(value for value in (value_at(series, index) for series in plot.series) if value)
        for index in range(len(plot.labels))
    ]
    axis = Axis(0.0, max(totals, default=0.0) or 1.0, 0.0, canvas.width)
    colors = series_colors(plot.series)
    top = y
    for index, label in enumerate(plot.labels):
        total = value_text(totals[index], plot.unit)
        y += LINE
        canvas.text(0, y, shortened(label, canvas.width - text_width(total) - 16))
        canvas.text(canvas.width, y, total, "strong", "end")
        y += 6
        x = 0.0
        for place, series in enumerate(plot.series):
            value = value_at(series, index)
            if not value or value < 0:
                continue
            wide = axis.at(value)
            share = value / totals[index]
            tip = f"{series.name}: {value_text(value, plot.unit)}, {share_text(share)} of {total}"
            # A hair of ground between neighbours, where they are wide enough to spare it.
            canvas.bar(x, y, wide - (1.0 if wide > 3 else 0.0), _BAR, colors[place], tip)
            _label_segment(canvas, x, y, wide, series, value_text(value, plot.unit), colors[place])
            x += wide
        y += _BAR + _GAP - 4
    return _scale_below(canvas, axis, top, y, plot.unit)


def _label_segment(  # noqa: PLR0917 - a place and what stands there
    canvas: Canvas, x: float, y: float, wide: float, series: Series, value: str, colors: Sequence[str]
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


def _scale_below(canvas: Canvas, axis: Axis, top: float, y: float, unit: str) -> float:
    """A quiet axis under lying bars."""
    ticks = axis.ticks(110.0)
    canvas.line(0, y, canvas.width, y, "axis")
    reached = -1.0
    for value, text in zip(ticks, tick_texts(ticks), strict=True):
        x = axis.at(value)
        canvas.line(x, y, x, y + 4, "axis")
        words = f"{text} {unit}".rstrip() if value == ticks[-1] else text
        anchor = "start" if x < 12 else "end" if x > axis.end - text_width(words) / 2 else "middle"
        left = x - text_width(words) * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        if left > reached:
            canvas.text(x, y + 17, words, "dim", anchor)
            reached = left + text_width(words) + 8
    return y + 22


def draw_grouped(canvas: Canvas, plot: Plot) -> float:
    """A bar per label and series, with intervals. Returns how high the picture became."""
    many = len(plot.series) > 1
    y = draw_legend(canvas, plot.series, 12) if many else 0.0
    top = y
    ends = [
        value
        for series in plot.series
        for value in (*series.y, *series.high, 1.0 if plot.unit == "x" else None)
        if value is not None
    ]
    words = [_bar_text(series, index, plot.unit) for series in plot.series for index in range(len(plot.labels))]
    room = min(max(map(text_width, words), default=0.0) + 12, canvas.width * 0.55)
    axis = Axis(0.0, max(ends, default=0.0) or 1.0, 0.0, canvas.width - room)
    colors = series_colors(plot.series)
    bar = _THIN_BAR if many else _BAR - 6
    rows: list[tuple[float, int, int]] = []
    for index, label in enumerate(plot.labels):
        y += LINE
        canvas.text(0, y, shortened(label, canvas.width))
        y += 8
        for place in range(len(plot.series)):
            rows.append((y, index, place))
            y += bar + 4
        y += _GAP - 6
    if plot.unit == "x":
        canvas.line(axis.at(1.0), top + 8, axis.at(1.0), y, "reference")
    for at, index, place in rows:
        _draw_bar(canvas, plot, axis, (at, bar), index, place, colors[place])
    return _scale_below(canvas, axis, top, y, "" if plot.unit == "x" else plot.unit)


def _draw_bar(  # noqa: PLR0917 - one bar of a group
    canvas: Canvas, plot: Plot, axis: Axis, at: tuple[float, float], index: int, place: int, colors: Sequence[str]
) -> None:
    series, (y, bar) = plot.series[place], at
    value = value_at(series, index)
    words = _bar_text(series, index, plot.unit)
    reach = 0.0
    if value is not None:
        reach = axis.at(max(value, 0.0))
        canvas.bar(0, y, max(reach, 0.8), bar, colors, f"{series.name}: {words}")
        low, high = ends_at(series, index)
        if low is not None and high is not None:
            canvas.whisker(axis.at(max(low, 0.0)), axis.at(max(high, 0.0)), y + bar / 2)
            reach = max(reach, axis.at(high))
    canvas.text(reach + 8, y + bar / 2 + 4.2, shortened(words, canvas.width - reach - 8), "small halo")


def _interval(ends: tuple[float, float], unit: str) -> str:
    """Beside a value that says the unit."""
    return interval_text(ends, unit).removesuffix(f" {unit}") if unit != "x" else interval_text(ends)


def _bar_text(series: Series, index: int, unit: str) -> str:
    low, high = ends_at(series, index)
    said = value_text(value_at(series, index), unit)
    return said if low is None or high is None else f"{said} {_interval((low, high), unit)}"
