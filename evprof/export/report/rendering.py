"""Reports as HTML or Markdown, by jinja2 templates. No text of a report becomes markup, whatever it holds.

Both environments escape every value that a template prints; `Markup` alone, made by macros and filters, passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.core.texts import one_line, plain
from evprof.export.report.parts import Badge, Cell, Paragraph, Report, Section, Table
from evprof.export.report.plots import plot_svg, plot_table, variables
from evprof.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

MARKS = {Badge.MEASURED: "ᵐ", Badge.DERIVED: "ᵈ", Badge.THEORETICAL: "ᵗ", Badge.IMPORTED: "ⁱ"}
"""The letter after a figure in Markdown."""

MEANINGS = {
    Badge.MEASURED: "clocked or counted in a run, or a mean of such",
    Badge.DERIVED: "computed from measured figures",
    Badge.THEORETICAL: "from shapes, formulas or published peaks alone",
    Badge.IMPORTED: "read from a file that another program wrote",
}

SYMBOLS = {"good": "▲", "bad": "▼", "warn": "⚠"}
"""Tones as characters."""

SHORT = 40
"""Characters of a cell that is never broken, so that its badge stays beside its text."""

_SPECIAL = re.compile(r"([\\`*<>|~&$]|(?<![^\W_])_|_(?![^\W_])|\](?=[\[(:]))")
_LEADING = re.compile(r"^(\d*)([-+=#.)])(?=[\s#=-]|$)")
_LINK = re.compile(r"(?i)\b(https?|ftp|mailto|www)([:.])")


def html(report: Report) -> str:
    """The report as one HTML file: no scripts, nothing fetched, light and dark."""
    return _page("report.html", report, environment())


def markdown(report: Report) -> str:
    """The report as Markdown that GitHub shows, ending in a newline."""
    return _page("report.md", report, _markdown_environment()).strip() + "\n"


def _page(template: str, report: Report, known: Environment) -> str:
    names = _anchors(section.title for section in report.sections)
    sections = [_Section(section, name) for section, name in zip(report.sections, names, strict=True)]
    warning = Paragraph(report.warning, "warn") if report.warning else None
    return known.get_template(template).render(
        report=report, sections=sections, warning=warning, badges=list(Badge), version=__version__
    )


class _Section:
    """A section while it is written: its anchor, its footnotes, and the names of its tables and pictures."""

    def __init__(self, section: Section, anchor: str) -> None:
        self.title, self.missing, self.blocks, self.anchor = section.title, section.missing, section.blocks, anchor
        self.notes: dict[str, int] = {}
        self._number = 0

    def note(self, text: str) -> int:
        """The number of a footnote; equal ones share it."""
        return self.notes.setdefault(text, len(self.notes) + 1)

    def next_name(self) -> str:
        self._number += 1
        return f"{self.anchor}--{self._number}"


@cache
def environment() -> Environment:
    """Templates of pages and notebooks; what they print is escaped, and hidden characters are shown by their number."""
    from markupsafe import Markup, escape

    made = _environment(lambda value: value if isinstance(value, Markup) else _line(value))
    made.filters |= {
        "verbatim": lambda text: escape(plain(text)),
        "svg": lambda plot, name: Markup(plot_svg(plot, name)),
        "grouped": _grouped,
        "heading_name": lambda text: f"h-{_anchors([text])[0]}",
    }
    made.globals |= {"variables": variables, "short": SHORT}
    return made


@cache
def _markdown_environment() -> Environment:
    from markupsafe import Markup

    made = _environment(lambda value: value if isinstance(value, Markup) else Markup(escaped(str(value))))
    made.filters |= {
        "fenced": lambda text, language="": Markup("\n".join(fenced(text, language))),
        "values": plot_table,
    }
    return made


def _environment(finalize: Callable[[Any], Any]) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["kind"] = lambda block: type(block).__name__
    made.globals |= {"meanings": MEANINGS, "symbols": SYMBOLS, "marks": MARKS}
    return made


def _line(value: object) -> str:
    # A line never begins with the dot between two parts of a name.
    return one_line(str(value)).replace(" · ", "\u00a0· ")


def _anchors(titles: Any) -> list[str]:
    """A name for each heading; no two are equal."""
    names: list[str] = []
    for title in titles:
        base = re.sub(r"[^a-z0-9]+", "-", title[:200].lower()).strip("-") or "section"
        names.append(base if base not in names else f"{base}-{len(names)}")
    return names


def _grouped(table: Table) -> list[tuple[int, tuple[Cell, ...]]]:
    """The rows, each with how many rows its first cell spans; 0 where it belongs to the row above.

    A row belongs to the one above when its first cell is empty, or names the same where more columns are names.
    """
    continues: list[bool] = []
    name: Cell | None = None
    for row in table.rows:
        is_same = row[0] == name and table.text_columns > 1
        continues.append(bool(continues) and (not row[0].text or is_same))
        name = row[0] if row[0].text else name
    return [
        (0 if is_part else 1 + sum(1 for _ in takewhile(bool, continues[place + 1 :])), row)
        for place, (is_part, row) in enumerate(zip(continues, table.rows, strict=True))
    ]


def escaped(text: str) -> str:
    """One line of Markdown in which nothing is markup: no cell, tag, link, mention or emphasis comes out of a text."""
    shown = _SPECIAL.sub(r"\\\1", one_line(text))
    shown = shown.replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")
    shown = _LINK.sub(lambda match: f"{match[1]}&#{ord(match[2])};", shown)
    return _LEADING.sub(r"\1\\\2", shown)


def fenced(text: str, language: str = "") -> list[str]:
    """A block of text as it is, in a fence that is longer than any within."""
    shown = plain(text)
    longest = max((len(ticks) for ticks in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    word = language if re.fullmatch(r"[a-z]*", language) else ""
    return [f"{fence}{word}", *shown.split("\n"), fence]
