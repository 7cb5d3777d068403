"""Plots of reports, drawn with matplotlib: horizontal bars, points and lines.

`figure_of` gives a matplotlib figure in the colours of the light theme, which saves as SVG, PDF or PNG. `plot_svg`
gives SVG to set into a page, whose colours are CSS variables, so that one picture suits both themes.
matplotlib is imported when a plot is drawn.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from io import StringIO
from itertools import cycle
from typing import TYPE_CHECKING, Any

from evprof.core.records import COVERS
from evprof.core.texts import one_line
from evprof.export.report.figures import interval_text, number_text
from evprof.export.report.parts import (
    NOT_AVAILABLE,
    STACKED,
    Badge,
    Cell,
    PlotSeries,
    ReportPlot,
    Table,
    row_of,
)
from evprof.metrics.configurations.parts import UNATTRIBUTED
from evprof.view.colors import GROUND_DARK, GROUND_LIGHT, STAGE_COLORS_DARK, STAGE_COLORS_LIGHT, channels, ink_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FREE = ("decode", "prefill", "vision", "draft", "verify", "preprocess", "load")
"""The order in which series without a colour of their own get one."""

WIDTH_IN = 7.2
"""Width of a figure in inches: a page's text width, and 9-point text at it."""

_STYLE: Any = {
    "font.size": 9,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GROUND_LIGHT["text_dim"],
    "axes.labelcolor": GROUND_LIGHT["text_dim"],
    "text.color": GROUND_LIGHT["text"],
    "xtick.color": GROUND_LIGHT["text_dim"],
    "ytick.color": GROUND_LIGHT["text_dim"],
    "grid.color": GROUND_LIGHT["line"],
    "legend.frameon": False,
    "hatch.linewidth": 2.0,
}
Ends = tuple[float | None, float | None]
"""Of an interval; None where there is none."""

_ROLES = {"target": "verify", "draft": "draft"}
_MARKERS = "osD^vP"
_LONGEST_NAME, _LEGEND_WIDTH = 44, 110
"""Characters of a name, and of a line of the legend."""


def variables(is_dark: bool) -> dict[str, str]:
    """Every CSS variable of one theme: grounds, `--c-STAGE`, and `--on-STAGE`, the ink to write on it."""
    colors, ground = (STAGE_COLORS_DARK, GROUND_DARK) if is_dark else (STAGE_COLORS_LIGHT, GROUND_LIGHT)
    return (
        {f"--{name.replace('_', '-')}": color for name, color in ground.items()}
        | {"--group": _mixed(ground["line"], ground["text_dim"])}
        | {f"--c-{name}": color for name, color in colors.items()}
        | {f"--on-{name}": ink_on(color) for name, color in colors.items()}
    )


def _mixed(first: str, second: str) -> str:
    """The color halfway between two, as encoded."""
    pairs = zip(channels(first), channels(second), strict=True)
    return "#" + "".join(f"{round(127.5 * (one + other)):02x}" for one, other in pairs)


def plot_svg(plot: ReportPlot, key: str) -> str:
    """The plot as an `<svg>` element. `key` must differ from that of every other picture of the page."""
    with _style(key):
        stream = StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        _draw(plot).savefig(stream, format="svg", transparent=True, metadata=nothing)
    return _embedded(stream.getvalue(), plot.title, key)


def figure_of(plot: ReportPlot) -> Figure:
    """The plot as a matplotlib figure; `figure.savefig("plot.pdf")` writes it for a paper."""
    with _style(""):
        return _draw(plot)


