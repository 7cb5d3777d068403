"""Ways through the timeline: edges that snap, the overview, lanes and menus."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, DRAFT, END, SETTLED, TARGET, KvRecord, RoundRecord, SpanRecord, TokenRecord
from evprof.core.run_info import FINISHED, RunInfo
from evprof.session.facts import Mark
from evprof.view.alignment import BY_HAND, RunAlignment
from ui.state.run_controller import go_to
from ui.state.selection import RoundRef, SpanRef, TimeRange, TokenRef
from ui.timeline.lane import FOLDED_PX, Lane
from ui.timeline.scene import GUTTER_PX
from ui.timeline.timeline_view import TimelineView

MS = 1_000_000
LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
ALT, SHIFT = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ShiftModifier


def _span(recording: RecordLog, span: tuple[int, int, str, str], start: float, end: float) -> None:
    """`span`: run, number, role and name; spans from number 4 on are parts of number 1; times in ms."""
    run_id, number, role, name = span
    for phase in (BEGIN, END, SETTLED):
        parent = -1 if number < 4 else 1
        stop = -1 if phase == BEGIN else round(end * MS)
        recording.append(SpanRecord(run_id, number, parent, phase, role, name, round(start * MS), stop))


@pytest.fixture
def view(make_timeline: Callable[..., TimelineView]) -> TimelineView:
    """Run 1: prefill 0-20 ms, decode 20-100 ms in four rounds of draft 8, verify 10, roll-back 2; run 2: 10 ms long."""
    recording = RecordLog()
    recording.post(RunStarted(1, RunInfo(1, 1, 0, TARGET, "speculative", start_ns=0)))
    _span(recording, (1, 0, TARGET, "prefill"), 0, 20)
    _span(recording, (1, 1, TARGET, "decode"), 20, 100)
    _span(recording, (1, 2, DRAFT, "prefill"), 0, 10)
    for place in range(4):
        begin = 20 + 20 * place
        _span(recording, (1, 10 + place, DRAFT, "draft"), begin, begin + 8)
        _span(recording, (1, 20 + place, TARGET, "verify"), begin + 8, begin + 18)
        recording.append(RoundRecord(1, place, begin * MS, 8 * MS, 10 * MS, 2 * MS, 4, 1, 2, "", 0))
        t_ns = (begin + 18) * MS
        recording.append(TokenRecord(1, TARGET, place, 5, "bonus", place, t_ns, " x"))
        recording.append(KvRecord(1, TARGET, t_ns, 10 + place, 1000 * (10 + place)))
    recording.post(RunEnded(1, FINISHED, None, {"end_ns": 100 * MS}))
    recording.post(RunStarted(2, RunInfo(2, 2, 0, TARGET, "target", start_ns=0)))
    _span(recording, (2, 0, TARGET, "prefill"), 0, 10)
    recording.post(RunEnded(2, FINISHED, None, {"end_ns": 10 * MS}))
    return make_timeline(recording, 1, 1, size=(1144, 560), clock=lambda: 0)


def _mouse(widget: QWidget, kind: QEvent.Type, x: float, y: float, modifiers: Qt.KeyboardModifier = NONE) -> None:
    takes = {
        QEvent.Type.MouseButtonPress: widget.mousePressEvent,
        QEvent.Type.MouseMove: widget.mouseMoveEvent,
        QEvent.Type.MouseButtonRelease: widget.mouseReleaseEvent,
    }[kind]
    pos = QPointF(x, y)
    takes(QMouseEvent(kind, pos, widget.mapToGlobal(pos), LEFT, LEFT, modifiers))


def _drag(widget: QWidget, way: tuple[float, float, float, float], modifiers: Qt.KeyboardModifier = NONE) -> None:
    """From x0, y0 to x1, y1 in the widget's coordinates."""
    x0, y0, x1, y1 = way
    _mouse(widget, QEvent.Type.MouseButtonPress, x0, y0, modifiers)
    _mouse(widget, QEvent.Type.MouseMove, (x0 + x1) / 2, (y0 + y1) / 2, modifiers)
    _mouse(widget, QEvent.Type.MouseMove, x1, y1, modifiers)
    _mouse(widget, QEvent.Type.MouseButtonRelease, x1, y1, modifiers)


