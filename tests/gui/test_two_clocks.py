"""Two clocks: the moment of the scene and that of the computing lead to one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from evprof.core.records import DRAFT, FrameRecord
from evprof.view.columns import columns_of
from ui.columns.model_pair import ModelPair
from ui.players.event_player import EventPlayer
from ui.state.run_controller import RunController
from ui.state.selection import RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.style.theme import ThemeHolder
from ui.timeline.scene import GUTTER_PX
from ui.timeline.sensor_lanes import RealTimeLane, SensorLane
from ui.timeline.timeline_view import TimelineView


@pytest.fixture
def pair(
    application: QApplication, controller: RunController, selection: Selection, themes: ThemeHolder
) -> Iterator[ModelPair]:
    """Every scripted run was shown five slices of 50 ms of events, or three frames of a video of 100 ms."""
    for run in controller.runs.values():
        for role in run.info.models:
            spans = [(n * 10_000, n * 10_000 + 10_000) for n in range(5)] if role == DRAFT else [(0, 0), (50_000,) * 2]
            png = next((frame.png for frames in run.frames.values() for frame in frames), b"")
            run.frames[role] = [FrameRecord(run.run_id, role, n, *span, "", png) for n, span in enumerate(spans)]
    made = ModelPair(selection, themes)
    made.resize(1000, 500)
    selection.runs_changed.connect(lambda ids: made.show_columns(*columns_of(controller.runs, ids)))
    made.show()
    yield made
    made.close_feeds()
    made.close()
    made.deleteLater()


@pytest.fixture
def timeline(make_timeline: Callable[..., TimelineView], controller: RunController) -> TimelineView:
    return make_timeline(controller, size=(1100, 800))


def marked(pair: ModelPair) -> tuple[bool, bool]:
    return pair.left.frames.is_seen, pair.right.frames.is_seen


def test_a_token_marks_the_pictures_it_could_have_been_drawn_from(
    pair: ModelPair, selection: Selection, controller: RunController
) -> None:
    selection.set_runs(1, 2)
    selection.select(TokenRef(1, 0))
    assert marked(pair) == (True, False)
    assert pair.left.player.is_in_seen
    pair.clock.seek(pair.clock.stop_us)
    selection.select(TokenRef(2, 0))
    assert marked(pair) == (False, True)
    selection.select(None)
    assert marked(pair) == (False, False)
    assert not pair.right.player.is_in_seen
    selection.set_runs(3, 3)
    origins = {token.origin: token.position for token in controller.runs[3].tokens}
    selection.select(TokenRef(3, origins["accepted"]))
    assert marked(pair) == (True, True)
    selection.select(TokenRef(3, origins["bonus"]))
    assert marked(pair) == (False, True)


def test_spans_rounds_and_ranges_mark_what_they_are_work_on(
    pair: ModelPair, selection: Selection, controller: RunController
) -> None:
    selection.set_runs(3, 3)
    run = controller.runs[3]
    vision = run.stage("vision", DRAFT)
    assert vision is not None
    selection.select(SpanRef(3, vision.span_id))
    assert marked(pair) == (True, False)
    selection.select(RoundRef(3, run.rounds[0].round_index))
    assert marked(pair) == (True, True)
    zero = run.info.start_ns or 0
    selection.select(TimeRange(vision.start_ns - zero, vision.start_ns - zero + 1))
    assert marked(pair) == (True, False)


def test_players_and_the_moment_of_the_window_follow_one_another(pair: ModelPair, selection: Selection) -> None:
    selection.set_runs(1, 2)
    pair.clock.seek(20_000)
    assert selection.moment_us == 20_000
    selection.set_moment(10**9)
    assert selection.moment_us == pair.clock.position_us == pair.clock.stop_us


def test_each_part_of_a_recording_that_runs_took_tells_its_pace(
    pair: ModelPair, selection: Selection, controller: RunController
) -> None:
    pair.link.watch(controller)
    selection.set_runs(1, 2)
    curve = pair.left.player.rate_curve if isinstance(pair.left.player, EventPlayer) else None
    assert curve is not None
    (window,) = curve.windows
    worked_ns = sum(span.duration_ns or 0 for span in controller.runs[1].stages() if span.name != "load")
    assert (window.run_id, window.start_us, window.stop_us) == (1, 0, 50_000)
    assert window.factor == pytest.approx(worked_ns / 50_000_000)
    controller.runs[1].info.status = "failed"
    controller.runs[1].version += 1
    controller.runs_changed.emit({1})
    assert curve.windows == []


def test_the_lane_says_where_the_picture_of_the_players_was_worked_on(
    pair: ModelPair, timeline: TimelineView, selection: Selection, controller: RunController
) -> None:
    selection.set_runs(1, 2)
    QApplication.processEvents()
    lane = next(lane for lane in timeline.lanes if isinstance(lane, SensorLane))
    assert lane.isVisible()
    selection.set_moment(25_000)
    assert [(one.column, one.place, len(one.slices)) for one in lane.sensed()] == [(0, 2, 5), (1, 0, 2)]
    assert "25.0 ms" in lane.names()[1]
    run = controller.runs[1]
    first = lane.sensed()[0]
    vision = run.stage("vision", DRAFT)
    assert vision is not None
    assert (first.passage.encoded_ns, first.tokens) == (vision.end_ns, len(run.tokens))
    x = timeline.scene.scale.x(vision.start_ns - first.track.zero_ns) + 1
    place = QPointF(GUTTER_PX + x, lane.y() + 10).toPoint()
    QTest.mouseClick(timeline.stack, Qt.MouseButton.LeftButton, pos=place)
    assert selection.chosen == SpanRef(1, vision.span_id)
    assert marked(pair) == (True, False)


def test_the_real_time_factor_is_compute_time_per_sensor_time(
    pair: ModelPair, timeline: TimelineView, selection: Selection, controller: RunController
) -> None:
    selection.set_runs(1, 2)
    QApplication.processEvents()
    lane = next(lane for lane in timeline.lanes if isinstance(lane, RealTimeLane))
    assert lane.isVisible()
    run = controller.runs[1]
    worked_ns = sum(span.duration_ns or 0 for span in run.stages() if span.name != "load")
    paces = lane.paces()
    assert paces[0].curve.last == pytest.approx(worked_ns / 50_000_000)
    assert paces[1].sensor_us == 50_000
    hit = lane.hit(QPointF(lane.canvas_width / 2, 20))
    assert hit is not None
    assert any(f"{paces[0].curve.last:.2f}" in value for _, value in hit.facts)


def test_lanes_without_pictures_are_not_there(
    timeline: TimelineView, selection: Selection, controller: RunController
) -> None:
    for run in controller.runs.values():
        run.frames.clear()
    selection.set_runs(1, 2)
    QApplication.processEvents()
    assert not any(lane.isVisible() for lane in timeline.lanes if isinstance(lane, SensorLane | RealTimeLane))