@contextmanager
def _style(key: str) -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context({**_STYLE, "svg.hashsalt": f"evprof {key}"}), warnings.catch_warnings():
        # Names of any script may stand in a plot; the reader's fonts show them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _embedded(document: str, title: str, key: str) -> str:
    """An SVG document as an element of a page: without a prolog, sizes, styles and fonts of its own."""
    names = {color: name for name, color in variables(False).items() if not name.startswith("--on-")}
    view = re.search(r'viewBox="[-0-9. ]*"', document)
    body = re.sub(
        r"<defs>\s*<style.*?</style>\s*</defs>", "", document[document.index(">", document.index("<svg")) + 1 :]
    )
    body = re.sub(r"font-family: [^;\"]*;? ?", "", body)
    body = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", body)
    body = re.sub(r'\b(fill|stroke)="(#[0-9a-f]{6})"', r'style="\1: \2"', body)
    body = re.sub(r"#[0-9a-f]{6}\b", lambda color: f"var({names[color[0]]})" if color[0] in names else color[0], body)
    # Identifiers that are used (clips, hatches, markers) are told from those of other pictures.
    body = re.sub(r'(\bid="|"#|url\(#)(?=[a-z][0-9a-f]+\b)', lambda start: f"{start[1]}{key}-", body)
    head = f'<svg class="plot" role="img" {view[0] if view else ""} xmlns:xlink="http://www.w3.org/1999/xlink">'
    body = re.sub(r"\s*\n\s*", " ", body.strip())
    return f"{head}<title>{escape(one_line(title, 400))}</title>{body}"


