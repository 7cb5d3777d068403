"""Reports as Markdown: tables stay tables and texts stay texts, whatever is in them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from evprof.core.safe_text import plain
from evprof.export.report.markdown import escaped, fenced, markdown
from evprof.export.report.parts import (
    GROUPED,
    POINTS,
    STACKED,
    Badge,
    Bullets,
    Cell,
    Paragraph,
    PlotSeries,
    Report,
    ReportPlot,
    Section,
    Table,
    Verbatim,
)
from evprof.export.report.plots.bars import plot_text

HOSTILE = [
    "</script><script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "a | b\n| --- |\n| c |",
    "[click](http://example.invalid) ![x](y) [x]: z",
    "*bold* _it_ `code` ~~gone~~ # head $x$ &lt;",
    "\x00\x1b[31mred\x07 \u202eevil\u2066 \u200f\ufeff",
    "```\nout of the fence\n````",
    "- item",
    "1. item",
    "\ud800 half",
]


def table_of(text: str) -> Report:
    cells = (Cell(text), Cell("1.5 ms", Badge.MEASURED, "bad", text))
    return Report("R", sections=(Section("S", (Table(("name", "time"), (cells, cells), caption=text),)),))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_one_cell_of_one_row(text: str) -> None:
    lines = markdown(table_of(text)).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 4
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) == 3


@given(st.text(max_size=60))
def test_no_text_becomes_markup(text: str) -> None:
    shown = escaped(text)
    assert "\n" not in shown
    bare = re.sub(r"\\.", "x", shown)
    assert not set(bare) & set("<>`*|~$\\")
    assert not re.search(r"\]\(|\]\[|\]:", bare)
    assert not re.match(r"\s*(#{1,6}|[-+]|\d+[.)])(\s|$)", bare)
    assert not re.search(r"&(?!(lt|gt|amp|#\d+);)", bare)


@given(st.text(max_size=200))
def test_what_is_hidden_is_shown_by_its_number(text: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", plain(text))


def test_endless_texts_are_cut_with_a_note() -> None:
    shown = plain("x" * 10_000_000)
    assert len(shown) < 21_000
    assert shown.endswith("[9,980,000 more characters left out]")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_reader_of_markdown_finds_only_our_markup(text: str) -> None:
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])

    def kinds(word: str) -> list[str]:
        table = table_of(word).sections[0].blocks[0]
        section = Section(word, (Paragraph(word, "warn"), Paragraph(word), Bullets((word, word)), table))
        tokens = reader.parse(markdown(Report(word, word, ((word, word),), (section,))))
        found = [token for outer in tokens for token in (outer, *(outer.children or ()))]
        return [token.type for token in found if token.type not in {"text", "text_special"}]

    assert kinds(text) == kinds("word")


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_gets_out_of_a_fence(text: str) -> None:
    lines = fenced(text, "sh")
    fence = lines[-1]
    assert set(fence) == {"`"}
    assert lines[0] == f"{fence}sh"
    assert all(not line.startswith(fence) for line in lines[1:-1])


def test_notes_are_numbered_and_told_once() -> None:
    text = markdown(table_of("why"))
    assert text.count("▼ ᵐ (1)") == 2
    assert text.count("\n(1) why") == 1


def test_every_kind_of_block_is_set() -> None:
    stacked = ReportPlot(
        STACKED, "bars", (PlotSeries("vision", (), (1.0, 3.0)),), ("one", "two"), unit="ms", caption="mean"
    )
    blocks = (
        Paragraph("Careful.", "warn"),
        Paragraph("2.25×", badge=Badge.DERIVED),
        Bullets(("a", "b")),
        Verbatim("evprof run", "sh"),
        stacked,
    )
    text = markdown(Report("T", "S.", (("Device", "CPU"),), (Section("A", blocks), Section("B", missing="a GPU."))))
    for wanted in (
        "# T",
        "> ⚠ Careful.",
        "2.25× ᵈ",
        "- a\n- b",
        "```sh\nevprof run\n```",
        "## B\n\nNot measured. a GPU.",
    ):
        assert wanted in text
    assert "- **Device:** CPU" in text
    assert "\n\n\n" not in text


def test_bars_are_as_long_as_their_values() -> None:
    series = (PlotSeries("a", (), (10.0, 30.0)), PlotSeries("b", (), (10.0, None)))
    lines = plot_text(ReportPlot(STACKED, "t", series, ("x", "y"), unit="ms")).splitlines()
    assert (lines[0].count("█"), lines[0].count("▓")) == (16, 16)
    assert (lines[1].count("█"), lines[1].count("▓")) == (48, 0)
    assert lines[0].endswith("20.00 ms")
    grouped = plot_text(
        ReportPlot(GROUPED, "t", (PlotSeries("r", (), (2.0, None), low=(1.5,), high=(2.5,)),), ("x", "y"), unit="x")
    )
    assert grouped.splitlines()[0].endswith("2.00× [1.50, 2.50]")
    assert grouped.splitlines()[1].endswith("n/a")


def test_points_are_a_table_over_all_places() -> None:
    plot = ReportPlot(
        POINTS,
        "t",
        (PlotSeries("m", (1.0, 8.0), (597.0, 4629.0)), PlotSeries("fit", (8.0,), (4600.0,))),
        x_title="frames",
    )
    rows = [line.split() for line in plot_text(plot).splitlines()[2:]]
    assert rows == [["frames", "m", "fit"], ["1.000", "597.0", "·"], ["8.000", "4,629", "4,600"]]