def _x(view: TimelineView, ms: float) -> float:
    return GUTTER_PX + view.scene.scale.x(ms * MS)


def _along(view: TimelineView, from_ms: float, to_ms: float, modifiers: Qt.KeyboardModifier = NONE) -> None:
    _drag(view.stack, (_x(view, from_ms), 20, _x(view, to_ms), 20), modifiers)


def test_a_drag_keeps_to_edges_but_not_with_alt(view: TimelineView) -> None:
    _along(view, 28.2, 37.8)
    assert view.selection.time_range == (28 * MS, 38 * MS)
    view.selection.clear()
    _along(view, 28.2, 37.8, ALT)
    chosen = view.selection.time_range
    assert chosen is not None
    assert chosen.start_ns == pytest.approx(28.2 * MS, abs=view.scene.scale.ns_per_px)
    assert chosen.start_ns != 28 * MS


def test_an_edge_of_a_range_is_dragged_over_the_other_one(view: TimelineView) -> None:
    view.selection.select(TimeRange(30 * MS, 50 * MS))
    _along(view, 50, 68.1)
    assert view.selection.time_range == (30 * MS, 68 * MS)
    _along(view, 30, 80.1)
    assert view.selection.time_range == (68 * MS, 80 * MS)
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(round(_x(view, 68)), 20))
    assert view.selection.time_range == (68 * MS, 80 * MS)


def test_rounds_and_steps_of_levels_are_selected_by_a_click(view: TimelineView) -> None:
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(round(_x(view, 45)), view.rounds.y() + 14))
    assert view.selection.chosen == RoundRef(1, 1)
    kv = next(lane for lane in view.lanes if lane.key == "kv")
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(round(_x(view, 70)), kv.y() + 20))
    assert view.selection.chosen == TokenRef(1, 1)
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(round(_x(view, 30)), kv.y() + 20))
    assert view.selection.chosen is None


def test_a_click_leaves_the_view_where_it_is(view: TimelineView) -> None:
    """Selecting a long bar in a close view showed all of the bar, far away."""
    view.zooming.zoom_to(TimeRange(30 * MS, 50 * MS))
    kept = view.selection.view_range
    decode = view.stage_lane(1)
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(round(_x(view, 40)), decode.y() + 18))
    assert view.selection.chosen == SpanRef(1, 1)
    assert view.selection.view_range == kept
    _along(view, 45, 60, ALT)
    assert view.selection.view_range == kept


def test_what_was_selected_elsewhere_comes_into_view(view: TimelineView) -> None:
    view.zooming.zoom_to(TimeRange(30 * MS, 50 * MS))
    view.selection.select(RoundRef(1, 3))
    scale = view.scene.scale
    assert scale.start_ns <= 80 * MS
    assert scale.end_ns >= 100 * MS


def test_levels_show_what_a_selection_left_behind(view: TimelineView) -> None:
    kv = next(lane for lane in view.lanes if lane.key == "kv")
    assert kv.levels_at(10 * MS) == []
    ((first, _),) = kv.levels_at(40 * MS)
    ((last, _),) = kv.levels_at(99 * MS)
    assert last < first
    ((y, color),) = kv.levels_at(58 * MS)
    place = QPoint(round(_x(view, 58)), kv.y() + round(y) - 2)
    view.selection.select(TokenRef(1, 1))
    assert view.stack.grab().toImage().pixelColor(place) == color
    view.selection.clear()
    assert view.stack.grab().toImage().pixelColor(place) != color


def test_marks_move_with_their_run(view: TimelineView) -> None:
    view.selection.set_runs(1, 2)
    view.controller.marks.add(Mark(2, 3 * MS, 5 * MS))
    view.selection.set_offset(20 * MS)
    for place, track in view.scene.shown:
        track.shift_ns = 20 * MS if place % 2 else 0
    assert [when for _, when in view.scene.placed_marks()] == [(23 * MS, 25 * MS)]
    go_to(view.controller.marks.marks[0], view.controller.runs, view.selection)
    assert view.selection.time_range == (23 * MS, 25 * MS)
    view.selection.select(TimeRange(26 * MS, 27 * MS))
    view.deeds()["mark"]()
    assert view.controller.marks.marks[-1] == Mark(2, 6 * MS, 7 * MS)