def _axes(height_in: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    return figure, figure.subplots()


def _draw(plot: ReportPlot) -> Figure:
    return _draw_bars(plot) if plot.kind == STACKED else _draw_points(plot)


def _draw_bars(plot: ReportPlot) -> Figure:
    """One horizontal bar per label, from top to bottom; each series is a part of every bar."""
    figure, axes = _axes(0.9 + 0.36 * len(plot.labels))
    ends = [0.0] * len(plot.labels)
    for series, colors in zip(plot.series, series_colors(plot.series), strict=True):
        lengths = [(_finite(series.y[place]) or 0.0) if place < len(series.y) else 0.0 for place in range(len(ends))]
        bars = axes.barh(range(len(ends)), lengths, height=0.62, left=ends, **_fill(colors))
        bars.set_label(_short(series.name))
        ends = [end + length for end, length in zip(ends, lengths, strict=True)]
    for place, end in enumerate(ends):
        _note(axes, end, place, _value_text(end, plot.unit))
    axes.set_yticks(range(len(plot.labels)), [_short(label) for label in plot.labels])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.invert_yaxis()
    axes.set_ylabel(_short(plot.y_title))
    axes.set_xlabel(plot.unit)
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(_tick_text)
    if len(plot.series) > 1:
        _legend(figure, axes)
    return figure


def _note(axes: Axes, x: float, y: float, text: str) -> None:
    axes.annotate(text, (x, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)


def _draw_points(plot: ReportPlot) -> Figure:
    from matplotlib.ticker import LogLocator

    figure, axes = _axes(3.4)
    if plot.is_log:
        axes.set_xscale("log")
        axes.set_yscale("log")
    for number, (series, colors) in enumerate(zip(plot.series, series_colors(plot.series), strict=True)):
        color = STAGE_COLORS_LIGHT.get(colors[0] if colors else "load", GROUND_LIGHT["text_dim"])
        points = [
            (x, y, place)
            for place, (x, value) in enumerate(zip(series.x, series.y, strict=False))
            if (y := _finite(value)) is not None and math.isfinite(x) and (not plot.is_log or (x > 0 and y > 0))
        ]
        if series.is_line:
            points.sort()
            style = "--" if series.badge == Badge.THEORETICAL else "-"
            marks: dict[str, Any] = {"linestyle": style, "zorder": 1}
        else:
            marks = {"linestyle": "", "marker": _MARKERS[number % len(_MARKERS)], "markersize": 5}
        axes.plot([x for x, _, _ in points], [y for _, y, _ in points], color=color, label=_short(series.name), **marks)
        for x, _, place in points:
            low, high = _ends(series, place)
            if low is not None and high is not None and not series.is_line and (low > 0 or not plot.is_log):
                axes.plot([x, x], [low, high], color=color, linewidth=1.2, marker="_", markersize=5)
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.set_xlabel(_short(plot.x_title))
    axes.set_ylabel(
        f"{_short(plot.y_title)} ({plot.unit})" if plot.y_title and plot.unit else _short(plot.y_title or plot.unit)
    )
    for axis in (axes.xaxis, axes.yaxis):
        if plot.is_log:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
        axis.set_major_formatter(_tick_text)
        axis.set_minor_formatter("")
    if plot.series:
        _legend(figure, axes)
    return figure


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    lengths = [len(label) + 7 for label in labels]
    columns = len(labels) if sum(lengths) <= _LEGEND_WIDTH else max(1, _LEGEND_WIDTH // max(lengths))
    figure.legend(handles, labels, loc="outside upper left", ncols=columns, fontsize=8)


def series_colors(series: Sequence[PlotSeries]) -> list[tuple[str, ...]]:
    """The colours of each series by name: one, several for what covers several stages, () for unattributed time."""
    own = [_own_colors(entry) for entry in series]
    used = {name for colors in own for name in colors or ()}
    free = cycle([name for name in FREE if name not in used] or FREE)
    return [(next(free),) if colors is None else colors for colors in own]


def _own_colors(series: PlotSeries) -> tuple[str, ...] | None:
    """The stages that a series names: "vision+prefill" has two; None of others."""
    if UNATTRIBUTED in (series.color, series.name):
        return ()
    for name in (*([series.name.replace(" ", "")] if COVERS in series.name else []), series.color):
        parts = tuple(_ROLES.get(part, part) for part in name.split(COVERS))
        if all(part in STAGE_COLORS_LIGHT for part in parts):
            return parts
    return None


def _fill(colors: Sequence[str]) -> dict[str, Any]:
    """How a bar is filled: in one color, striped in two, hatched in none."""
    if not colors:
        return {"facecolor": "none", "edgecolor": GROUND_LIGHT["text_dim"], "hatch": "//////", "linewidth": 0.5}
    plain = {"facecolor": STAGE_COLORS_LIGHT[colors[0]], "linewidth": 0}
    return plain if len(colors) == 1 else plain | {"hatch": "//", "hatchcolor": STAGE_COLORS_LIGHT[colors[1]]}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _ends(series: PlotSeries, place: int) -> Ends:
    low = series.low[place] if place < len(series.low) else None
    high = series.high[place] if place < len(series.high) else None
    return low, high


def _short(text: str) -> str:
    line = one_line(text, 400)
    if len(line) > _LONGEST_NAME:
        # Names of one plot often begin alike.
        line = f"{line[: _LONGEST_NAME // 2]}…{line[1 - _LONGEST_NAME // 2 :]}"
    # matplotlib leaves names that begin with an underscore out of a legend.
    return f"\u200a{line}" if line.startswith("_") else line


def _tick_text(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"


def _value_text(value: float, unit: str) -> str:
    size = abs(value)
    digits = None if size < 0.1 else 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{number_text(value, digits)} {unit}".rstrip()


def plot_table(plot: ReportPlot) -> Table:
    """The values of a plot as a table, for Markdown."""
    if plot.kind == STACKED:
        rows = [
            row_of(label, *(_table_cell(series, place, plot.unit) for series in plot.series))
            for place, label in enumerate(plot.labels)
        ]
    else:
        places = sorted({x for series in plot.series for x in series.x})
        rows = [
            row_of(
                number_text(x),
                *(_table_cell(series, series.x.index(x), plot.unit) if x in series.x else "" for series in plot.series),
            )
            for x in places
        ]
    head = plot.x_title or plot.y_title
    return Table((head, *(series.name for series in plot.series)), tuple(rows), plot.title)


def _table_cell(series: PlotSeries, place: int, unit: str) -> Cell:
    value = series.y[place] if place < len(series.y) else None
    if value is None:
        return Cell(NOT_AVAILABLE, tone="dim")
    low, high = _ends(series, place)
    interval = f" {interval_text((low, high))}" if low is not None and high is not None else ""
    return Cell(f"{_value_text(value, unit)}{interval}", series.badge)
