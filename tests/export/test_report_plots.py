"""Plots as SVG: lengths tell values, words do not overlap, and nothing leaves the picture."""

from __future__ import annotations

import itertools
import math
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.export.report.parts import GROUPED, POINTS, STACKED, Badge, PlotSeries, ReportPlot
from evprof.export.report.plots.axes import Axis, fitted_axis, linear_ticks, tick_texts
from evprof.export.report.plots.canvas import shortened, text_width
from evprof.export.report.plots.palette import series_colors
from evprof.export.report.plots.svg import NARROW, WIDE, plot_svg

WIDTHS = (WIDE, NARROW)
LONG = "eight frames · side-by-side · a model with a name that goes on and on and on and never ends"


def bars_of(svg: Element, color: str) -> list[tuple[float, float]]:
    """(x, width) of the bars of a stage in order, those of the legend apart."""
    found = [rect for rect in svg.findall("rect") if rect.get("style") == f"fill:var(--c-{color})"]
    return [(float(rect.get("x", "0")), float(rect.get("width", "0"))) for rect in found if rect.get("height") != "10"]


def boxes_of(svg: Element) -> list[tuple[float, float, float, float]]:
    """Left, top, right, bottom of every word."""
    found = []
    for text in svg.findall("text"):
        wide, x, y = text_width(text.text or "", 11.0), float(text.get("x", "0")), float(text.get("y", "0"))
        left = x - wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "start")]
        found.append((left, y - 8, left + wide, y + 1))
    return found


def check_words(svg: Element, width: float) -> None:
    boxes = boxes_of(svg)
    height = float(svg.get("viewBox", "").split()[3])
    for left, top, right, bottom in boxes:
        assert -1 <= left <= right <= width * 1.03
        assert 0 <= top <= bottom <= height
    for one, other in itertools.combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)