def test_a_mark_is_deleted_where_it_is_drawn(view: TimelineView) -> None:
    """Its run may be moved on the axis, and the other run may have a mark at the same time of its own."""
    view.selection.set_runs(1, 2)
    view.selection.set_alignment(RunAlignment(BY_HAND, offset_ns=20 * MS))
    of_a, of_b = Mark(1, 3 * MS, 5 * MS), Mark(2, 3 * MS, 5 * MS)
    for mark in (of_a, of_b):
        view.controller.marks.add(mark)
    view.selection.select(TimeRange(3 * MS, 5 * MS))
    view.deeds()["delete_mark"]()
    assert view.controller.marks.marks == [of_b]
    view.controller.marks.add(of_a)
    view.selection.select(TimeRange(23 * MS, 25 * MS))
    view.deeds()["delete_mark"]()
    assert view.controller.marks.marks == [of_a]


def test_a_zoom_that_shows_nothing_of_another_run_is_let_go(view: TimelineView) -> None:
    view.zooming.zoom_to(TimeRange(60 * MS, 80 * MS))
    view.selection.set_runs(None, 2)
    assert view.selection.view_range is None
    assert view.scene.scale.start_ns < 10 * MS


def test_a_zoom_that_shows_something_of_another_run_is_kept(view: TimelineView) -> None:
    view.zooming.zoom_to(TimeRange(2 * MS, 8 * MS))
    kept = view.selection.view_range
    view.selection.set_runs(None, 2)
    assert view.selection.view_range == kept


def test_the_window_of_the_overview_moves_and_resizes_the_view(view: TimelineView) -> None:
    view.zooming.zoom_to(TimeRange(20 * MS, 40 * MS))
    minimap, before = view.minimap, view.scene.scale
    box = minimap.view_box()
    by = 100.0
    middle = GUTTER_PX + box.center().x()
    _drag(minimap, (middle, 10, middle + by, 10))
    after = view.scene.scale
    assert after.span_ns == pytest.approx(before.span_ns, abs=2)
    assert after.start_ns - before.start_ns == pytest.approx(by * minimap.whole.ns_per_px, rel=0.01)
    box = minimap.view_box()
    _drag(minimap, (GUTTER_PX + box.right(), 10, GUTTER_PX + box.right() + 50, 10))
    assert view.scene.scale.start_ns == after.start_ns
    assert view.scene.scale.end_ns - after.end_ns == pytest.approx(50 * minimap.whole.ns_per_px, rel=0.01)
    _mouse(minimap, QEvent.Type.MouseButtonPress, GUTTER_PX + minimap.whole.x(5 * MS), 10)
    scale = view.scene.scale
    assert (scale.start_ns + scale.end_ns) / 2 == pytest.approx(5 * MS, rel=0.1)
    QTest.mouseDClick(minimap, LEFT, pos=QPoint(600, 10))
    assert view.selection.view_range is None


def _keys(view: TimelineView) -> list[str]:
    return [lane.key for lane in view.stack.in_sight()]


def test_a_lane_is_dragged_by_its_name(view: TimelineView) -> None:
    first = _keys(view)
    lane = view.latency
    _drag(view.stack, (60, lane.y() + 10, 60, 2))
    QApplication.processEvents()
    assert _keys(view) == ["latency", *(key for key in first if key != "latency")]
    assert lane.y() == 0
    view.deeds()["reset_lanes"]()
    assert _keys(view) == first


def test_a_lane_is_collapsed_by_its_arrow_and_opened_by_a_double_click(view: TimelineView) -> None:
    lane = view.latency
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(6, lane.y() + 15))
    QApplication.processEvents()
    assert (lane.is_folded, lane.height()) == (True, FOLDED_PX)
    assert view.stack.hit_at(QPointF(_x(view, 58), lane.y() + 10)) == (lane, None)
    QTest.mouseDClick(view.stack, LEFT, pos=QPoint(60, lane.y() + 8))
    assert not lane.is_folded


