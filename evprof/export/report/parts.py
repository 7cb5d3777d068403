"""What a report is made of: sections of paragraphs, tables and plots. Values only; `rendering` makes pages of them.

Every figure carries a badge that names its origin. Texts are plain: the templates escape them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from evprof.metrics.arithmetic.statistics import holm

T = TypeVar("T")

NOT_AVAILABLE = "n/a"


class Badge(StrEnum):
    """The origin of a figure."""

    MEASURED = "measured"
    """Clocked or counted in a run of evprof, or a mean of such."""
    DERIVED = "derived"
    """Computed from measured figures: ratios, rates, fitted slopes, intervals."""
    THEORETICAL = "theoretical"
    """From shapes, formulas or published peaks alone."""
    IMPORTED = "imported"
    """Read from a file that another program wrote."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table. `tone` is "good", "bad", "warn", "dim" or ""; `note` becomes a footnote of the section. `p`
    is how often sides without a difference are as far apart."""

    text: str
    badge: Badge | None = None
    tone: str = ""
    note: str = ""
    p: float | None = None


CellOf = Callable[[T], Cell | str]
ColumnsOf = Iterable[tuple[str, CellOf[T]]]
"""Heads of a table, each with what makes a cell, or its plain text, of an item."""


@dataclass(frozen=True)
class Table:
    """Heads and rows of one length. Columns after the first `text_columns` hold figures and are right-aligned.

    Cells with a `p` keep their tone by Holm's correction over the table.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    text_columns: int = 1

    def __post_init__(self) -> None:
        if any(len(row) != len(self.heads) for row in self.rows):
            raise ValueError(f"a row of the table '{self.caption}' is not as long as its heads")
        holds = iter(holm([cell.p for row in self.rows for cell in row if cell.p is not None]))
        rows = (
            (cell if cell.p is None or next(holds) else replace(cell, tone="") for cell in row) for row in self.rows
        )
        object.__setattr__(self, "rows", tuple(map(tuple, rows)))


def table_of(items: Iterable[T], columns: ColumnsOf[T], caption: str = "", text_columns: int = 1) -> Table:
    """A table with a row for every item and a column for every head."""
    listed = tuple(columns)
    rows = tuple(row_of(*(of_item(item) for _, of_item in listed)) for item in items)
    return Table(tuple(head for head, _ in listed), rows, caption, text_columns)


def row_of(*cells: Cell | str) -> tuple[Cell, ...]:
    """A row; texts become cells without a badge."""
    return tuple(Cell(cell) if isinstance(cell, str) else cell for cell in cells)


@dataclass(frozen=True)
class Paragraph:
    """Sentences. `tone` "warn" marks a warning; `see` is the heading of the report that they lead to."""

    text: str
    tone: str = ""
    badge: Badge | None = None
    see: str = ""


@dataclass(frozen=True)
class Heading:
    """The subject of the blocks up to the next heading of a section."""

    text: str


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Verbatim:
    """Text as it is: a command, a generated answer."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class PlotSeries:
    """One named row of values of a plot, `y[i]` at `x[i]`; None where nothing was measured.

    `color` names a stage ("prefill"), a role ("draft", "target") or "" (the next free one). `low` and `high` are ends
    of intervals. With `is_line` points are joined (a fit, a formula), otherwise drawn as points or bars.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    color: str = ""
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    is_line: bool = False
    badge: Badge | None = None


STACKED, POINTS = "stacked", "points"


@dataclass(frozen=True)
class ReportPlot:
    """A plot of series. `kind`: STACKED horizontal bars, one per label, whose parts are the series; or POINTS and lines
    over a numeric x. `labels` name the bars; `unit` is that of the values."""

    kind: str
    title: str
    series: tuple[PlotSeries, ...]
    labels: tuple[str, ...] = ()
    x_title: str = ""
    y_title: str = ""
    unit: str = ""
    caption: str = ""
    is_log: bool = False


def points_plot(
    title: str, series: Iterable[PlotSeries], x_title: str, y_title: str, *, unit: str = "", caption: str = ""
) -> ReportPlot:
    """Points and lines over a numeric x."""
    return ReportPlot(POINTS, title, tuple(series), (), x_title, y_title, unit, caption)


Block = Heading | Paragraph | Bullets | Table | Verbatim | ReportPlot


@dataclass(frozen=True)
class Section:
    """A heading and its blocks. `missing` says, instead of blocks, what would have to be measured."""

    title: str
    blocks: tuple[Block, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Report:
    """A whole report. `facts` are (name, text) pairs for the head, below the `warning`."""

    title: str
    summary: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    warning: str = ""


def not_available(reason: str = "") -> Cell:
    """A cell for what was not measured."""
    return Cell(f"{NOT_AVAILABLE} {reason}".strip(), tone="dim")


def headed(title: str, blocks: Iterable[Block]) -> list[Block]:
    """The blocks under a heading of their own; nothing without blocks."""
    listed = list(blocks)
    return [Heading(title), *listed] if listed else []


def section_of(title: str, blocks: Iterable[Block], missing: str) -> Section:
    """A section of these blocks; without any it says what is missing."""
    listed = tuple(blocks)
    return Section(title, listed) if listed else Section(title, missing=missing)
