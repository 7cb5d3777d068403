"""Reports as HTML and Markdown: no text of a report becomes markup, and plots show the values they are given."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from evprof.core.texts import plain
from evprof.export.report.parts import (
    POINTS,
    STACKED,
    Badge,
    Bullets,
    Cell,
    Heading,
    Paragraph,
    PlotSeries,
    Report,
    ReportPlot,
    Section,
    Table,
    Verbatim,
)
from evprof.export.report.plots import figure_of, plot_svg, plot_table, variables
from evprof.export.report.rendering import escaped, fenced, html, markdown
from evprof.view.colors import contrast

VOID = {"meta", "input", "br", "link", "img"}
HOSTILE = [
    "</script></style></svg><script>alert(1)</script><img src=x onerror=alert(1)> \" ' & ]]> <!-- -->",
    "a | b\n| --- |\n| c |",
    "[click](http://example.invalid) ![x](y) [x]: z {{ 7 * 7 }} {% raw %}",
    "*bold* _it_ `code` ~~gone~~ # head $x$ $\\frac{1}{2}$ &lt;",
    "\x00\x1b[31mred\x07 \u202eevil\u2066 \u200f\ufeff",
    "```\nout of the fence\n````",
    "- item",
    "1. item",
    "_hidden \ud800 half 一 \u05d0",
]


class Page(HTMLParser):
    """What a browser would find: tags with their attributes, and the text between them, style apart."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def report_of(text: str) -> Report:
    cell = Cell(text, Badge.MEASURED, "bad", text)
    plots = (
        ReportPlot(STACKED, text, (PlotSeries(text, (), (1.0, 2.0)),), (text, "b"), unit="ms", caption=text),
        ReportPlot(POINTS, text, (PlotSeries(text, (1.0,), (2.0,)),), x_title=text, y_title=text),
    )
    table = Table((text, "time"), ((Cell(text), cell), (Cell("z"), cell)), caption=text)
    warning = Paragraph(text, "warn", Badge.DERIVED, see=text)
    blocks = (Heading(text), Paragraph(text), warning, Bullets((text,)), table, Verbatim(text, "sh"), *plots)
    return Report(text, text, ((text, text),), (Section(text, blocks), Section(text, missing=text)), text)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup_of_html(text: str) -> None:
    word, hostile = Page(html(report_of("word"))), Page(html(report_of(text)))
    assert [tag for tag, _ in word.tags] == [tag for tag, _ in hostile.tags]
    assert [sorted(attributes) for _, attributes in word.tags] == [sorted(given) for _, given in hostile.tags]
    assert hostile.open == []
    assert not re.search(r"[\x00-\x08\x0e-\x1f\u202a-\u202e]", hostile.text)


