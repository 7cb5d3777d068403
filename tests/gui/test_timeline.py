"""The timeline: zoom, pan, follow, selection by mouse and keys, and what the lanes say lies under the pointer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, TARGET, SpanRecord, TokenRecord
from evprof.core.run_info import RunInfo
from ui.state.run_controller import RunController
from ui.state.selection import SpanRef
from ui.timeline.lane_stack import KEY_PAN, KEY_ZOOM
from ui.timeline.scene import GUTTER_PX
from ui.timeline.speculation_lanes import RoundLane
from ui.timeline.stage_lane import BAR_TOP, StageLane
from ui.timeline.timeline_view import TimelineView

MS = 1_000_000


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def view(make_timeline: Callable[..., TimelineView], controller: RunController, clock: Clock) -> TimelineView:
    """Runs 1 and 2 of the script, side by side."""
    return make_timeline(controller, 1, 2, size=(1100, 460), clock=clock)


def _wheel(view: TimelineView, x: float, steps: QPoint, modifiers: Qt.KeyboardModifier) -> None:
    pos = QPointF(GUTTER_PX + x, 40)
    event = QWheelEvent(
        pos,
        view.stack.mapToGlobal(pos),
        QPoint(),
        steps,
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    view.stack.wheelEvent(event)


def _drag(view: TimelineView, x0: float, x1: float, y: float = 60) -> None:
    """Presses at one position of the drawing area, moves to the other in two steps, and lets go there."""
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
    steps = (
        (QEvent.Type.MouseButtonPress, x0, left, view.stack.mousePressEvent),
        (QEvent.Type.MouseMove, (x0 + x1) / 2, none, view.stack.mouseMoveEvent),
        (QEvent.Type.MouseMove, x1, none, view.stack.mouseMoveEvent),
        (QEvent.Type.MouseButtonRelease, x1, left, view.stack.mouseReleaseEvent),
    )
    for kind, x, button, takes in steps:
        pos = QPointF(GUTTER_PX + x, y)
        takes(QMouseEvent(kind, pos, view.stack.mapToGlobal(pos), button, left, Qt.KeyboardModifier.NoModifier))


def _place(view: TimelineView, lane: StageLane, name: str) -> QPoint:
    """The middle of a stage's bar, in the stack's coordinates."""
    track = lane.track
    span = track.run.stage(name, track.role)
    middle = (span.start_ns + (span.end_ns or span.start_ns)) // 2 - track.zero_ns
    return QPoint(round(GUTTER_PX + view.scene.scale.x(middle)), round(lane.y() + BAR_TOP + 6))


def test_everything_is_shown_at_first(view: TimelineView) -> None:
    start, end = view.scene.extent()
    scale = view.scene.scale
    assert view.selection.view_range is None
    assert scale.start_ns < start
    assert scale.end_ns > end
    assert view.head.chip.isHidden()


@pytest.mark.parametrize("modifiers", [Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier])
def test_the_wheel_zooms_at_the_pointer(view: TimelineView, modifiers: Qt.KeyboardModifier) -> None:
    before = view.scene.scale
    _wheel(view, 300.0, QPoint(0, 120), modifiers)
    after = view.scene.scale
    assert after.span_ns == pytest.approx(before.span_ns / 1.0016**120, rel=1e-3)
    assert after.x(before.t(300.0)) == pytest.approx(300.0, abs=0.5)
    assert view.selection.view_range is not None
    assert not view.head.chip.isHidden()


def test_keys_zoom_and_pan_and_fit_again(view: TimelineView) -> None:
    before = view.scene.scale
    QTest.keyClick(view, Qt.Key.Key_Up)
    zoomed = view.scene.scale
    assert zoomed.span_ns == pytest.approx(before.span_ns / KEY_ZOOM, rel=1e-3)
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert view.scene.scale.start_ns == pytest.approx(zoomed.start_ns + KEY_PAN * zoomed.span_ns, rel=1e-2)
    view.deeds()["zoom_out"]()
    assert view.scene.scale.span_ns == pytest.approx(before.span_ns, rel=1e-3)
    view.deeds()["fit"]()
    assert view.selection.view_range is None
    assert view.scene.scale == before


def test_a_drag_selects_a_range(view: TimelineView) -> None:
    _drag(view, 100, 260)
    scale = view.scene.scale
    assert view.selection.time_range == (scale.t(100), scale.t(260))
    assert view.selection.span is None


def test_a_click_selects_and_a_click_beside_clears(view: TimelineView) -> None:
    lane = view.stage_lane(1)
    assert isinstance(lane, StageLane)
    QTest.mouseClick(view.stack, Qt.MouseButton.LeftButton, pos=_place(view, lane, "prefill"))
    ref = view.selection.span
    assert ref.run_id == 2
    assert view.controller.runs[2].spans[ref.span_id].name == "prefill"
    QTest.mouseClick(view.stack, Qt.MouseButton.LeftButton, pos=QPoint(view.stack.width() - 2, lane.y() + 2))
    assert view.selection.span is None


def test_a_double_click_zooms_to_the_span_and_beside_one_fits(view: TimelineView) -> None:
    lane = view.stage_lane(1)
    assert isinstance(lane, StageLane)
    QTest.mouseDClick(view.stack, Qt.MouseButton.LeftButton, pos=_place(view, lane, "vision"))
    run = view.controller.runs[2]
    span = run.stage("vision", TARGET)
    wanted = view.scene.range_of(SpanRef(2, span.span_id))
    scale = view.scene.scale
    assert scale.start_ns < wanted[0] < wanted[1] < scale.end_ns
    assert (wanted[1] - wanted[0]) / scale.span_ns > 0.8
    QTest.mouseDClick(view.stack, Qt.MouseButton.LeftButton, pos=QPoint(view.stack.width() - 2, 2))
    assert view.selection.view_range is None


def test_comma_and_period_step_through_stages(view: TimelineView) -> None:
    names = []
    for _ in range(12):
        view.deeds()["next_span"]()
        ref = view.selection.span
        names.append((ref.run_id, view.controller.runs[ref.run_id].spans[ref.span_id].name))
    assert {name for _, name in names} == {"load", "preprocess", "vision", "prefill", "decode"}
    last = view.selection.span
    view.deeds()["previous_span"]()
    assert view.selection.span != last
    view.deeds()["deselect"]()
    assert view.selection.span is None


def test_the_card_tells_exact_figures(view: TimelineView) -> None:
    lane = view.stage_lane(1)
    assert isinstance(lane, StageLane)
    view.stack.point_at(QPointF(_place(view, lane, "prefill")))
    card = view.stack.card
    assert not card.isHidden()
    facts = dict(card.hit.facts)
    span = view.controller.runs[2].stage("prefill", TARGET)
    assert facts["duration"] == f"{(span.duration_ns or 0) / 1e6:.3f} ms"
    assert "2089" in facts["in embeddings"]
    assert card.parentWidget() is view


def test_rounds_show_only_for_speculative_runs(view: TimelineView) -> None:
    assert view.rounds.isHidden()
    view.selection.set_runs(3, 3)
    QApplication.processEvents()
    assert not view.rounds.isHidden()
    run = view.controller.runs[3]
    accepted, drafted = sum(row.accepted for row in run.rounds), sum(row.drafted for row in run.rounds)
    assert view.rounds.names() == ("Speculation", f"{accepted} of {drafted} accepted")
    track = view.rounds.track
    starts, *_ = track.rounds()
    hit = RoundLane.hit(view.rounds, QPointF(view.scene.scale.x(int(starts[1])) + 1, 12))
    assert hit.title in ("Round 1", "Round 2", "Round 3")


def test_without_a_run_it_teaches_and_offers_one_button(make_timeline, controller: RunController) -> None:
    view = make_timeline(controller)
    heard: list[bool] = []
    view.run_requested.connect(lambda: heard.append(True))
    assert view.empty.isVisible()
    assert not view.head.isVisible()
    QTest.mouseClick(view.empty.button, Qt.MouseButton.LeftButton)
    assert heard == [True]


@pytest.fixture
def live(make_timeline: Callable[..., TimelineView], clock: Clock) -> tuple[RecordLog, TimelineView]:
    """A run that has begun at 100 ms of the clock."""
    recording = RecordLog()
    recording.post(RunStarted(1, RunInfo(1, 1, 0, TARGET, "target", start_ns=100 * MS)))
    recording.append(SpanRecord(1, 0, -1, BEGIN, TARGET, "load", 100 * MS, -1))
    view = make_timeline(recording, size=(1100, 460), clock=clock)
    clock.ns = 110 * MS
    view.controller.pull()
    view.selection.set_runs(None, 1)
    view.controller.pull()
    return recording, view


def test_a_running_stage_grows_with_the_clock(live: tuple[RecordLog, TimelineView], clock: Clock) -> None:
    _, view = live
    track = view.scene.tracks[1]
    assert track is not None
    lengths = []
    for ms in (120, 160, 240, 480):
        clock.ns = ms * MS
        view.controller.pull()
        row = track.stages.rows(track.zero_ns, track.now(view.scene.clock_ns))
        lengths.append(int(row.ends[0]) // MS)
        assert view.scene.scale.x(int(row.ends[0])) <= view.scene.scale.width_px
    assert lengths == [20, 60, 140, 380]
    assert view.stage_lane(1).names() == ("Target", "load …")


def test_a_hidden_timeline_does_nothing_and_catches_up_when_it_is_shown(
    live: tuple[RecordLog, TimelineView], clock: Clock
) -> None:
    recording, view = live
    track = view.scene.tracks[1]
    assert track is not None
    view.hide()
    recording.append(TokenRecord(1, TARGET, 0, 5, "target", -1, 150 * MS, " x"))
    clock.ns = 200 * MS
    view.controller.pull()
    assert len(track.token_times()) == 0
    view.show()
    assert track.token_times().tolist() == [50 * MS]
    assert view.scene.clock_ns == 200 * MS


def test_follow_live_lets_go_when_the_person_pans_and_comes_back(
    live: tuple[RecordLog, TimelineView], clock: Clock
) -> None:
    recording, view = live
    clock.ns = 200 * MS
    view.controller.pull()
    view.zooming.pan(40.0)
    held = view.scene.scale
    assert view.selection.view_range is not None
    assert view.head.chip.text().startswith("Follow")
    for step in range(1, 30):
        clock.ns = (200 + 50 * step) * MS
        recording.append(TokenRecord(1, TARGET, step, 5, "target", -1, clock.ns, " x"))
        view.controller.pull()
    assert view.scene.scale == held
    QTest.mouseClick(view.head.chip, Qt.MouseButton.LeftButton)
    assert view.selection.view_range is None
    assert view.scene.scale.end_ns >= clock.ns - 100 * MS
    assert view.head.chip.isHidden()
