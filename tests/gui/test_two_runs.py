"""Two runs beside each other: which lanes and heads say what, whichever runs are A and B."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from PySide6.QtWidgets import QApplication

from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, ORIGIN_TARGET, TARGET, SpanRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from scripted_engine import ScriptedEngine
from ui.runs.inspector import Inspector
from ui.state.run_controller import RunController
from ui.state.selection import Selection, SpanRef, TimeRange
from ui.timeline.stage_lane import StageLane
from ui.timeline.timeline_view import TimelineView

MS = 1_000_000

EVENTS, VIDEO, SPECULATIVE, PLAIN = 1, 2, 3, 4
"""The scripted runs: two side by side, a speculative one, the target alone."""


@pytest.fixture
def view(make_timeline: Callable[..., TimelineView], controller: RunController) -> TimelineView:
    return make_timeline(controller, size=(1280, 560))


def _stage_lanes(view: TimelineView) -> list[tuple[str, str]]:
    lanes = [lane for lane in view.lanes if isinstance(lane, StageLane) and not lane.isHidden()]
    return [lane.names() for lane in sorted(lanes, key=lambda lane: lane.y())]


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        (
            (SPECULATIVE, PLAIN),
            [
                ("A · run 3", "EventGPT · draft"),
                ("A · run 3", "Video-LLaVA · target"),
                ("B · run 4", "Video-LLaVA · target"),
            ],
        ),
        ((SPECULATIVE, SPECULATIVE), [("EventGPT", "draft"), ("Video-LLaVA", "target")]),
        (
            (PLAIN, SPECULATIVE),
            [
                ("A · run 4", "Video-LLaVA · target"),
                ("B · run 3", "EventGPT · draft"),
                ("B · run 3", "Video-LLaVA · target"),
            ],
        ),
    ],
)
def test_every_model_of_a_stands_above_every_model_of_b(
    view: TimelineView, application: QApplication, runs: tuple[int, int], names: list[tuple[str, str]]
) -> None:
    view.selection.set_runs(*runs)
    application.processEvents()
    assert _stage_lanes(view) == names


def _place_of(view: TimelineView, column: int, name: str) -> int:
    """Where a stage of a column's model begins on the axis, in ns."""
    track = view.scene.tracks[column]
    span = track.run.stage(name, track.role)
    return span.start_ns - track.zero_ns


def test_first_tokens_lie_over_each_other(view: TimelineView) -> None:
    view.selection.set_runs(EVENTS, VIDEO)
    apart = [int(track.token_times()[0]) for _, track in view.scene.shown]
    assert apart[0] != apart[1]
    view.aligning.at_first_token()
    first = [int(track.token_times()[0]) for _, track in view.scene.shown]
    assert first[0] == first[1] == apart[0]
    assert view.selection.offset_ns == apart[0] - apart[1]
    assert view.aligning.chip.text().startswith("B +" if apart[0] > apart[1] else "B −")
    assert view.scene.extent()[0] == min(0, view.selection.offset_ns)
    assert view.scene.scale.start_ns < view.scene.extent()[0]


def test_a_chosen_span_lies_over_its_like_whichever_run_it_is_of(view: TimelineView) -> None:
    view.selection.set_runs(PLAIN, SPECULATIVE)
    for column in (0, 1):
        view.aligning.at_start()
        track = view.scene.tracks[column]
        span = track.run.stage("vision", TARGET)
        view.selection.select(SpanRef(track.run.run_id, span.span_id))
        view.aligning.at_span()
        assert _place_of(view, 0, "vision") == _place_of(view, 1, "vision")
    assert view.scene.tracks[3].shift_ns == view.selection.offset_ns  # the draft of B moves with B


def _said(inspector: Inspector, name: str) -> list[str]:
    return [entry.text for part in inspector.sections for entry in part.details if entry.name == name]


def test_a_range_is_the_same_stretch_of_the_axis_in_both_runs(view: TimelineView, inspector: Inspector) -> None:
    view.selection.set_runs(PLAIN, SPECULATIVE)
    view.aligning.at_first_token()
    first = view.scene.tracks[0]
    t_ns = int(first.token_times()[0])
    view.selection.select(TimeRange(t_ns - 1000, t_ns + 1000))
    assert _said(inspector, "tokens") == ["1", "1"]
    view.aligning.at_start()
    assert _said(inspector, "tokens") != ["1", "1"]


def test_the_offset_follows_a_run_that_goes_on(
    make_timeline: Callable[..., TimelineView], selection: Selection, scripted_recording: RecordLog
) -> None:
    view = make_timeline(scripted_recording, PLAIN, 5, clock=lambda: 900 * MS)
    controller = view.controller
    view.aligning.at_first_token()
    scripted_recording.post(RunStarted(5, RunInfo(5, 9, 0, TARGET, "target", start_ns=500 * MS)))
    scripted_recording.append(SpanRecord(5, 0, -1, BEGIN, TARGET, "load", 500 * MS, -1))
    controller.pull()
    assert view.aligning.chip.text() == "no first token yet"
    assert selection.offset_ns == 0
    scripted_recording.append(TokenRecord(5, TARGET, 0, 7, ORIGIN_TARGET, -1, 700 * MS, "▁A"))
    controller.pull()
    times = [int(track.token_times()[0]) for _, track in view.scene.of_each_run]
    assert times[0] == times[1]
    assert selection.offset_ns == times[0] - 200 * MS


def test_two_speculative_runs_each_have_their_rounds(application, make_timeline, selection: Selection) -> None:
    recording, engine = RecordLog(), ScriptedEngine(speed=500)
    sample = Sample("/gone/scene.npy", "/gone/scene.mp4", name="scene")
    for run_id in (1, 2):
        model = ModelChoice("scripted")
        request = RunRequest("speculative", sample, model, model, first_run_id=run_id, group_id=run_id)
        engine.run(request, recording, threading.Event())
    view = make_timeline(recording, 1, 1)
    assert view.rounds_of_a.isHidden()
    selection.set_runs(1, 2)
    application.processEvents()
    lanes = view.rounds_of_a, view.rounds
    assert [lane.track.run.run_id for lane in lanes if lane.track and not lane.isHidden()] == [1, 2]
    assert [lane.names()[0] for lane in lanes] == ["A · run 1", "B · run 2"]
    assert [name for name, _ in _stage_lanes(view)] == ["A · run 1"] * 2 + ["B · run 2"] * 2
