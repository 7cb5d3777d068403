"""A report as one HTML file: no scripts, nothing fetched, every text escaped, light and dark.

The page is built as a tree, so that no text of a report can become markup; how it looks is the style sheet's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from xml.etree.ElementTree import Element, SubElement, tostring

from evprof.core.safe_text import one_line, plain
from evprof.export.report.markdown import MEANINGS, SYMBOLS
from evprof.export.report.parts import (
    Badge,
    Block,
    Bullets,
    Cell,
    Heading,
    Paragraph,
    Report,
    ReportPlot,
    Section,
    Table,
    Verbatim,
)
from evprof.export.report.plots.svg import NARROW, WIDE, plot_svg
from evprof.export.report.stylesheet import stylesheet
from evprof.version import __version__

# A page that needs nothing says so: even markup that slipped in could load or run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


SHORT = 40
"""Characters of a cell that is never broken, lest its badge stand on a line of its own."""


def html(report: Report) -> str:
    """The whole document."""
    return _Page(report).text()


class _Page:
    """One page being built; counts pictures and headings, whose names must differ."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._pictures = 0

    def text(self) -> str:
        root = Element("html", {"lang": "en"})
        self._head(SubElement(root, "head"))
        body = SubElement(root, "body")
        _themes(body)
        page = SubElement(body, "div", {"class": "page"})
        _title(SubElement(page, "header"), self._report)
        names = _anchors(section.title for section in self._report.sections)
        _contents(page, list(zip(names, self._report.sections, strict=True)))
        main = SubElement(page, "main")
        for name, section in zip(names, self._report.sections, strict=True):
            self._section(main, name, section)
        footer = SubElement(page, "footer")
        footer.text = f"Written by evprof {__version__}."
        return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"

    def _head(self, head: Element) -> None:
        SubElement(head, "meta", {"charset": "utf-8"})
        SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
        SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
        SubElement(head, "meta", {"name": "generator", "content": f"evprof {__version__}"})
        SubElement(head, "title").text = one_line(self._report.title, 200)
        SubElement(head, "style").text = stylesheet()

    def _section(self, main: Element, name: str, section: Section) -> None:
        place = SubElement(main, "section")
        _add(place, "h2", section.title, {"id": name})
        if section.missing:
            paragraph = SubElement(place, "p", {"class": "missing"})
            paragraph.text = f"Not measured. {one_line(section.missing)}"
        anchors = _Anchors(name)
        for block in section.blocks:
            self._block(place, block, anchors)
        anchors.write_notes(place)

    def _block(self, place: Element, block: Block, anchors: _Anchors) -> None:
        match block:
            case Heading():
                _add(place, "h3", block.text, {"id": _heading_name(block.text)})
            case Paragraph():
                _paragraph(place, block)
            case Bullets():
                listed = SubElement(place, "ul")
                for item in block.items:
                    _add(listed, "li", item)
            case Table():
                _table(place, block, anchors)
            case Verbatim():
                kind = {} if block.language == "sh" else {"class": "wrap"}
                SubElement(place, "pre", kind | {"dir": "ltr"}).text = plain(block.text)
            case ReportPlot():
                self._plot(place, block)

    def _plot(self, place: Element, plot: ReportPlot) -> None:
        self._pictures += 1
        figure = SubElement(place, "figure")
        _add(figure, "figcaption", plot.title)
        for name, width in (("wide", WIDE), ("narrow", NARROW)):
            picture = plot_svg(plot, width, f"p{self._pictures}{name[0]}")
            picture.set("class", f"plot {name}")
            figure.append(picture)
        if plot.caption:
            _add(figure, "p", plot.caption, {"class": "caption"})


class _Anchors:
    """Names that elements of one section are pointed at by, and its notes, each told once.

    No text of a report stands in an attribute: what needs one is pointed at instead.
    """

    def __init__(self, section: str) -> None:
        self._section = section
        self._tables = 0
        self._notes: dict[str, int] = {}

    def next_table(self) -> str:
        """A name for one more table's caption."""
        self._tables += 1
        return f"{self._section}-table-{self._tables}"

    def mark(self, place: Element, note: str) -> None:
        """The number of a note, leading to it."""
        number = self._notes.setdefault(note, len(self._notes) + 1)
        link = SubElement(SubElement(place, "sup"), "a", {"href": f"#{self._section}-note-{number}"})
        link.text = str(number)

    def write_notes(self, place: Element) -> None:
        """All notes of the section."""
        if not self._notes:
            return
        listed = SubElement(place, "ol", {"class": "notes"})
        for note, number in self._notes.items():
            _add(listed, "li", note, {"id": f"{self._section}-note-{number}"})


def _add(place: Element, tag: str, text: str, attributes: dict[str, str] | None = None) -> Element:
    """An element with a text of the report in it; its direction is its own and changes nothing around it."""
    element = SubElement(place, tag, {**(attributes or {}), "dir": "auto"} if _turns(text) else attributes or {})
    # A line never begins with the dot between two parts of a name.
    element.text = one_line(text).replace(" · ", "\u00a0· ")
    return element


def _turns(text: str) -> bool:
    """Whether a text has letters of a script that is written from right to left."""
    return any("\u0590" <= character <= "\u08ff" or "\ufb1d" <= character <= "\ufefc" for character in text[:2000])


