"""What the window says of two runs that were not made alike: one line above the table, and none of others."""

from __future__ import annotations

import re
from typing import Any

from cell_runs import Cell
from evprof.metrics.figures.stages import END_TO_END
from evprof.view.columns import ShownModel
from ui.comparison.book import ComparisonBook
from ui.comparison.sheet import ComparisonSheet, sheet
from ui.runs.pair_figures import ComparisonPanel
from ui.style.theme import ThemeHolder

OURS = Cell(is_imported=False, samples=3, prompt=600, kv_bytes=1 << 20, model={"device": "cuda:0"})


def on(device: str, name: str = "cell") -> Cell:
    return OURS.with_(name=name, environment={"device": device, "torch": "2.11.0"})


def shown(*cells: Cell) -> ComparisonSheet:
    columns = [cell.column(1 + 10 * place) for place, cell in enumerate(cells)]
    book = ComparisonBook()
    book.show_session("", "open", tuple(run for column in columns for run in column.runs))
    return sheet(columns, 0, END_TO_END, book.sessions)


def panel_of(themes: ThemeHolder, *cells: Cell) -> ComparisonPanel:
    panel = ComparisonPanel(themes)
    first, second = (ShownModel(cell.runs(1 + place)[0], "target") for place, cell in enumerate(cells))
    panel.show_columns(first, second)
    return panel


def test_the_panel_says_it_above_its_table(themes: ThemeHolder) -> None:
    panel = panel_of(themes, on("NVIDIA H200"), on("NVIDIA A100"))
    assert re.fullmatch(r"The runs differ in device; \d of \d+ figures can be compared\.", panel.differences.text())
    assert panel.why.label.isHidden()
    panel.why.button.click()
    assert not panel.why.label.isHidden()
    assert panel.why.label.text().startswith("The runs differ in device (NVIDIA H200 or NVIDIA A100); only ")
    assert not panel.differences.isHidden()
    panel.resize(360, 700)
    panel.layout().activate()
    assert panel.differences.geometry().bottom() < panel.table.geometry().top()
    first = ShownModel(on("NVIDIA H200").runs()[0], "target")
    panel.show_columns(first, ShownModel(on("NVIDIA H200").runs(2)[0], "target"))
    assert panel.differences.isHidden()


def test_the_panel_says_nothing_within_one_run(themes: ThemeHolder) -> None:
    panel = ComparisonPanel(themes)
    run: Any = on("NVIDIA H200").runs()[0]
    panel.show_columns(ShownModel(run, "target"), ShownModel(run, "target"))
    assert panel.differences.isHidden()


def test_the_sheet_of_the_compare_window_begins_with_it() -> None:
    unlike = shown(on("NVIDIA H200"), on("NVIDIA A100", "other cell"))
    assert unlike.as_text().splitlines()[0] == unlike.differences != ""
    assert ", not called: the runs differ in " in unlike.why[0]
    alike = shown(on("NVIDIA H200"), on("NVIDIA H200", "other cell"))
    assert "The runs differ" not in alike.why[0]
    assert not alike.differences
