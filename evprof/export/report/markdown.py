"""A report as Markdown that GitHub and its like show as tables; every text is escaped, whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable

from evprof.core.safe_text import one_line, plain
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
from evprof.export.report.plots.bars import plot_text

MARKS: dict[Badge, str] = {Badge.MEASURED: "ᵐ", Badge.DERIVED: "ᵈ", Badge.THEORETICAL: "ᵗ", Badge.IMPORTED: "ⁱ"}
"""The letter after a figure."""

SYMBOLS = {"good": "▲", "bad": "▼", "warn": "⚠"}
"""Tones as characters."""

MEANINGS: dict[Badge, str] = {
    Badge.MEASURED: "clocked or counted in a run, or a mean of such",
    Badge.DERIVED: "computed from measured figures",
    Badge.THEORETICAL: "from shapes, formulas or published peaks alone",
    Badge.IMPORTED: "read from a file that another program wrote",
}
"""Badges in the legend's words."""

# Numbers are most of a report and stay as they are: only what can be markup is escaped, where it can be.
_SPECIAL = re.compile(r"([\\`*<>|~&$]|(?<![^\W_])_|_(?![^\W_])|\](?=[\[(:]))")
# What begins a list, a rule or a heading only does so at the start of a line.
_LEADING = re.compile(r"^(\d*)([-+=#.)])(?=[\s#=-]|$)")
_LINK = re.compile(r"(?i)\b(https?|ftp|mailto|www)([:.])")


def markdown(report: Report) -> str:
    """The whole document, ending in a newline."""
    lines = [f"# {escaped(report.title)}", ""]
    if report.summary:
        lines += [escaped(report.summary), ""]
    if report.warning:
        lines += [_paragraph(Paragraph(report.warning, "warn")), ""]
    lines += [f"- **{escaped(name)}:** {escaped(text)}" for name, text in report.facts]
    legend = ", ".join(f"{MARKS[badge]} {badge} ({MEANINGS[badge]})" for badge in Badge)
    lines += [
        "",
        f"Every figure says where it comes from: {legend}. n/a: not measured, with how many samples there were.",
    ]
    for section in report.sections:
        lines += ["", *_section(section)]
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section) -> list[str]:
    lines = [f"## {escaped(section.title)}", ""]
    if section.missing:
        lines += [f"Not measured. {escaped(section.missing)}", ""]
    notes = _Notes()
    for block in section.blocks:
        lines += [*_block(block, notes), ""]
    return [*lines, *notes.lines()][:-1]


class _Notes:
    """Notes of cells, numbered within a section; the same note is told once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, note: str) -> str:
        """The number to put after a cell; empty without a note."""
        if not note:
            return ""
        return f" ({self._numbers.setdefault(note, len(self._numbers) + 1)})"

    def lines(self) -> Iterable[str]:
        """All notes so far."""
        found = [f"({number}) {escaped(note)}  " for note, number in self._numbers.items()]
        return [*found, ""] if found else []


def _block(block: Block, notes: _Notes) -> list[str]:
    match block:
        case Heading():
            return [f"### {escaped(block.text)}"]
        case Paragraph():
            return [_paragraph(block)]
        case Bullets():
            return [f"- {escaped(item)}" for item in block.items]
        case Table():
            return _table(block, notes)
        case Verbatim():
            return fenced(block.text, block.language)
        case ReportPlot():
            return _plot(block)


def _paragraph(block: Paragraph) -> str:
    text = escaped(f"{block.text} {block.see}".rstrip()) + (f" {MARKS[block.badge]}" if block.badge else "")
    symbol = SYMBOLS.get(block.tone)
    return f"> {symbol} {text}" if symbol else text


def _table(table: Table, notes: _Notes) -> list[str]:
    lines = [f"**{escaped(table.caption)}**", ""] if table.caption else []
    rule = ["---" if place < table.text_columns else "---:" for place in range(len(table.heads))]
    lines += [_row(escaped(head) for head in table.heads), _row(rule)]
    lines += [_row(_cell(cell, notes) for cell in row) for row in table.rows]
    return lines


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _cell(cell: Cell, notes: _Notes) -> str:
    parts = (escaped(cell.text), SYMBOLS.get(cell.tone, ""), MARKS[cell.badge] if cell.badge else "")
    return " ".join(part for part in parts if part) + notes.mark(cell.note)


def _plot(plot: ReportPlot) -> list[str]:
    lines = [f"**{escaped(plot.title)}**", "", *fenced(plot_text(plot))]
    return [*lines, "", escaped(plot.caption)] if plot.caption else lines


def escaped(text: str) -> str:
    """One line in which nothing is markup: no table cell, tag, link, mention or emphasis comes out of a text."""
    shown = _SPECIAL.sub(r"\\\1", one_line(text))
    shown = shown.replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")
    shown = _LINK.sub(lambda found: f"{found[1]}&#{ord(found[2])};", shown)
    return _LEADING.sub(r"\1\\\2", shown)


def fenced(text: str, language: str = "") -> list[str]:
    """A block of text as it is, in a fence that is longer than any within."""
    shown = plain(text)
    longest = max((len(found) for found in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    word = language if re.fullmatch(r"[a-z]*", language) else ""
    return [f"{fence}{word}", *shown.split("\n"), fence]