def test_lanes_with_nothing_to_show_are_collapsed(view: TimelineView) -> None:
    folded = {lane.key for lane in view.stack.in_sight() if lane.is_folded}
    assert folded == {"memory"}
    memory = next(lane for lane in view.lanes if lane.key == "memory")
    view.stack.toggle_fold(memory)
    assert not memory.is_folded


def _menu_at(view: TimelineView, x: float, y: float) -> QMenu:
    point = QPoint(round(x), round(y))
    reason = QContextMenuEvent.Reason.Mouse
    view.stack.contextMenuEvent(QContextMenuEvent(reason, point, view.stack.mapToGlobal(point)))
    menu = view.offers.menu
    assert menu is not None
    return menu


def _choose(menu: QMenu, text: str) -> None:
    next(action for action in menu.actions() if action.text() == text).trigger()
    menu.close()


@pytest.fixture
def chosen_from(view: TimelineView) -> Callable[[Lane, float, str], None]:
    def choose(lane: Lane, ms: float, text: str) -> None:
        _choose(_menu_at(view, _x(view, ms), lane.y() + 14), text)

    return choose


def test_the_menu_zooms_marks_and_copies(view: TimelineView, chosen_from: Callable[[Lane, float, str], None]) -> None:
    chosen_from(view.rounds, 45, "Copy as text")
    copied = QGuiApplication.clipboard().text()
    assert copied.startswith("Round 2\t")
    assert "verify\t10.000 ms\n" in copied
    chosen_from(view.rounds, 45, "Copy the timeline as PNG")
    assert QGuiApplication.clipboard().image().width() == 2 * view.width()
    chosen_from(view.rounds, 45, "Mark here")
    assert [round(mark.start_ns / MS) for mark in view.controller.marks.marks] == [45]
    heard: list[bool] = []
    view.clinic_requested.connect(lambda: heard.append(True))
    chosen_from(view.rounds, 45, "Show in the clinic")
    assert (heard, view.selection.chosen) == ([True], RoundRef(1, 1))
    chosen_from(view.rounds, 45, "Zoom to it")
    scale = view.scene.scale
    assert 38 * MS < scale.start_ns < 40 * MS
    assert 60 * MS < scale.end_ns < 62 * MS


def test_the_menu_marks_the_run_under_the_pointer(
    view: TimelineView, chosen_from: Callable[[Lane, float, str], None]
) -> None:
    view.selection.set_runs(1, 2)
    QApplication.processEvents()
    for place, run_id in ((0, 1), (1, 2)):
        chosen_from(view.stage_lane(place), 5, "Mark here")
        assert [mark.run_id for mark in view.controller.marks.marks][-1] == run_id
    chosen_from(view.stage_lane(0), 60, "Mark here")
    chosen_from(view.rounds_of_a, 45, "Mark here")
    assert [mark.run_id for mark in view.controller.marks.marks] == [1, 1, 1, 2]


def test_the_menu_of_a_name_is_about_the_lane(view: TimelineView) -> None:
    menu = _menu_at(view, 40, view.rounds.y() + 10)
    assert "Zoom to it" not in [action.text() for action in menu.actions()]
    before = _keys(view)
    place = before.index("round")
    _choose(menu, "Move it up")
    after = _keys(view)
    assert after.index("round") == place - 1


def test_lanes_that_say_less_give_way_where_there_is_no_room(
    view: TimelineView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view.rounds, "gives_way", True, raising=False)
    view.resize(1144, 900)
    QApplication.processEvents()
    assert not view.rounds.is_folded
    view.resize(1144, 260)
    QApplication.processEvents()
    assert view.rounds.is_folded
    assert not view.latency.is_folded
    view.stack.toggle_fold(view.rounds)
    view.resize(1144, 250)
    QApplication.processEvents()
    assert not view.rounds.is_folded
