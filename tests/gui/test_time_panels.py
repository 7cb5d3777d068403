"""The panels *Where time goes* and *Spans*, the lane *B − A*, and the values of all lanes under the pointer."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QImage

from evprof.core.protocols import RequestEnded
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.view.columns import pair_for
from scripted_engine import ScriptedEngine
from ui.state.cells import typical_repeat
from ui.state.run_controller import RunController
from ui.state.run_following import RunFollowing
from ui.state.selection import Selection, SpanRef
from ui.timeline.delta_lane import _Row
from ui.timeline.parts_panel import PartsPanel
from ui.timeline.scene import GUTTER_PX
from ui.timeline.span_panel import SpanPanel
from ui.timeline.timeline_view import TimelineView

LENGTHS = (30.0, 10.0, 50.0, 20.0, 40.0)
"""Prefill in ms of five repeats of the draft (runs 1, 3, …) and, times ten, of the target (2, 4, …)."""


@pytest.fixture
def repeats(add_row: Callable[..., None]) -> RecordLog:
    recording = RecordLog()
    for place, prefill in enumerate(LENGTHS):
        for run_id, role, scale in ((2 * place + 1, "draft", 1), (2 * place + 2, "target", 10)):
            stages = {"load": 5.0, "prefill": prefill * scale, "decode": 8.0}
            add_row(recording, run_id, stages, role=role, mode="side-by-side", group=1, repeat=place)
    return recording


def _cell(panel: PartsPanel, row: int, column: int) -> str:
    item = panel.table.item(row, column)
    return "" if item is None else item.text()


def test_a_click_shows_the_run_at_a_percentile_with_its_mate(
    make_panel: Callable[..., PartsPanel], repeats: RecordLog, selection: Selection
) -> None:
    panel = make_panel(PartsPanel, repeats, 1, 2)
    names = [_cell(panel, row, 0) for row in range(panel.table.rowCount())]
    assert names[0] == "A · EventGPT · draft · Side by side · means of 5 runs"
    prefill = names.index("prefill")
    assert [_cell(panel, prefill, column) for column in (2, 4, 5, 6)] == ["30.0 ms", "run 3", "run 1", "run 5"]
    panel.table.cellClicked.emit(prefill, 6)
    assert selection.runs == (5, 6)
    target = names.index("prefill", prefill + 1)
    panel.table.cellClicked.emit(target, 1)  # the bar: the median run
    assert selection.runs == (1, 2)
    selection.set_runs(1, 4)
    panel.table.cellClicked.emit(panel.table.rowCount() - 3, 4)
    assert selection.runs == (1, 4)


def test_a_line_selects_its_span_and_a_span_its_line(
    make_panel: Callable[..., SpanPanel], scripted_recording: RecordLog, selection: Selection
) -> None:
    panel = make_panel(SpanPanel, scripted_recording, 3, 3)
    view, model = panel.table.view, panel.model
    durations: Any = model.columns[5]
    model.sort(5, Qt.SortOrder.DescendingOrder)
    longest = [durations.values[place] for place in model.records]
    assert longest == sorted(longest, reverse=True)
    view.setCurrentIndex(model.index(0, 0))
    ref = selection.span
    assert panel._controller.runs[3].spans[ref.span_id].name == model.data(model.index(0, 0))
    panel.table.filter.setText("VISION")
    assert {model.data(model.index(row, 1)) for row in range(model.rowCount())} == {"vision"}
    assert selection.span == ref
    other = int(panel.lines.ids[model.records[-1]])
    selection.select(SpanRef(3, other))
    assert view.currentIndex().row() == model.rowCount() - 1
    panel.copy.click()
    lines = list(csv.DictReader(io.StringIO(QGuiApplication.clipboard().text())))
    assert len(lines) == model.rowCount()
    assert {line["role"] for line in lines} == {"draft", "target"}
    assert float(lines[0]["duration_ms"]) == pytest.approx(durations.values[model.records[0]])


@pytest.mark.parametrize("deltas", [(-132.0, 30.0), (235.0,), (-5.0, -1.0), (0.0,), (1e-3, -4e5)])
def test_every_bar_of_the_difference_is_whole(make_timeline, repeats: RecordLog, deltas: tuple[float, ...]) -> None:
    lane = make_timeline(repeats, 1, 2).delta
    lane.rows = [_Row("decode", "decode", delta, "", False, []) for delta in deltas]
    for place in range(len(deltas)):
        assert 0 < lane.bar(place).left() <= lane.bar(place).right() < lane.canvas_width


def test_the_difference_is_of_means_and_says_so(
    make_timeline: Callable[..., TimelineView], repeats: RecordLog, scripted_recording: RecordLog
) -> None:
    view = make_timeline(repeats, 1, 2)
    lane = view.delta
    assert lane.names() == ("B − A", "means of 5 and 5")
    assert lane.sentence() == "B less A: means of 5 runs and 5 runs. The lanes above are runs 1 and 2 alone."
    assert {row.stage: row.delta_ms for row in lane.rows}["prefill"] == pytest.approx(270.0)
    hit = lane.hit(QPointF(5.0, lane.bar([row.stage for row in lane.rows].index("prefill")).center().y()))
    assert hit.span == SpanRef(2, 1)
    view.selection.set_runs(None, 2)
    assert lane.rows == []
    both = make_timeline(scripted_recording, 4, 3).delta
    assert {row.name for row in both.rows if row.stage == "vision"} == {"vision, both models"}
    assert not any(row.is_clear for row in both.rows)  # one run each


def test_the_pointer_reads_all_lanes(make_timeline: Callable[..., TimelineView], controller: RunController) -> None:
    view = make_timeline(controller, 3, 3, size=(1100, 460))
    lane = view.stage_lane(1)
    track = lane.track
    first = track.run.rounds[1]
    at = first.start_ns + first.draft_ns // 2
    last = len([token for token in track.run.tokens if token.t_ns <= at]) - 1
    view.stack.point_at(QPointF(GUTTER_PX + view.scene.scale.x(at - track.zero_ns), lane.y() + 20))
    read = {type(shown).__name__: shown._gutter()[2] for shown in view.stack.in_sight() if shown is not lane}
    assert lane._gutter()[2] == "decode"
    assert read["RoundLane"] == f"round 2 · {first.accepted} of {first.drafted}"
    assert str(read["LatencyLane"]).startswith(f"token {last} ")
    assert str(read["KvLane"]).endswith("MiB")
    assert lane._tip_at(QPoint(5, 5)).startswith("Video-LLaVA: target\nThe stages")
    view.stack.point_nowhere()
    assert {shown._gutter()[2] for shown in view.stack.in_sight()} == {None}


def test_a_stopped_request_shows_the_median_of_what_finished(make_timeline, repeats: RecordLog, add_row) -> None:
    """Stop in the middle of repeats left the half run in the columns."""
    add_row(repeats, 11, {"load": 5.0}, role="draft", mode="side-by-side", group=1, repeat=5, status="cancelled")
    view = make_timeline(repeats)
    following = RunFollowing(view.controller, view.selection)
    view.selection.set_runs(11, None)
    following.begin()
    repeats.post(RequestEnded(1))
    view.controller.pull()
    assert view.selection.runs == (1, 2)


def _pixels(image: QImage) -> bytes:
    return bytes(image.convertToFormat(QImage.Format.Format_RGB32).constBits())


@pytest.mark.parametrize("mode", ["side-by-side", "speculative"])
def test_every_picture_is_of_one_moment_and_no_lane_jumps(make_timeline, application, mode: str) -> None:
    """What was drawn after each refresh is what a drawing from nothing gives, and shows the chosen runs alone."""
    recording = RecordLog()
    view = make_timeline(recording)
    following = RunFollowing(view.controller, view.selection)
    choice = ModelChoice("scripted")
    request = RunRequest(mode, Sample("/gone/a.npy", "/gone/a.mp4", "?", "scene"), choice, choice, repeat=3)
    played = threading.Thread(target=ScriptedEngine(speed=25).run, args=(request, recording, threading.Event()))
    played.start()
    heights = set()
    while played.is_alive() or view.scene.is_running:
        view.controller.pull()
        application.processEvents()
        drawn = view.screen().grabWindow(view.winId()).toImage()
        for lane in view.lanes:
            lane.refresh()
        assert _pixels(drawn) == _pixels(view.grab().toImage())
        assert {track.run.run_id for _, track in view.scene.shown} <= set(view.selection.runs)
        if view.scene.shown:
            heights.add(tuple(lane.height() for lane in view.stack.in_sight()))
    played.join()
    assert len(heights) == 1
    assert following.is_on
    view.controller.pull()
    runs = view.controller.runs
    assert view.selection.runs == pair_for(runs, typical_repeat(runs, runs))
