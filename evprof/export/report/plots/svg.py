"""Plots as SVG: lying bars, stacked or in groups with intervals, and points with lines over linear or log axes.

Each is laid out for a given width, never only scaled: words keep their size, and what has no room is left out.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from evprof.export.report.figures import number_text
from evprof.export.report.parts import GROUPED, STACKED, ReportPlot
from evprof.export.report.plots.bar_plot import draw_grouped, draw_stacked
from evprof.export.report.plots.canvas import Canvas
from evprof.export.report.plots.plot_words import value_text
from evprof.export.report.plots.point_plot import draw_points

WIDE, NARROW = 720.0, 400.0
"""Widths a plot is laid out for: a page on a desk, and one on a telephone."""


def plot_svg(plot: ReportPlot, width: float, key: str) -> Element:
    """The plot, `width` units wide. `key` must differ from that of every other picture of the page."""
    canvas = Canvas(width, plot.title, description(plot), key)
    draw = draw_stacked if plot.kind == STACKED else draw_grouped if plot.kind == GROUPED else draw_points
    return canvas.finish(draw(canvas, plot))


def description(plot: ReportPlot) -> str:
    """The values in words, for who does not see the picture."""
    said = []
    for series in plot.series[:12]:
        named = plot.labels if plot.kind in (STACKED, GROUPED) else [number_text(x) for x in series.x]
        pairs = [f"{name}: {value_text(y, plot.unit)}" for name, y in zip(named, series.y, strict=False)][:24]
        said.append(f"{series.name}. {'; '.join(pairs)}")
    return ". ".join(said)
