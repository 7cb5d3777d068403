"""Suites and imports in the list of runs: one line per cell, its runs below it, thousands of them at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from benchmarks.part_files import write_results
from evprof.core.recording import RecordLog
from evprof.core.run_info import FAILED
from evprof.metrics.configurations.gathering import Configuration, typical_run
from evprof.run.legacy_import import import_files
from evprof.run.session_writer import SessionWriter
from evprof.session.opened import SessionSource
from ui.runs.run_list import RunList
from ui.state.cells import configuration_runs, typical_pair
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder
from ui.widgets.line_list import LINE, ListLine
from ui.window.main_window import MainWindow

AddRow = Callable[..., None]
Wait = Callable[..., None]

STAGES = {"load": 1.0, "preprocess": 2.0, "vision": 5.0, "prefill": 40.0, "decode": 60.0}


def _suite(add_row: AddRow, samples: int, cells: int = 2) -> RecordLog:
    """Side by side over samples and cells; sample 0 is warm-up, the last sample fails in the last cell."""
    recording = RecordLog()
    run_id = group = 0
    for sample in range(samples):
        for cell in range(cells):
            group += 1
            fails = sample == samples - 1 and cell == cells - 1
            for role in ("draft", "target"):
                run_id += 1
                longer = {name: took * (1 + sample / 100) * (1 + cell) for name, took in STAGES.items()}
                add_row(
                    recording,
                    run_id,
                    {"load": 1.0} if fails else longer,
                    cell=f"{2**cell} frames",
                    role=role,
                    mode="side-by-side",
                    sample=f"scene {sample}",
                    group=group,
                    warmup=sample == 0,
                    status=FAILED if fails else "finished",
                    error="No memory." if fails else None,
                )
    return recording


@pytest.fixture
def scripted_recording(add_row: AddRow) -> RecordLog:
    """Six samples in two cells of both models."""
    return _suite(add_row, 6)


@pytest.fixture
def shown(application, controller: RunController, selection: Selection, themes: ThemeHolder, keep) -> RunList:
    """The list over them."""
    made = RunList(selection, controller, themes)
    made.resize(208, 400)
    made.show()
    application.processEvents()
    return keep(made)


def _click(shown: RunList, row: int, x: int) -> None:
    box = shown.list.visualRect(shown.list.model().index(row, 0))
    QTest.mouseClick(shown.list.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(x, box.top() + LINE // 2))


def _lines(shown: RunList) -> list[ListLine]:
    return shown.list.lines


def test_one_line_per_cell_with_its_counts(shown: RunList) -> None:
    assert [(line.name, line.second) for line in _lines(shown)] == [
        ("2 frames", "4 samples · 1 failed"),
        ("1 frames", "5 samples"),
    ]
    # Samples 1 to 5 are 1 to 5 % longer; both models took 108 ms.
    assert _lines(shown)[1].figure_below == "111 / 111 ms"


def test_a_cell_opens_to_its_runs_and_closes(shown: RunList) -> None:
    _click(shown, 0, 8)
    names = [line.name for line in _lines(shown)]
    assert len(names) == 2 + 6
    assert names[1] == "scene 0 · warm-up"
    assert _lines(shown)[6].figure == "failed"
    assert _lines(shown)[6].second == "No memory."
    assert all(line.is_inner for line in _lines(shown)[1:7])
    _click(shown, 0, 8)
    assert len(_lines(shown)) == 2


def test_choosing_a_cell_shows_its_typical_run(shown: RunList, selection: Selection, controller: RunController) -> None:
    _click(shown, 1, 60)
    runs = controller.runs
    targets = configuration_runs(runs.values(), runs[6])
    assert [run.info.sample.name for run in targets] == [f"scene {number}" for number in range(1, 6)]
    middle = typical_run(Configuration(targets))
    assert middle.info.sample.name == "scene 3"
    assert selection.runs == (middle.run_id - 1, middle.run_id) == typical_pair(runs, "1 frames")
    assert selection.of_cells
    assert shown.list.current_key == ("cell", "1 frames")


def test_the_comparison_tells_means_with_their_intervals(window: MainWindow, add_row: AddRow, tmp_path: Path) -> None:
    path = tmp_path / "suite.evprof"
    SessionWriter(_suite(add_row, 6), path).close()
    window.session.read(path)
    assert window.selection.of_cells
    window.runs._choose(("cell", "1 frames"))
    rows = {row.name: row for row in window.comparison.table.rows}
    assert rows["prefill"].cells[:2] == ("41.2", "41.2")
    assert window.comparison.means.text().startswith("Means: A over runs ")
    # Only the first row of a cell keeps its pictures, and the typical run is another.
    assert window.pair.left.frames._lack == "A suite keeps the pictures of the first row of each configuration."
    window.runs._choose((5, 6))
    assert window.comparison.means.isHidden()
    rows = {row.name: row for row in window.comparison.table.rows}
    assert rows["prefill"].cells[0] == "40.4"


def test_configurations_of_a_stored_suite_are_compared_without_reading_the_rows_of_their_runs(
    window: MainWindow, wait_until: Wait, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "imported.evprof"
    import_files([write_results(tmp_path / "results.json", 40)], path)
    read: list[int] = []
    rows = SessionSource.rows

    def noted(store: SessionSource, run_id: int) -> Any:
        read.append(run_id)
        return rows(store, run_id)

    monkeypatch.setattr(SessionSource, "rows", noted)
    window.open_paths([str(path)], waits=True)
    wait_until(lambda: window.is_at_rest)
    assert len(window.controller.runs) == 80
    assert None not in window.selection.runs
    assert window.comparison.table.rows
    assert set(read) <= set(window.selection.runs)


def test_a_chosen_cell_stays_chosen_when_runs_of_it_are_deleted(
    shown: RunList, selection: Selection, controller: RunController
) -> None:
    undo: list[Callable[[], None]] = []
    shown.remarks.post = lambda *told: undo.append(told[3] or (lambda: None))
    _click(shown, 1, 60)
    pair = selection.runs
    other = next(
        run_id for run_id, run in controller.runs.items() if run.info.cell == "1 frames" and run_id not in pair
    )
    shown.remarks.delete([other])
    assert (selection.runs, selection.cell) == (pair, "1 frames")
    # The typical run itself goes: another one is typical then.
    shown.remarks.delete([run_id for run_id in pair if run_id is not None])
    assert selection.cell == "1 frames"
    assert selection.runs == typical_pair(controller.runs, "1 frames") != pair
    undo[-1]()
    assert (selection.runs, selection.cell) == (pair, "1 frames")
    # All of it.
    shown.remarks.delete([run_id for run_id, run in controller.runs.items() if run.info.cell == "1 frames"])
    assert (selection.runs, selection.cell) == ((None, None), "")
    undo[-1]()
    assert (selection.runs, selection.cell) == (pair, "1 frames")