def test_a_page_fetches_and_runs_nothing_and_names_are_its_own() -> None:
    document = html(report_of("see https://example.invalid/x.js ünsäglich"))
    page = Page(document)
    assert not {"script", "link", "iframe", "object", "embed", "img", "base", "form"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("href", "src", "action", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
        assert not any("ünsäglich" in (value or "") for value in attributes.values())
    assert "@import" not in document
    policy = page.named("meta")[1]["content"]
    assert policy.startswith("default-src 'none'")
    named = [str(attributes["id"]) for _, attributes in page.tags if "id" in attributes]
    used = [
        str(value)[1:] for _, attributes in page.tags for name, value in attributes.items() if name.endswith("href")
    ]
    used += re.findall(r"url\(#([^)]*)\)", document)
    used += [str(attributes["aria-labelledby"]) for attributes in page.named("div") if "aria-labelledby" in attributes]
    assert len(named) == len(set(named))
    assert set(used) <= set(named)


def test_notes_are_numbered_once_and_rows_without_a_name_belong_to_the_one_above() -> None:
    figure = Cell("1 ms", Badge.MEASURED, note="why")
    rows = ((Cell("a"), figure), (Cell(""), figure), (Cell("b"), figure))
    report = Report("R", sections=(Section("S", (Table(("n", "t"), rows),)), Section("S", missing="m")))
    page = Page(html(report))
    cells = page.named("td")
    assert [cell.get("rowspan") for cell in cells] == ["2", None, None, None, None]
    assert [cell["class"] for cell in cells] == ["f", "n", "n", "f", "n"]
    assert [attributes["id"] for attributes in page.named("h2")] == ["s", "s-1"]
    assert page.text.count("why") == 1
    text = markdown(report)
    assert text.count("1 ms ᵐ (1)") == 3
    assert text.count("\n(1) why") == 1


@pytest.mark.parametrize("write", [html, markdown])
def test_endless_texts_are_cut_and_the_same_report_is_the_same_page(write) -> None:
    assert len(write(report_of("<" * 10_000_000))) < 4_000_000
    assert write(report_of(HOSTILE[0])) == write(report_of(HOSTILE[0]))


@pytest.mark.parametrize("is_dark", [False, True])
def test_every_word_has_contrast_and_every_variable_is_defined(is_dark: bool) -> None:
    known = variables(is_dark)
    for word in ("--text", "--text-dim", "--accent", "--good", "--bad", "--warn"):
        assert contrast(known[word], known["--panel"]) >= 4.5, word
    for name, color in known.items():
        if name.startswith("--c-"):
            assert contrast(color, known[name.replace("--c-", "--on-")]) >= 4.5, name
            assert contrast(color, known["--panel"]) >= 3, name
    assert set(re.findall(r"var\((--[a-z-]+)\)", html(report_of("x")))) <= set(known)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_reader_of_markdown_finds_only_our_markup(text: str) -> None:
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])

    def kinds(word: str) -> list[str]:
        tokens = reader.parse(markdown(report_of(word)))
        found = [token for outer in tokens for token in (outer, *(outer.children or ()))]
        return [token.type for token in found if token.type not in {"text", "text_special"}]

    assert kinds(text) == kinds("word")
    lines = fenced(text, "sh")
    assert set(lines[-1]) == {"`"}
    assert lines[0] == f"{lines[-1]}sh"
    assert all(not line.startswith(lines[-1]) for line in lines[1:-1])


@given(st.text(max_size=60))
def test_no_text_becomes_markup_of_markdown(text: str) -> None:
    shown = escaped(text)
    assert "\n" not in shown
    bare = re.sub(r"\\.", "x", shown)
    assert not set(bare) & set("<>`*|~$\\")
    assert not re.search(r"\]\(|\]\[|\]:", bare)
    assert not re.match(r"\s*(#{1,6}|[-+]|\d+[.)])(\s|$)", bare)
    assert not re.search(r"&(?!(lt|gt|amp|#\d+);)", bare)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u200b\u200e\u200f\u202a-\u202e\ud800-\udfff]", plain(text))


def test_every_kind_of_block_is_set_in_markdown() -> None:
    plot = ReportPlot(
        STACKED, "bars", (PlotSeries("vision", (), (1.0, 3.0)),), ("one", "two"), unit="ms", caption="mean"
    )
    blocks = (
        Heading("Part"),
        Paragraph("Careful.", "warn"),
        Paragraph("2.25×", badge=Badge.DERIVED),
        Bullets(("a", "b")),
        Verbatim("evprof run", "sh"),
        plot,
        Table(("n", "t"), ((Cell("x"), Cell("1")),), "Times"),
    )
    text = markdown(Report("T", "S.", (("Device", "CPU"),), (Section("A", blocks), Section("B", missing="a GPU."))))
    for wanted in (
        "# T\n\nS.\n\n- **Device:** CPU\n\n",
        "## A\n\n### Part\n\n> ⚠ Careful.\n\n2.25× ᵈ\n\n- a\n- b\n\n```sh\nevprof run\n```\n\n",
        "**bars**\n\n|  | vision |\n| --- | ---: |\n| one | 1.00 ms |\n| two | 3.00 ms |\n\nmean\n\n",
        "**Times**\n\n| n | t |\n| --- | ---: |\n| x | 1 |\n\n## B\n\nNot measured. a GPU.\n",
    ):
        assert wanted in text