def _themes(body: Element) -> None:
    """Three radio buttons that need no script: the style sheet looks which one is checked."""
    place = SubElement(body, "div", {"class": "themes", "role": "group", "aria-label": "Theme"})
    for name in ("auto", "light", "dark"):
        attributes = {"type": "radio", "name": "theme", "id": f"theme-{name}"}
        SubElement(place, "input", attributes | ({"checked": ""} if name == "auto" else {}))
        SubElement(place, "label", {"for": f"theme-{name}"}).text = name


def _title(header: Element, report: Report) -> None:
    _add(header, "h1", report.title)
    if report.summary:
        _add(header, "p", report.summary, {"class": "lead"})
    if report.warning:
        _paragraph(header, Paragraph(report.warning, "warn"))
    facts = SubElement(header, "dl")
    for name, text in report.facts:
        pair = SubElement(facts, "div")
        _add(pair, "dt", name)
        _add(pair, "dd", text)
    legend = SubElement(header, "div", {"class": "legend"})
    for badge in Badge:
        entry = SubElement(legend, "span")
        SubElement(entry, "i", {"class": f"b {badge}"}).tail = f"{badge}: {MEANINGS[badge]}"


def _contents(page: Element, sections: list[tuple[str, Section]]) -> None:
    nav = SubElement(page, "nav", {"aria-label": "Contents"})
    SubElement(nav, "div", {"class": "caps"}).text = "Contents"
    listed = SubElement(nav, "ol")
    for name, section in sections:
        link = SubElement(SubElement(listed, "li"), "a", {"href": f"#{name}"})
        link.text = one_line(section.title)
        if section.missing:
            link.set("class", "dim")


def _anchors(titles: Iterable[str]) -> list[str]:
    """A name for each heading; no two are equal."""
    names: list[str] = []
    for title in titles:
        base = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        names.append(base if base not in names else f"{base}-{len(names)}")
    return names


def _heading_name(text: str) -> str:
    """The name of a heading within a section, told from those of sections."""
    return f"h-{_anchors([text])[0]}"


def _paragraph(place: Element, block: Paragraph) -> None:
    symbol = SYMBOLS.get(block.tone)
    if symbol is None:
        element = _add(place, "p", block.text, {"class": block.tone} if block.tone else {})
    else:
        element = SubElement(place, "p", {"class": f"callout {block.tone}"})
        SubElement(element, "span", {"class": "tone", "aria-hidden": "true"}).text = symbol
        _add(element, "span", block.text)
    if block.badge is not None:
        # Nothing is broken at this space: a badge never begins a line.
        last = element if symbol is None else element[-1]
        last.text = f"{last.text}\u00a0"
    _badge(element, block.badge)
    if block.see:
        element.text = f"{element.text} "
        _add(element, "a", block.see, {"href": f"#{_heading_name(block.see)}"})


def _badge(place: Element, badge: Badge | None) -> None:
    if badge is not None:
        SubElement(place, "i", {"class": f"b {badge}", "role": "img", "aria-label": str(badge), "title": str(badge)})


def _table(place: Element, table: Table, anchors: _Anchors) -> None:
    named = {"aria-label": "Table"}
    if table.caption:
        named = {"aria-labelledby": anchors.next_table()}
        _add(place, "p", table.caption, {"class": "head", "id": named["aria-labelledby"]})
    box = SubElement(place, "div", {"class": "scroll", "tabindex": "0", "role": "region"} | named)
    continued = _continued(table)
    element = SubElement(box, "table", {"class": "groups"} if any(continued) else {})
    marked = [any(row[index].badge for row in table.rows) for index in range(len(table.heads))]
    heads = SubElement(SubElement(element, "thead"), "tr")
    for index, head in enumerate(table.heads):
        is_figure = index >= table.text_columns
        kinds = ("n m" if marked[index] else "n") if is_figure else ""
        _add(heads, "th", head, {"scope": "col"} | ({"class": kinds} if kinds else {}))
    body = SubElement(element, "tbody")
    for number, row in enumerate(table.rows):
        line = SubElement(body, "tr")
        for index, cell in enumerate(row):
            if index == 0 and continued[number]:
                continue
            place = _cell(line, cell, index >= table.text_columns, marked[index], anchors)
            if index == 0:
                place.set("class", f"{place.get('class', '')} f".strip())
                if rows := sum(1 for _ in takewhile(bool, continued[number + 1 :])):
                    place.set("rowspan", str(rows + 1))


def _continued(table: Table) -> list[bool]:
    """Whether a row belongs to the one above: its first cell is empty, or names the same where more is named."""
    found: list[bool] = []
    name: Cell | None = None
    for row in table.rows:
        is_same = row[0] == name and table.text_columns > 1
        found.append(bool(found) and (not row[0].text or is_same))
        name = row[0] if row[0].text else name
    return found


def _cell(line: Element, cell: Cell, is_figure: bool, has_badges: bool, anchors: _Anchors) -> Element:
    is_short = cell.badge is not None and not is_figure and len(cell.text) < SHORT
    kinds = [kind for kind, holds in (("n", is_figure), ("s", is_short), (cell.tone, bool(cell.tone))) if holds]
    element = _add(line, "td", cell.text, {"class": " ".join(kinds)} if kinds else {})
    if symbol := SYMBOLS.get(cell.tone):
        SubElement(element, "span", {"class": "tone"}).text = symbol
    if cell.note:
        anchors.mark(element, cell.note)
    if cell.badge is not None:
        _badge(element, cell.badge)
    elif is_figure and has_badges:
        # Figures of a column end at the same place, marked or not.
        SubElement(element, "i", {"class": "none"})
    return element
