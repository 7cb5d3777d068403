"""Reading the blocks of a report: its tables, their rows by name, and its sentences."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evprof.export.report.data import ReportData, Source, gather
from evprof.export.report.parts import Block, Bullets, Cell, Paragraph, ReportPlot, Section, Table

Blocks = Section | Iterable[Block]


def blocks_of(found: Blocks) -> list[Block]:
    return list(found.blocks if isinstance(found, Section) else found)


def tables(found: Blocks) -> list[Table]:
    return [block for block in blocks_of(found) if isinstance(block, Table)]


def plots(found: Blocks) -> list[ReportPlot]:
    return [block for block in blocks_of(found) if isinstance(block, ReportPlot)]


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def rows_of(table: Table) -> dict[str, list[str]]:
    """First cell -> the texts of the others."""
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def column(table: Table, head: str) -> list[Cell]:
    return [row[table.heads.index(head)] for row in table.rows]


def said(found: Blocks) -> str:
    lines: list[str] = []
    for block in blocks_of(found):
        lines += [block.text] if isinstance(block, Paragraph) else block.items if isinstance(block, Bullets) else []
    return "\n".join(lines)


def data_of_cells(*cells: Any, facts: dict[str, Any] | None = None) -> ReportData:
    """The data of a session that holds the runs of these cells (`cell_runs`)."""
    runs = [run for place, cell in enumerate(cells) for run in cell.runs(1 + 100 * place)]
    return gather([Source(Path("s.evprof"), runs, {}, facts or {})])
