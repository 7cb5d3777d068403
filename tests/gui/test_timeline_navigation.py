"""Ways through the timeline: ranges, the scroll bar, marks, lanes and menus."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, DRAFT, END, SETTLED, TARGET, KvRecord, RoundRecord, SpanRecord, TokenRecord
from evprof.core.run_info import FINISHED, RunInfo
from evprof.session.facts import Mark
from fake_nvml import FakeClock, FakeGpu, FakeNvml, WatchedRun, day_of_a_gpu, powered_recording, watch
from ui.state.run_controller import go_to
from ui.state.selection import RoundRef, SpanRef, TimeRange, TokenRef
from ui.timeline.lane import FOLDED_PX, Lane
from ui.timeline.level_lane import PowerLane
from ui.timeline.scene import GUTTER_PX
from ui.timeline.timeline_view import TimelineView

MS = 1_000_000
LEFT = Qt.MouseButton.LeftButton
MakeTimeline = Callable[..., TimelineView]


def _span(recording: RecordLog, span: tuple[int, int, str, str], start: float, end: float) -> None:
    """`span`: run, number, role and name; spans from number 4 on are parts of number 1; times in ms."""
    run_id, number, role, name = span
    for phase in (BEGIN, END, SETTLED):
        parent = -1 if number < 4 else 1
        stop = -1 if phase == BEGIN else round(end * MS)
        recording.append(SpanRecord(run_id, number, parent, phase, role, name, round(start * MS), stop))


@pytest.fixture
def view(make_timeline: MakeTimeline) -> TimelineView:
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


def _x(view: TimelineView, ms: float) -> float:
    return GUTTER_PX + view.scene.scale.x(ms * MS)


def _lane(view: TimelineView, key: str) -> Lane:
    return next(lane for lane in view.lanes if lane.key == key)


def test_rounds_and_levels_are_selected_by_a_click(view: TimelineView) -> None:
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(round(_x(view, 45)), view.rounds.y() + 14))
    assert view.selection.chosen == RoundRef(1, 1)
    kv = _lane(view, "kv")
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(round(_x(view, 70)), kv.y() + 20))
    assert view.selection.chosen == TokenRef(1, 1)
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(round(_x(view, 30)), kv.y() + 20))
    assert view.selection.chosen is None


def test_a_click_leaves_the_view_where_it_is(view: TimelineView) -> None:
    """Selecting a long bar in a close view showed all of the bar, far away."""
    view.zooming.zoom_to(TimeRange(30 * MS, 50 * MS))
    kept = view.selection.view_range
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(round(_x(view, 40)), view.stage_lane(1).y() + 18))
    assert view.selection.chosen == SpanRef(1, 1)
    assert view.selection.view_range == kept


def test_what_was_selected_elsewhere_comes_into_view(view: TimelineView) -> None:
    view.zooming.zoom_to(TimeRange(30 * MS, 50 * MS))
    view.selection.select(RoundRef(1, 3))
    scale = view.scene.scale
    assert scale.start_ns <= 80 * MS
    assert scale.end_ns >= 100 * MS


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
    flag = view.head.flags()[0][1]
    view.selection.clear()
    QTest.mouseClick(view.head, LEFT, pos=QPoint(round(GUTTER_PX + flag) + 2, 5))
    assert view.selection.time_range == (23 * MS, 25 * MS)


@pytest.mark.parametrize(("view_ms", "is_kept"), [((60, 80), False), ((2, 8), True)])
def test_a_zoom_is_kept_where_it_shows_something_of_another_run(
    view: TimelineView, view_ms: tuple[int, int], is_kept: bool
) -> None:
    view.zooming.zoom_to(TimeRange(view_ms[0] * MS, view_ms[1] * MS))
    kept = view.selection.view_range
    view.selection.set_runs(None, 2)
    assert view.selection.view_range == (kept if is_kept else None)


def test_the_scroll_bar_shows_and_moves_the_view(view: TimelineView) -> None:
    bar = view.bar
    assert bar.maximum() == 0
    view.zooming.zoom_to(TimeRange(20 * MS, 40 * MS))
    scale = view.scene.scale
    assert bar.value() == pytest.approx(scale.start_ns / scale.ns_per_px, abs=1)
    bar.setValue(bar.value() + 100)
    assert view.scene.scale.span_ns == scale.span_ns
    assert view.scene.scale.start_ns - scale.start_ns == pytest.approx(100 * scale.ns_per_px, rel=0.02)


def test_a_lane_is_collapsed_and_opened_by_a_click_on_its_name(view: TimelineView) -> None:
    lane = view.latency
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(60, lane.y() + 15))
    QApplication.processEvents()
    assert (lane.is_folded, lane.height()) == (True, FOLDED_PX)
    assert view.stack.hit_at(QPointF(_x(view, 58), lane.y() + 10)) == (lane, None)
    QTest.mouseClick(view.stack, LEFT, pos=QPoint(60, lane.y() + 8))
    assert not lane.is_folded


def test_lanes_without_rows_are_hidden(view: TimelineView) -> None:
    assert {lane.key for lane in view.lanes if lane.isHidden()} >= {"memory", "power", "overlap"}
    assert not _lane(view, "kv").isHidden()


@pytest.fixture
def chosen_from(view: TimelineView) -> Callable[[Lane, float, str], None]:
    """Chooses an entry from the menu at a moment of a lane."""

    def choose(lane: Lane, ms: float, text: str) -> None:
        menu = _menu_at(view, _x(view, ms), lane.y() + 14)
        next(action for action in menu.actions() if action.text() == text).trigger()
        menu.close()

    return choose


def _menu_at(view: TimelineView, x: float, y: float) -> QMenu:
    point = QPoint(round(x), round(y))
    reason = QContextMenuEvent.Reason.Mouse
    view.stack.contextMenuEvent(QContextMenuEvent(reason, point, view.stack.mapToGlobal(point)))
    menu = view.offers.menu
    assert menu is not None
    return menu


def test_the_menu_zooms_marks_and_copies(view: TimelineView, chosen_from: Callable[[Lane, float, str], None]) -> None:
    chosen_from(view.rounds, 45, "Copy as text")
    copied = QGuiApplication.clipboard().text()
    assert copied.startswith("Round 2\t")
    assert "verify\t10.000 ms\n" in copied
    chosen_from(view.rounds, 45, "Copy the timeline as a picture")
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
    menu = _menu_at(view, 40, view.rounds.y() + 10)
    assert [action.text() for action in menu.actions()] == ["Collapse Speculation"]


def test_the_menu_marks_the_run_under_the_pointer(view: TimelineView, chosen_from) -> None:
    view.selection.set_runs(1, 2)
    QApplication.processEvents()
    for place in (0, 1):
        chosen_from(view.stage_lane(place), 5, "Mark here")
    assert [mark.run_id for mark in view.controller.marks.marks] == [1, 2]


def _power(view: TimelineView) -> PowerLane:
    lane = _lane(view, "power")
    assert isinstance(lane, PowerLane)
    return lane


def test_power_has_a_line_for_each_run(make_timeline: MakeTimeline, scripted_recording: RecordLog) -> None:
    assert _power(make_timeline(scripted_recording, 1, 2)).isHidden()
    view = make_timeline(powered_recording(), 1, 2)
    lane = _power(view)
    assert not lane.isHidden()
    assert [one.name for one in lane.series()] == ["A · run 1 · Video-LLaVA GPU", "B · run 2 · Video-LLaVA GPU"]
    assert [text for _, text in lane.scale_marks()] == ["800 W", "0"]
    assert max(float(one.levels.max()) for one in lane.series()) == 610.0
    hit = lane.hit(QPointF(view.scene.scale.x(4500 * MS), lane.height() / 2))
    assert hit.facts == [("B · run 2 · Video-LLaVA GPU", "390.0 W")]


def test_power_names_the_devices_of_one_run_and_dashes_the_idle_one(make_timeline: MakeTimeline) -> None:
    recording, clock = RecordLog(), FakeClock()
    gpus = [day_of_a_gpu(), FakeGpu(lambda _: 75.0, uuid="GPU-1"), FakeGpu(lambda _: 50.0, uuid="GPU-2")]
    run = WatchedRun(1, devices=(("target", "cuda:0"), ("draft", "cuda:1")))
    watch(recording, run, FakeNvml(gpus, clock).meters(), clock)
    lane = _power(make_timeline(recording, None, 1))
    assert {one.name for one in lane.series() if not one.is_dashed} == {"GPU 0", "GPU 1"}


def test_power_is_hidden_where_the_driver_withholds_it(make_timeline: MakeTimeline) -> None:
    names = ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption"]
    wanted = []
    for count in (1, 2):
        recording, clock = RecordLog(), FakeClock()
        watch(recording, WatchedRun(), FakeNvml([FakeGpu(withheld=set(names[:count]))], clock).meters(), clock)
        wanted.append(_power(make_timeline(recording, None, 1)).is_wanted())
    assert wanted == [True, False]
