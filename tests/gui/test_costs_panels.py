"""The panels on what tokens cost: what they show, what a click selects, and that they cost nothing while hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import SETTLED, KvRecord, SpanRecord, TokenRecord
from evprof.core.run_info import FINISHED, KvFacts, LengthFacts, RunInfo
from evprof.metrics.figures.kv_cache import measured_bytes
from scripted_pair import SCRIPTED_TARGET, ScriptedModel
from told import told
from ui.costs.kv_panel import KvPanel
from ui.costs.visual_panel import VisualPanel
from ui.state.run_controller import RunController
from ui.state.selection import RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.style.theme import ThemeHolder
from ui.widgets.figure_table import FigureTable
from ui.widgets.following import FollowingPanel

MS = 1_000_000
MakePanel = Callable[..., Any]


@pytest.fixture
def make_panel(
    application: QApplication, selection: Selection, themes: ThemeHolder
) -> Iterator[Callable[..., FollowingPanel]]:
    """Makes a panel over a controller, shown unless told otherwise."""
    made: list[FollowingPanel] = []

    def make(kind: type[FollowingPanel], controller: RunController, *, is_shown: bool = True) -> FollowingPanel:
        panel = kind(controller, selection, themes)
        made.append(panel)
        panel.resize(900, 420)
        panel.setVisible(is_shown)
        application.processEvents()
        return panel

    yield make
    for panel in made:
        panel.finish()
        panel.close()
        panel.deleteLater()


def row(table: FigureTable, name: str, unit: str = "") -> tuple[str, ...]:
    return next(row.cells for row in table.rows if row.name == name and unit in row.unit)


def click(widget: QWidget, at: QPoint) -> None:
    QTest.mouseClick(widget, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at)


# The KV view.


def test_areas_are_bytes_on_one_scale(make_panel: MakePanel, controller: RunController, selection: Selection) -> None:
    panel = make_panel(KvPanel, controller)
    selection.set_runs(1, 2)
    pieces = panel.picture.places()
    assert {piece.block.run_id for piece in pieces} == {1, 2}
    areas = {piece.box.width() * piece.box.height() / piece.nbytes for piece in pieces}
    assert max(areas) == pytest.approx(min(areas), rel=1e-6), "a pixel is worth the same everywhere"
    for block in panel.picture.blocks:
        mine = [piece for piece in pieces if piece.block is block and piece.origin not in ("rolled back", "reserved")]
        assert sum(piece.nbytes for piece in mine) == block.held.held_bytes


def test_theory_stands_beside_what_was_measured(
    make_panel: MakePanel, controller: RunController, selection: Selection
) -> None:
    panel = make_panel(KvPanel, controller)
    selection.set_runs(1, 2)
    assert row(panel.table, "in use", "by formula") == row(panel.table, "in use", "measured")
    assert row(panel.table, "difference") == ("none", "none")
    assert measured_bytes(controller.runs[2]) is not None


def test_a_click_on_frames_selects_the_vision_stage(
    make_panel: MakePanel, controller: RunController, selection: Selection
) -> None:
    panel = make_panel(KvPanel, controller)
    selection.set_runs(1, 2)
    piece = next(piece for piece in panel.picture.places() if piece.origin == "visual" and piece.block.run_id == 2)
    click(panel.picture, piece.box.center().toPoint())
    assert isinstance(selection.chosen, SpanRef)
    assert controller.runs[2].spans[selection.chosen.span_id].name == "vision"


def test_a_click_on_what_was_rolled_back_selects_a_round(
    make_panel: MakePanel, controller: RunController, selection: Selection
) -> None:
    panel = make_panel(KvPanel, controller)
    selection.set_runs(3, 3)
    piece = next(piece for piece in panel.picture.places() if piece.origin == "rolled back")
    click(panel.picture, piece.box.center().toPoint())
    assert isinstance(selection.chosen, RoundRef)


def test_a_selected_range_shows_the_cache_as_it_was(
    make_panel: MakePanel, controller: RunController, selection: Selection, application: QApplication
) -> None:
    panel = make_panel(KvPanel, controller)
    selection.set_runs(None, 2)
    run = controller.runs[2]
    records = run.kv["target"]
    start = run.info.start_ns or 0
    selection.select(TimeRange(0, records[1].t_ns - start))
    panel.show_runs()
    assert panel.picture.blocks[0].held.length == records[1].length
    assert "end of the selection" in panel.moment.text()
    selection.clear()
    panel.show_runs()
    assert panel.picture.blocks[0].held.length == records[-1].length


def test_a_run_that_is_moved_on_the_axis_is_asked_for_its_own_moment(
    make_panel: MakePanel, controller: RunController, selection: Selection
) -> None:
    panel = make_panel(KvPanel, controller)
    selection.set_runs(1, 2)
    run = controller.runs[2]
    records = run.kv["target"]
    own = records[2].t_ns - (run.info.start_ns or 0)
    selection.set_offset(7 * MS)
    selection.select(TimeRange(0, own + 7 * MS))
    panel.show_runs()
    assert panel.picture.blocks[-1].held.length == records[2].length


def test_a_selected_token_has_its_place_in_the_cache(
    make_panel: MakePanel, controller: RunController, selection: Selection
) -> None:
    panel = make_panel(KvPanel, controller)
    selection.set_runs(None, 2)
    selection.select(TokenRef(2, 3))
    panel.show_runs()
    assert panel.picture.blocks[0].position == controller.runs[2].info.lengths["target"].input + 3


def test_an_empty_session_says_what_fills_the_panels(make_panel: MakePanel, selection: Selection) -> None:
    controller = RunController(RecordLog())
    for kind in (KvPanel, VisualPanel):
        panel = make_panel(kind, controller)
        assert panel.empty.isVisible()
        assert not panel.body.isVisible()
    controller.close()


def test_a_hidden_panel_does_nothing_and_catches_up(
    make_panel: MakePanel,
    controller: RunController,
    selection: Selection,
    application: QApplication,
    monkeypatch: pytest.MonkeyPatch,
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
    assert len(panel.picture.blocks) == 2


# Visual tokens.


def test_keeping_fewer_tokens_saves_more(make_panel: MakePanel, selection: Selection) -> None:
    recording = RecordLog()
    add_run(recording, 1, SCRIPTED_TARGET, 8, 300.0)
    controller = RunController(recording)
    controller.pull()
    panel = make_panel(VisualPanel, controller)
    selection.set_runs(None, 1)
    panel.keep.setValue(100)
    assert row(panel.saved, "prefill") == ("0 µs",)
    panel.keep.setValue(50)
    half = row(panel.saved, "prefill")
    assert row(panel.saved, "tokens kept") == ("1,028",)
    panel.keep.setValue(0)
    assert row(panel.saved, "prefill") != half
    assert not panel.measured.isVisible(), "nothing else was tried"
    controller.close()


def add_run(
    recording: RecordLog, run_id: int, model: ScriptedModel, frames: int, prefill_ms: float, *, repeat: int = 0
) -> None:
    """A finished run of its own on so many frames."""
    visual = 257 * frames
    info = RunInfo(
        run_id,
        run_id - repeat,
        repeat,
        "target",
        "target",
        **told({"frames": frames}, {"name": "scene", "prompt": "What is there?"}),
        start_ns=0,
        models={"target": model.facts},
        lengths={"target": LengthFacts(33 + visual, 0, 33, visual, [257] * frames)},
    )
    recording.post(RunStarted(run_id, info))
    at = 0
    for span_id, (name, spent) in enumerate(
        {"load": 5.0, "vision": 30.0, "prefill": prefill_ms, "decode": 40.0}.items()
    ):
        end = at + round(spent * MS)
        recording.append(SpanRecord(run_id, span_id, -1, SETTLED, "target", name, at, end))
        at = end
    for place in range(5):
        recording.append(TokenRecord(run_id, "target", place, place, "target", -1, at + place, " word"))
    recording.append(KvRecord(run_id, "target", at, 33 + visual + 4, 0))
    each = model.kv_position_bytes
    used = (33 + visual + 4) * each
    layers = [used // model.facts.layers] * model.facts.layers
    recording.post(RunEnded(run_id, FINISHED, None, {"end_ns": at, "kv": {"target": KvFacts(used, used, layers)}}))
