"""What a report is made of: sections of paragraphs, tables and plots. Values only; how they look is the writers'.

Every figure carries a badge that says where it comes from. Texts are plain: writers escape whatever they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class Badge(StrEnum):
    """Where a figure comes from."""

    MEASURED = "measured"
    """Clocked or counted in a run of ours, or a mean of such."""
    DERIVED = "derived"
    """Computed from measured figures: ratios, rates, fitted slopes, intervals."""
    THEORETICAL = "theoretical"
    """From shapes, formulas or published peaks alone."""
    IMPORTED = "imported"
    """Read from a file that another program wrote."""


NOT_AVAILABLE = "n/a"


@dataclass(frozen=True)
class Cell:
    """One cell of a table. `tone`: "good", "bad", "warn" or ""; `note` is told beside it (a tooltip, a footnote)."""

    text: str
    badge: Badge | None = None
    tone: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Heads and rows of one length. Columns after the first `text_columns` hold figures and are right-aligned."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    text_columns: int = 1

    def __post_init__(self) -> None:
        if any(len(row) != len(self.heads) for row in self.rows):
            raise ValueError(f"a row of the table '{self.caption}' is not as long as its heads")


ColumnsOf = Iterable[tuple[str, Callable[[T], Cell | str]]]
"""Heads of a table, each with what makes a cell, or its plain text, of an item."""


def table_of(items: Iterable[T], columns: ColumnsOf[T], caption: str = "", text_columns: int = 1) -> Table:
    """A table with a row for every item, and a column for every head."""
    listed = tuple(columns)
    rows = tuple(tuple(_cell(of_item(item)) for _, of_item in listed) for item in items)
    return Table(tuple(head for head, _ in listed), rows, caption, text_columns)


def _cell(made: Cell | str) -> Cell:
    return Cell(made) if isinstance(made, str) else made


@dataclass(frozen=True)
class Paragraph:
    """Sentences. `tone` "warn": what a reader must not overlook; `see` is the heading of a report that they lead to."""

    text: str
    tone: str = ""
    badge: Badge | None = None
    see: str = ""


@dataclass(frozen=True)
class Heading:
    """What the blocks up to the next heading of a section are about."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

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
    of intervals, `is_line`: points are joined (a fit, a formula), otherwise drawn as points or bars.
    Points of one `family`, as the stages of one model, have one shape; without one each series has its own.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    color: str = ""
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    is_line: bool = False
    badge: Badge | None = None
    family: str = ""


STACKED, GROUPED, POINTS = "stacked", "grouped", "points"


@dataclass(frozen=True)
class ReportPlot:
    """A picture of series. `kind`: STACKED bars (lying, one per label, series are its parts), GROUPED bars (lying), or
    POINTS and lines over a numeric x. `labels` name the bars; `unit` is the values'."""

    kind: str
    title: str
    series: tuple[PlotSeries, ...]
    labels: tuple[str, ...] = ()
    x_title: str = ""
    y_title: str = ""
    unit: str = ""
    caption: str = ""
    is_log_x: bool = False
    is_log_y: bool = False


Block = Heading | Paragraph | Bullets | Table | Verbatim | ReportPlot


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it. `missing` says, instead of blocks, what would have to be measured."""

    title: str
    blocks: tuple[Block, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Report:
    """A whole report. `facts` are (name, text) pairs for the head: sources, dates, device; above them stands `warning`,
    what a reader must not overlook."""

    title: str
    summary: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = field(default_factory=tuple)
    warning: str = ""


def not_available(reason: str = "") -> Cell:
    """A cell for what was not measured; `reason` says why or how many samples there were."""
    return Cell(f"{NOT_AVAILABLE} {reason}".strip(), tone="dim")


def text_cells(texts: Sequence[str]) -> tuple[Cell, ...]:
    """Plain cells."""
    return tuple(Cell(text) for text in texts)