def test_a_plot_is_a_table_of_its_values_too() -> None:
    series = (PlotSeries("r", (), (2.0, None), low=(1.5,), high=(2.5,)),)
    table = plot_table(ReportPlot(STACKED, "t", series, ("x", "y"), unit="ms"))
    assert [[cell.text for cell in row] for row in table.rows] == [["x", "2.00 ms [1.50, 2.50]"], ["y", "n/a"]]
    points = (PlotSeries("m", (1.0, 8.0), (597.0, 4629.0)), PlotSeries("fit", (8.0,), (4600.0,)))
    table = plot_table(ReportPlot(POINTS, "t", points, x_title="frames"))
    assert table.heads == ("frames", "m", "fit")
    assert [[cell.text for cell in row] for row in table.rows] == [["1.000", "597", ""], ["8.000", "4,629", "4,600"]]


def test_stacked_bars_are_in_proportion_and_end_to_end() -> None:
    series = (
        PlotSeries("vision", (), (10.0, 30.0), color="vision"),
        PlotSeries("decode", (), (50.0, None), color="decode"),
    )
    axes = figure_of(ReportPlot(STACKED, "t", series, ("a", "b"), unit="ms")).axes[0]
    assert [[(bar.get_x(), bar.get_width()) for bar in bars] for bars in axes.containers] == [
        [(0.0, 10.0), (0.0, 30.0)],
        [(10.0, 50.0), (30.0, 0.0)],
    ]
    assert axes.get_xlabel() == "ms"
    assert [text.get_text() for text in axes.texts] == ["60.0 ms", "30.0 ms"]


def test_points_lie_where_their_values_are_and_axes_say_the_unit() -> None:
    series = (
        PlotSeries("m", (1.0, 8.0, 9.0), (0.5, None, float("nan")), low=(0.25,), high=(1.0,)),
        PlotSeries("fit", (8.0, 1.0), (2.0, 1.0), is_line=True, badge=Badge.THEORETICAL),
    )
    axes = figure_of(ReportPlot(POINTS, "t", series, x_title="frames", y_title="prefill", unit="ms")).axes[0]
    lines = [list(map(tuple, np.asarray(line.get_xydata()).tolist())) for line in axes.lines]
    assert lines == [[(1.0, 0.5)], [(1.0, 0.25), (1.0, 1.0)], [(1.0, 1.0), (8.0, 2.0)]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("frames", "prefill (ms)")
    assert axes.lines[-1].get_linestyle() == "--"


values = st.one_of(
    st.none(), st.floats(allow_nan=True, allow_infinity=True, width=32), st.sampled_from([0.0, 1e-12, 1e9])
)


@given(
    st.sampled_from([STACKED, POINTS]),
    st.lists(values, min_size=1, max_size=3),
    st.booleans(),
    st.text(max_size=9),
)
def test_no_values_break_a_plot(kind: str, given_values: list[float | None], is_log: bool, name: str) -> None:
    y = tuple(given_values)
    x = tuple(float(place) for place in range(len(y)))
    series = (PlotSeries(name, x, y, low=y, high=y), PlotSeries("vision+prefill", x, y[:1], is_line=True))
    plot = ReportPlot(kind, name, series, tuple(name for _ in y), is_log=is_log)
    assert Page(plot_svg(plot, "p-1")).open == []


def test_long_names_of_a_plot_that_begin_alike_stay_apart() -> None:
    names = [f"speculative · evprof-tiny-video-llava · drafter {name}" for name in ("lookup", "suffix", "self")]
    plot = ReportPlot(POINTS, "lines", tuple(PlotSeries(name, (1.0,), (2.0,)) for name in names))
    assert plot_table(plot).heads[1:] == tuple(names)
    legend = figure_of(plot).legends[0]
    assert len({text.get_text() for text in legend.get_texts()}) == 3
