"""The panels on what tokens cost: what they show, what a click selects, and that they cost nothing while hidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from evprof.core.recording import RecordLog
from evprof.core.units import MIB
from evprof.metrics.costs.cache_map import cache_map
from evprof.metrics.costs.visual_costs import visual_costs
from ui.costs.kv_panel import KvPanel
from ui.costs.stacked_bars import FAINT, HATCHED, PLAIN, Bar
from ui.costs.visual_panel import VisualPanel
from ui.state.run_controller import RunController
from ui.state.selection import RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.widgets.figure_table import FigureTable
from ui.window.app import settle
from ui.window.main_window import MainWindow

MS = 1_000_000
MakePanel = Callable[..., Any]


def row(table: FigureTable, name: str, unit: str = "") -> tuple[str, ...]:
    return next(row.cells for row in table.rows if row.name == name and unit in row.unit)


def click(widget: QWidget, at: QPoint) -> None:
    QTest.mouseClick(widget, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at)


# The KV view.


def bar_of(panel: KvPanel, place: int = -1) -> Bar:
    return panel.picture.groups[place].bars[0]


def test_bars_are_bytes_on_one_scale(make_panel: MakePanel, controller: RunController, selection: Selection) -> None:
    panel = make_panel(KvPanel, controller)
    selection.set_runs(1, 2)
    boxes = panel.picture.boxes()
    widths = {box.width() / part.value for box, part in boxes}
    assert max(widths) == pytest.approx(min(widths), rel=1e-6), "a pixel is worth the same everywhere"
    for place, run_id in enumerate((1, 2)):
        held = cache_map(controller.runs[run_id])
        kept = sum(part.value for part in bar_of(panel, place).parts if part.style in (PLAIN, FAINT))
        assert kept == pytest.approx(held.held_bytes / MIB)


def test_a_click_selects_the_stage_or_the_round(make_panel, controller: RunController, selection: Selection) -> None:
    panel = make_panel(KvPanel, controller)
    selection.set_runs(1, 2)
    box = next(box for box, part in reversed(panel.picture.boxes()) if part.tip.startswith("visual"))
    click(panel.picture, box.center().toPoint())
    assert isinstance(selection.chosen, SpanRef)
    assert controller.runs[2].spans[selection.chosen.span_id].name == "vision"
    selection.set_runs(3, 3)
    box = next(box for box, part in panel.picture.boxes() if part.style == HATCHED)
    click(panel.picture, box.center().toPoint())
    assert isinstance(selection.chosen, RoundRef)


def test_a_selected_range_shows_the_cache_as_it_was(
    make_panel: MakePanel, controller: RunController, selection: Selection
) -> None:
    panel = make_panel(KvPanel, controller)
    selection.set_runs(None, 2)
    run = controller.runs[2]
    records = run.kv["target"]
    start = run.info.start_ns or 0
    selection.select(TimeRange(0, records[1].t_ns - start))
    panel.show_runs()
    assert f"{records[1].length:,} positions" in panel.picture.groups[0].text
    assert "end of the selection" in panel.moment.text()
    selection.clear()
    panel.show_runs()
    assert f"{records[-1].length:,} positions" in panel.picture.groups[0].text


def test_a_selected_token_has_its_place_in_the_cache(
    make_panel: MakePanel, controller: RunController, selection: Selection
) -> None:
    panel = make_panel(KvPanel, controller)
    selection.set_runs(None, 2)
    selection.select(TokenRef(2, 3))
    panel.show_runs()
    held, mark = cache_map(controller.runs[2]), bar_of(panel).mark
    assert mark is not None
    assert int(mark * MIB * held.length / held.held_bytes) == controller.runs[2].info.lengths["target"].input + 3


def test_an_empty_session_says_what_fills_the_panels(make_panel: MakePanel, selection: Selection) -> None:
    controller = RunController(RecordLog())
    for kind in (KvPanel, VisualPanel):
        panel = make_panel(kind, controller)
        assert panel.empty.isVisible()
        assert not panel.body.isVisible()
    controller.close()


def test_a_hidden_panel_does_nothing_and_catches_up(
    make_panel: MakePanel, controller: RunController, selection: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = make_panel(KvPanel, controller, is_shown=False)
    asked: list[int] = []
    real = panel.show_runs
    monkeypatch.setattr(panel, "show_runs", lambda: (asked.append(1), real()))
    selection.set_runs(1, 2)
    selection.select(TokenRef(2, 1))
    QTest.qWait(60)
    assert not asked
    panel.show()
    assert len(panel.picture.groups) == 2


# Visual tokens.


def test_the_bars_are_the_shares_of_all_visual_tokens(
    make_panel: MakePanel, controller: RunController, selection: Selection
) -> None:
    panel = make_panel(VisualPanel, controller)
    selection.set_runs(1, 2)
    costs = visual_costs(controller.runs[2])
    group = panel.bars.groups[1]
    assert len(group.bars) == len(costs.frames) + bool(costs.shared.tokens)
    whole = sum(bar.whole for bar in group.bars)
    assert whole == pytest.approx((costs.whole.vision_ms or 0) + (costs.whole.prefill_ms or 0))
    assert row(panel.sums, "visual tokens")[1] == f"{costs.whole.tokens:,}"
    box, part = panel.bars.boxes()[-1]
    click(panel.bars, box.center().toPoint())
    assert selection.chosen == part.chosen


@pytest.mark.parametrize(("width", "is_beside"), [(1600, True), (1280, False)])
def test_a_selection_and_its_place_in_the_cache_are_seen_together(
    window: MainWindow, session_file: Path, width: int, is_beside: bool, application: QApplication
) -> None:
    """In a wide window the cache is beside the timeline, in a narrow one a tab; its table has one unit."""
    window.resize(width, 900)
    window.open_paths([str(session_file)], waits=True)
    window.body.show_panel("kv")
    settle(application, window)
    assert (not window.timeline.visibleRegion().isEmpty()) == is_beside
    panel = window.body.panel("kv")
    assert isinstance(panel, KvPanel)
    assert not panel.visibleRegion().isEmpty()
    units = {cell.split()[-1] for row in panel.table.rows for cell in row.cells if "iB" in cell}
    assert units == {"MiB"}
