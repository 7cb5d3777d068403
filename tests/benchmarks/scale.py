"""What `run.py ui` measures on much: thousands of runs in the list, and the longest answer that is shown."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QApplication

from benchmarks.part_files import write_results
from evprof.core.records import ORIGIN_TARGET, TARGET, TokenRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.run.legacy_import import import_files
from evprof.view.columns import ShownModel
from ui.columns.answer import MOST_TOKENS
from ui.columns.token_text import TokenText
from ui.runs.run_entries import CELL
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder
from ui.window.main_window import MainWindow

SAMPLES = 2_220
"""Rows of an imported file, each with a run of both models."""

MORE_TOKENS = 100
"""Tokens that are taken in one by one, up to the most that the panel shows."""


def measure_many_runs(
    application: QApplication, window: MainWindow, folder: Path, samples: int = SAMPLES
) -> dict[str, float]:
    """How many runs a session of two for each sample has, and times in ms: opening it, listing all runs of a cell below
    it, and scrolling to the last."""
    path = folder / "many.evprof"
    import_files([write_results(folder / "many.json", samples)], path)

    def opens() -> None:
        window.open_paths([str(path)], waits=True)
        window.controller.pull()
        application.processEvents()

    def scrolls() -> None:
        lines.verticalScrollBar().setValue(lines.verticalScrollBar().maximum())
        lines.grab()

    open_ms = timed_ms(opens)
    lines = window.runs.list
    cell = next(iter(window.controller.runs.values())).info.cell
    return {
        "many_runs": len(window.controller.runs),
        "many_runs_open_ms": open_ms,
        "many_runs_unfold_ms": timed_ms(lambda: lines.fold_asked.emit((CELL, cell), True)),
        "many_runs_scroll_ms": timed_ms(scrolls),
    }


def measure_long_text(themes: ThemeHolder) -> dict[str, float]:
    """Median time in ms in which an answer takes in one of the last tokens that the panel shows."""
    run = RunLog(RunInfo(1, 1, 0, TARGET, TARGET, start_ns=0))

    def grow(place: int) -> None:
        run.absorb(TokenRecord(1, TARGET, place, 1, ORIGIN_TARGET, -1, place * 5_000_000, " token"))

    for place in range(MOST_TOKENS - MORE_TOKENS):
        grow(place)
    view = TokenText(Selection(), themes)
    view.resize(420, 300)
    view.show()
    view.show_column(ShownModel(run, TARGET))
    taken = []
    for place in range(MOST_TOKENS - MORE_TOKENS, MOST_TOKENS):
        grow(place)
        taken.append(timed_ms(view.refresh))
    view.close()
    return {"long_text_token_ms": statistics.median(taken)}


def timed_ms(work: Callable[[], object]) -> float:
    """How long `work` takes in ms."""
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)
