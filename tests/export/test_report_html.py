"""Reports as HTML: one file that needs nothing, in which no text is markup and every word can be read."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.export.report.html import html
from evprof.export.report.parts import (
    GROUPED,
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
from evprof.export.report.plots.palette import variables
from evprof.export.report.stylesheet import stylesheet
from evprof.view.colors import contrast

VOID = {"meta", "input", "br", "link", "img"}
HOSTILE = (
    "</script></style><script>alert(1)</script><img src=x onerror=alert(1)> \" ' & \x00\x1b \u202eevil ]]> <!-- -->"
)


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
    plot = ReportPlot(GROUPED, text, (PlotSeries(text, (), (1.0, 2.0)),), (text, "b"), unit="ms", caption=text)
    table = Table((text, "time"), ((Cell(text), cell), (Cell(""), cell)), caption=text)
    blocks = (
        Paragraph(text),
        Paragraph(text, "warn", Badge.DERIVED),
        Bullets((text,)),
        table,
        Verbatim(text, "sh"),
        plot,
    )
    return Report(text, text, ((text, text),), (Section(text, blocks), Section(text, missing=text)))


def test_no_text_becomes_markup() -> None:
    plain, hostile = Page(html(report_of("word"))), Page(html(report_of(HOSTILE)))
    assert [tag for tag, _ in plain.tags] == [tag for tag, _ in hostile.tags]
    assert [sorted(attributes) for _, attributes in plain.tags] == [sorted(given) for _, given in hostile.tags]
    assert hostile.open == []
    assert "<script>alert(1)</script>" in hostile.text
    assert "⟨U+0000⟩⟨U+001B⟩" in hostile.text


@given(st.text(max_size=80))
def test_every_text_leaves_the_same_tags(text: str) -> None:
    page = Page(html(report_of(text)))
    # A first cell that is empty belongs to the one above it, and a paragraph may be told to turn around.
    kept = [tag for tag, _ in page.tags if tag not in ("td", "dd", "dt")]
    shown = [tag for tag, _ in Page(html(report_of("word"))).tags if tag not in ("td", "dd", "dt")]
    assert page.open == []
    assert set(kept) <= set(shown)
    assert not re.search(r"[\x00-\x08\x0e-\x1f\u202a-\u202e]", page.text)


def test_the_page_fetches_and_runs_nothing() -> None:
    document = html(report_of("see https://example.invalid/x.js"))
    page = Page(document)
    assert not {"script", "link", "iframe", "object", "embed", "img", "base", "form"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("href", "src", "action"):
            assert (attributes.get(name) or "#").startswith("#")
    assert "@import" not in document
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", document))
    policy = page.named("meta")[1]["content"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_every_section_can_be_reached_by_its_own_name() -> None:
    sections = tuple(Section("Stages", missing="m") for _ in range(3))
    page = Page(html(Report("R", sections=sections)))
    names = [attributes["id"] for attributes in page.named("h2")]
    assert len(set(names)) == 3
    assert [attributes["href"] for attributes in page.named("a")] == [f"#{name}" for name in names]


def test_every_note_and_caption_pointed_at_is_there() -> None:
    cells = (Cell("a"), Cell("1 ms", Badge.MEASURED, note="why"), Cell("2 ms", Badge.MEASURED, note="how"))
    table = Table(("n", "t", "u"), (cells, cells), caption="Times")
    page = Page(html(Report("R", sections=(Section("S", (table, table)), Section("S", (table,))))))
    named = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    links = [str(attributes["href"]) for attributes in page.named("a")]
    assert len(named) == len(set(named))
    assert {link[1:] for link in links} <= set(named)
    assert len(links) == 2 + 2 * 2 * 3
    boxes = [attributes["aria-labelledby"] for attributes in page.named("div") if "aria-labelledby" in attributes]
    assert len(set(boxes)) == 3
    assert set(boxes) <= set(named)


def test_no_text_of_a_report_stands_in_an_attribute() -> None:
    page = Page(html(report_of("ünsäglich")))
    assert not any("ünsäglich" in (value or "") for _, attributes in page.tags for value in attributes.values())


def test_no_two_elements_have_one_id_and_every_pattern_is_there() -> None:
    plots = tuple(
        ReportPlot(
            "stacked",
            "t",
            (PlotSeries("a", (), (1.0,), color="vision+prefill"), PlotSeries("u", (), (1.0,), color="unattributed")),
            ("x",),
        )
        for _ in range(2)
    )
    document = html(Report("R", sections=(Section("S", plots),)))
    ids = re.findall(r'\bid="([^"]*)"', document)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r"url\(#([^)]*)\)", document))
    assert len(used) == 8
    assert used <= set(ids)


def test_rows_without_a_name_belong_to_the_one_above() -> None:
    figure = Cell("1 ms", Badge.MEASURED)
    rows = ((Cell("a"), figure), (Cell(""), figure), (Cell("b"), figure))
    page = Page(html(Report("R", sections=(Section("S", (Table(("n", "t"), rows),)),))))
    cells = page.named("td")
    assert [cell.get("rowspan") for cell in cells] == ["2", None, None, None, None]
    assert [cell["class"] for cell in cells] == ["f", "n", "n", "f", "n"]


def test_rows_that_name_the_same_and_more_are_one_group() -> None:
    names = (("a", "vision"), ("a", "decode"), ("b", "vision"))
    rows = tuple((Cell(name), Cell(stage), Cell("1 ms", Badge.MEASURED)) for name, stage in names)
    for text_columns, cells in ((2, 8), (1, 9)):
        table = Table(("n", "s", "t"), rows, text_columns=text_columns)
        assert len(Page(html(Report("R", sections=(Section("S", (table,)),)))).named("td")) == cells


def test_endless_texts_are_cut() -> None:
    assert len(html(report_of("<" * 10_000_000))) < 3_000_000


def test_the_same_report_is_the_same_page() -> None:
    assert html(report_of(HOSTILE)) == html(report_of(HOSTILE))


@pytest.mark.parametrize("is_dark", [False, True])
def test_every_word_has_contrast(is_dark: bool) -> None:
    known = variables(is_dark)
    words = ("--text", "--text-dim", "--accent", "--good", "--bad", "--warn")
    for word, ground in product(words, ("--panel",)):
        assert contrast(known[word], known[ground]) >= 4.5, (word, ground)
    assert contrast(known["--text"], known["--raised"]) >= 4.5
    for name, color in known.items():
        if name.startswith("--c-"):
            assert contrast(color, known[name.replace("--c-", "--on-")]) >= 4.5, name
            assert contrast(color, known["--panel"]) >= 3, name


def test_every_variable_used_is_defined() -> None:
    sheet = stylesheet()
    assert set(re.findall(r"var\((--[a-z-]+)\)", sheet)) <= set(variables(False)) == set(variables(True))
    assert sheet.count("{") == sheet.count("}")
