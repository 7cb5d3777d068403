"""Badges say where figures come from: what only counts a report's own rows, or describes a model, carries none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from evprof.export.report.data import ReportData, Source, gather
from evprof.export.report.figures import rows_cell
from evprof.export.report.parts import Badge, Cell, Section, Table
from evprof.export.report.sections.environment import commands
from evprof.export.report.writing import SECTIONS

COUNTS = {"n", "runs", "samples", "rows", "parameters", "finished", "did not", "pairs", "answers compared"}
"""Heads of columns that count what stands behind figures, or describe a model."""


@pytest.fixture(params=[True, False], ids=["imported", "measured"])
def data(cell_runs: ModuleType, request: pytest.FixtureRequest) -> ReportData:
    """Document 002's configurations, and one row that failed, read from a file or made here."""
    cells = [replace(cell, is_imported=request.param) for cell in (cell_runs.DRAFT_002, cell_runs.TARGET_002)]
    runs = [run for place, cell in enumerate(cells) for run in cell.runs(1 + 100 * place)]
    (failed,) = cells[0].with_(samples=1).runs(900)
    failed.info.status, failed.info.error = "failed", "out of memory"
    return gather([Source(Path("s.evprof"), [*runs, failed], {}, {})])


def cells_of(section: Section) -> list[tuple[str, Cell]]:
    return [
        (head, cell)
        for block in section.blocks
        if isinstance(block, Table)
        for row in block.rows
        for head, cell in zip(block.heads, row, strict=True)
    ]


def test_counts_of_rows_carry_no_badge(data: ReportData) -> None:
    counted = [
        (section.title, head, cell)
        for section in (make(data) for make in SECTIONS)
        for head, cell in cells_of(section)
        if head in COUNTS and cell.text[:1].isdigit()
    ]
    assert len({title for title, _, _ in counted}) >= 5
    assert [(title, head, cell.text) for title, head, cell in counted if cell.badge is not None] == []


def test_nothing_of_a_file_is_called_measured_here(cell_runs: ModuleType) -> None:
    runs = [*cell_runs.DRAFT_002.runs(1), *cell_runs.TARGET_002.runs(101)]
    found = gather([Source(Path("s.evprof"), runs, {}, {})])
    told = [
        (section.title, head, cell)
        for section in (make(found) for make in SECTIONS)
        for head, cell in cells_of(section)
    ]
    assert [entry for entry in told if entry[2].badge is Badge.MEASURED] == []


def test_a_count_of_nothing_is_said_to_be_none() -> None:
    assert rows_cell(193) == Cell("193")
    assert rows_cell(None).text == "n/a (n = 0)"


def test_a_command_is_told_once(cell_runs: ModuleType) -> None:
    """A suite's reports are made again by the suite itself."""
    suite = "evprof suite stages scenes.csv -o stages"
    runs = cell_runs.Cell(is_imported=False).runs()
    source = Source(Path("stages/session.evprof"), runs, {}, {"suite": {"command": suite}})
    assert commands(gather([source], command=suite)) == [suite]
    other = "evprof report stages/session.evprof -o r.html"
    assert commands(gather([source], command=other)) == [suite, other]