@pytest.mark.parametrize("width", WIDTHS)
def test_stacked_bars_are_in_proportion_and_end_to_end(width: float) -> None:
    series = (
        PlotSeries("vision", (), (10.0, 30.0), color="vision"),
        PlotSeries("prefill", (), (40.0, None), color="prefill"),
        PlotSeries("decode", (), (50.0, 20.0), color="decode"),
    )
    svg = plot_svg(ReportPlot(STACKED, "t", series, (LONG, "b"), unit="ms"), width, "k")
    (v0, v1), (p0,), (d0, d1) = (bars_of(svg, name) for name in ("vision", "prefill", "decode"))
    assert (v0[0], v1[0]) == (0, 0)
    assert d0[0] + d0[1] + 1 == pytest.approx(width, abs=0.2)
    # A hair of ground lies between neighbours.
    assert p0[0] == pytest.approx(v0[1] + 1, abs=0.2)
    assert (p0[1] + 1) / (v0[1] + 1) == pytest.approx(4.0, rel=0.01)
    assert d1[0] == pytest.approx(v1[1] + 1, abs=0.2)
    check_words(svg, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_covers_several_stages_is_striped_and_what_no_stage_covers_hatched(width: float) -> None:
    series = (
        PlotSeries("vision + prefill", (), (40.0,), color="vision+prefill"),
        PlotSeries("unattributed", (), (5.0,), color="unattributed"),
    )
    svg = plot_svg(ReportPlot(STACKED, "t", series, ("a",), unit="ms"), width, "k")
    striped, hatched = svg.findall("defs/pattern")
    assert [rect.get("style") for rect in striped] == ["fill:var(--c-vision)", "fill:var(--c-prefill)"]
    assert [rect.get("style") for rect in hatched] == ["fill:var(--text-dim)"]


@pytest.mark.parametrize("width", WIDTHS)
def test_grouped_bars_have_their_intervals(width: float) -> None:
    series = (
        PlotSeries("total", (), (4.5, 1.0), low=(4.0, 0.9), high=(5.0, 1.1), color="prefill"),
        PlotSeries("prefill", (), (8.6, None), low=(8.5, None), high=(8.7, None), color="decode"),
    )
    svg = plot_svg(ReportPlot(GROUPED, "t", series, (LONG, "b"), unit="x"), width, "k")
    (_, first), (_, second) = bars_of(svg, "prefill")
    assert first / second == pytest.approx(4.5, rel=0.02)
    whiskers = [
        line for line in svg.findall("line") if line.get("class") == "whisker" and line.get("y1") == line.get("y2")
    ]
    ends = [(float(line.get("x1", "0")), float(line.get("x2", "0"))) for line in whiskers]
    assert ends[0][0] == pytest.approx(first * 4.0 / 4.5, abs=0.2)
    assert len(ends) == 3
    assert len([line for line in svg.findall("line") if line.get("class") == "reference"]) == 2
    assert any(text.text == "n/a" for text in svg.findall("text"))
    check_words(svg, width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("is_log", [False, True])
def test_points_lie_on_the_line_they_are_on(width: float, is_log: bool) -> None:
    x = (1.0, 2.0, 4.0, 8.0, 32.0)
    y = tuple(576.0 * at + 21 for at in x) if not is_log else tuple(600.0 * at for at in x)
    series = (
        PlotSeries("measured", x, y, color="target", low=tuple(v * 0.9 for v in y), high=tuple(v * 1.1 for v in y)),
        PlotSeries("fit", (x[0], x[-1]), (y[0], y[-1]), color="target", is_line=True, badge=Badge.THEORETICAL),
    )
    plot = ReportPlot(
        POINTS, "t", series, x_title="frames", y_title="length", unit="tokens", is_log_x=is_log, is_log_y=is_log
    )
    svg = plot_svg(plot, width, "k")
    line = svg.findall("polyline")[-1]
    assert line.get("class") == "curve dashed"
    (x0, y0), (x1, y1) = (tuple(map(float, pair.split(","))) for pair in line.get("points", "").split())
    marks = svg.findall("circle")[1:]
    assert len(marks) == 5
    for mark in marks:
        cx, cy = float(mark.get("cx", "0")), float(mark.get("cy", "0"))
        assert cy == pytest.approx(y0 + (cx - x0) * (y1 - y0) / (x1 - x0), abs=0.3)
    check_words(svg, width)


def test_points_of_one_model_have_one_shape_here_as_in_the_legend() -> None:
    """What is drawn first is the legend, then come the points, both in the order of the series."""
    stages = ("vision", "prefill", "decode")
    series = [
        PlotSeries(f"{model}: {stage}", (1.0 + at,), (2.0 + at,), stage, family=model)
        for model in ("small", "large")
        for at, stage in enumerate(stages)
    ]
    line = PlotSeries("ceiling", (1.0, 4.0), (2.0, 8.0), is_line=True)
    svg = plot_svg(ReportPlot(POINTS, "t", (line, *series)), 800, "k")
    marks = [(mark.tag, mark.get("style")) for mark in svg if mark.get("class") == "mark"]
    legend, drawn = marks[: len(series)], marks[len(series) :]
    assert legend == drawn
    assert [tag for tag, _ in legend] == ["circle"] * 3 + ["polygon"] * 3


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", [STACKED, GROUPED, POINTS])
def test_nothing_to_draw_is_no_error(kind: str, width: float) -> None:
    for series in (
        (),
        (PlotSeries("a", (), ()),),
        (PlotSeries("a", (1.0,), (None,)),),
        (PlotSeries("a", (0.0,), (0.0,)),),
    ):
        plot = ReportPlot(kind, "t", series, ("x",), is_log_x=True, is_log_y=True)
        assert plot_svg(plot, width, "k").get("viewBox")


@given(
    st.lists(
        st.tuples(st.text(max_size=40), st.lists(st.floats(0, 1e6), min_size=4, max_size=4)), min_size=1, max_size=5
    ),
    st.sampled_from([STACKED, GROUPED]),
    st.sampled_from(WIDTHS),
)
def test_words_of_bars_never_overlap(rows: list[tuple[str, list[float]]], kind: str, width: float) -> None:
    names = ("load", "preprocess", "vision", "decode")
    series = tuple(
        PlotSeries(name, (), tuple(values[place] for _, values in rows), color=name) for place, name in enumerate(names)
    )
    check_words(
        plot_svg(ReportPlot(kind, "t", series, tuple(label for label, _ in rows), unit="ms"), width, "k"), width
    )


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.booleans())
def test_ticks_are_round_few_and_within(low: float, span: float, is_log: bool) -> None:
    if is_log:
        low, high = abs(low) + 1e-6, (abs(low) + 1e-6) * (1 + span)
    else:
        high = low + span
    if not high > low * (1 + 1e-9) if low > 0 else high <= low:
        return
    axis = Axis(low, high, 0.0, 600.0, is_log)
    ticks = axis.ticks(60.0)
    assert len(ticks) <= 12
    assert ticks == sorted(set(ticks))
    assert all(-1 <= axis.at(tick) <= 601 for tick in ticks)
    assert len(tick_texts(ticks)) == len(ticks)


def test_ticks_read_as_people_write_them() -> None:
    assert tick_texts(linear_ticks(0, 860, 5)) == ["0", "200", "400", "600", "800"]
    assert tick_texts(linear_ticks(0, 1, 5)) == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert tick_texts([0, 5000, 10_000, 15_000]) == ["0", "5k", "10k", "15k"]
    assert tick_texts([1e9, 1e10, 1e11]) == ["1G", "10G", "100G"]
    assert tick_texts([1_000_001.0, 1_000_002.0]) == ["1,000,001", "1,000,002"]
    assert linear_ticks(0, 0.3, 3) == [0.0, 0.1, 0.2, 0.3]


def test_an_axis_has_room_for_all_and_begins_at_zero() -> None:
    axis = fitted_axis([3.0, 8.0], 0.0, 100.0)
    assert axis.low == 0
    assert axis.high > 8
    assert fitted_axis([3.0, 3000.0], 0.0, 100.0, is_log=True).low < 3
    assert fitted_axis([], 0.0, 100.0).high == 1
    assert fitted_axis([math.nan, 2.0], 0.0, 1.0).high > 2


def test_colours_name_stages_and_no_two_free_series_share_one() -> None:
    series = [
        PlotSeries(name, (), (), color=color)
        for name, color in (("a", "prefill"), ("b", ""), ("c", ""), ("d", "draft"))
    ]
    assert series_colors(series) == [("prefill",), ("decode",), ("vision",), ("draft",)]
    assert series_colors([PlotSeries("vision+prefill", (), (), color="prefill")]) == [("vision", "prefill")]
    assert series_colors([PlotSeries("x", (), (), color="unattributed")]) == [()]


def test_long_words_are_cut_to_their_room() -> None:
    cut = shortened(LONG, 120)
    assert cut.endswith("…")
    assert text_width(cut) <= 120
    assert shortened("short", 120) == "short"
    assert shortened("word", 2) == ""


def test_between_places_in_a_draft_there_is_nothing() -> None:
    assert fitted_axis([1.0, 2.0, 3.0, 5.0], 0.0, 600.0).ticks(40.0) == [0, 1, 2, 3, 4, 5]
    assert fitted_axis([0.5, 2.0], 0.0, 600.0).ticks(40.0)[1] < 1
    assert len(fitted_axis([0.0, 1.0], 0.0, 200.0).ticks(40.0)) >= 2
