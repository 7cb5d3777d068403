"""Between host and views: what is told, in which order, and what is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evprof.core.errors import UserError
from evprof.core.messages import Message, RequestEnded, RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, TARGET, SpanRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import FAILED, FINISHED, RunInfo
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.videos import track
from evprof.run.processes.giving_way import WINDOW
from evprof.run.processes.idle_cores import IdleCores
from scripted_engine import ScriptedEngine
from ui.state.look_rate import (
    FEW_CORES,
    HARDLY_IDLE,
    MANY_ROWS,
    PULL_INTERVAL_MS,
    QUICKEST_MS,
    SLOWEST_MS,
    SPARING_SHARE,
)
from ui.state.run_controller import RunController
from ui.state.window_session import WindowSession
from ui.window.housekeeping import Housekeeping
from ui.window.trace_viewer import TraceViewer


class Host:
    """A host that only notes what it is asked."""

    def __init__(self, recording: RecordLog) -> None:
        self.recording = recording
        self.requests: list[RunRequest] = []
        self.is_busy = False
        self.is_closed = False

    def submit(self, request: RunRequest) -> None:
        self.is_busy = True
        self.requests.append(request)
        run_id = request.first_run_id
        self.recording.post(RunStarted(run_id, RunInfo(run_id, request.group_id, 0, TARGET, "target")))

    def end(self, status: str = FINISHED) -> None:
        run_id = self.requests[-1].first_run_id
        self.recording.post(RunEnded(run_id, status))
        self.recording.post(RequestEnded(run_id))
        self.is_busy = False

    def stop(self) -> None:
        self.end("cancelled")

    def attach(self, recording: RecordLog) -> None:
        if self.is_busy:
            raise UserError("A run is going on.")
        self.recording = recording

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def host() -> Host:
    return Host(RecordLog())


@pytest.fixture
def busy_controller(host: Host, application: object) -> Iterator[RunController]:
    controller = RunController(host.recording, host)
    yield controller
    controller.close()


def _request() -> RunRequest:
    return RunRequest("target", Sample(video_path="a.mp4"), target=ModelChoice("x"))


def test_rows_are_in_the_book_before_their_message_is_told(host: Host, busy_controller: RunController) -> None:
    seen: list[tuple[str, int]] = []

    def take(message: Message) -> None:
        seen.append((type(message).__name__, len(busy_controller.runs[1].spans)))

    busy_controller.message.connect(take)
    busy_controller.submit(_request())
    host.recording.append(SpanRecord(1, 0, -1, BEGIN, TARGET, "load", 5, -1))
    host.end()
    busy_controller.pull()
    assert seen == [("RunStarted", 1), ("RunEnded", 1), ("RequestEnded", 1)]


@pytest.mark.parametrize(("cores", "interval_ms"), [(2, QUICKEST_MS), (FEW_CORES, PULL_INTERVAL_MS)])
def test_on_few_cores_the_window_looks_more_seldom_while_something_is_measured(
    cores: int, interval_ms: int, host: Host, busy_controller: RunController, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(track, "usable_threads", lambda: cores)
    monkeypatch.setattr(WINDOW, "begin", lambda: done.append("lower"))
    monkeypatch.setattr(WINDOW, "end", lambda: done.append("as before"))
    timer = busy_controller._timer
    assert timer.interval() == PULL_INTERVAL_MS
    busy_controller.submit(_request())
    assert (timer.interval(), done) == (interval_ms, ["lower"])
    host.end()
    busy_controller.pull()
    assert (timer.interval(), done[-1]) == (PULL_INTERVAL_MS, "as before")
    busy_controller.hold(True)  # something else is measured
    assert (timer.interval(), done[-1]) == (interval_ms, "lower")
    busy_controller.hold(False)
    assert (timer.interval(), done[-1]) == (PULL_INTERVAL_MS, "as before")


@pytest.fixture
def worked_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the window's thread has worked, on a machine of two cores."""
    worked = [0.0]
    monkeypatch.setattr(IdleCores, "since_last", lambda _: 0.0)
    monkeypatch.setattr(track, "usable_threads", lambda: 2)
    monkeypatch.setattr(WINDOW, "begin", lambda: None)
    monkeypatch.setattr(WINDOW, "end", lambda: None)
    monkeypatch.setattr(time, "thread_time", lambda: worked[0])
    return worked


def test_on_few_cores_the_window_looks_the_more_seldom_the_more_a_look_costs(
    host: Host, busy_controller: RunController, worked_s: list[float]
) -> None:
    rate = busy_controller.rate

    def look(cost_ms: float) -> float:
        worked_s[0] += cost_ms / 1000
        busy_controller.pull()
        return rate.interval_ms

    busy_controller.submit(_request())
    assert look(0.5) == QUICKEST_MS
    dearer = [look(9) for _ in range(12)]
    assert dearer == sorted(dearer)
    assert dearer[-1] == pytest.approx(9 / SPARING_SHARE, abs=2)
    assert WINDOW.stretch == pytest.approx(dearer[-1] / PULL_INTERVAL_MS)
    assert [look(500) for _ in range(12)][-1] == pytest.approx(SLOWEST_MS, abs=2)
    assert [look(0.5) for _ in range(12)][-1] == pytest.approx(QUICKEST_MS, abs=2)
    host.end()
    busy_controller.pull()
    assert (rate.interval_ms, WINDOW.stretch) == (PULL_INTERVAL_MS, 1.0)


def test_what_the_engine_leaves_idle_is_used(
    busy_controller: RunController, worked_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    busy_controller.submit(_request())

    def rests_at(idle: float) -> float:
        monkeypatch.setattr(IdleCores, "since_last", lambda _: idle)
        for _ in range(20):
            worked_s[0] += 0.03
            busy_controller.pull()
        return busy_controller.rate.interval_ms

    assert rests_at(HARDLY_IDLE) == pytest.approx(rests_at(0.0), abs=2)
    assert rests_at(HARDLY_IDLE) > 3_000
    assert rests_at(1.0) < 200


def test_a_look_that_is_not_due_is_made_where_much_has_come_or_the_engine_has_ended(
    host: Host, busy_controller: RunController, worked_s: list[float]
) -> None:
    seen: list[str] = []
    busy_controller.submit(_request())
    for _ in range(12):
        worked_s[0] += 1.0
        busy_controller.pull()
    busy_controller.runs_changed.connect(lambda _: seen.append("rows"))
    busy_controller.busy_changed.connect(lambda is_busy: seen.append("busy" if is_busy else "over"))

    def ask(rows: int) -> list[str]:
        host.recording.extend("kv", [(1, TARGET, 5, 5, 5)] * rows)
        busy_controller._look()
        return seen

    assert ask(MANY_ROWS - 1) == []
    assert ask(1) == ["rows"]
    assert ask(1) == ["rows"]
    host.end()
    assert ask(0) == ["rows", "rows", "over"]


def test_the_timer_takes_in_first_and_shows_in_another_turn(
    host: Host, busy_controller: RunController, application: object, wait_until: Callable[..., object]
) -> None:
    seen: list[str] = []
    busy_controller.runs_changed.connect(lambda _: seen.append("taken in"))
    busy_controller.ticked.connect(lambda: seen.append("shown"))
    busy_controller.submit(_request())
    busy_controller.start()
    wait_until(lambda: "taken in" in seen)
    assert seen[-1] == "taken in"
    wait_until(lambda: seen[-1] == "shown")
    assert seen.count("taken in") == 1


def test_requests_wait_for_one_another_and_are_numbered_then(host: Host, busy_controller: RunController) -> None:
    busy: list[bool] = []
    busy_controller.busy_changed.connect(busy.append)
    busy_controller.submit(_request(), _request())
    busy_controller.pull()
    assert [request.first_run_id for request in host.requests] == [1]
    host.end()
    busy_controller.pull()
    busy_controller.pull()
    assert [(request.first_run_id, request.group_id) for request in host.requests] == [(1, 1), (2, 2)]
    host.end()
    busy_controller.pull()
    assert busy[0] is True
    assert busy[-1] is False


@pytest.mark.parametrize("status", [FAILED, "cancelled"])
def test_what_waits_is_dropped_when_a_run_does_not_finish(
    host: Host, busy_controller: RunController, status: str
) -> None:
    busy_controller.submit(_request(), _request())
    host.end(status)
    for _ in range(3):
        busy_controller.pull()
    assert len(host.requests) == 1


def test_without_an_engine_a_sentence_says_so(application: object) -> None:
    with pytest.raises(UserError, match="still starting"):
        RunController(RecordLog()).submit(_request())


def test_what_is_asked_for_during_a_run_waits_in_a_queue(host: Host, busy_controller: RunController) -> None:
    busy_controller.submit(_request())
    busy_controller.submit(_request())
    busy_controller.submit(_request())
    second, third = busy_controller.waiting
    busy_controller.put_first(third)
    assert busy_controller.waiting == (third, second)
    busy_controller.remove_waiting(third)
    assert busy_controller.waiting == (second,)
    assert len(host.requests) == 1
    host.end()
    busy_controller.pull()
    busy_controller.pull()
    assert len(host.requests) == 2
    assert not busy_controller.waiting


def test_a_run_that_fails_drops_what_was_asked_for_with_it_and_nothing_else(
    host: Host, busy_controller: RunController
) -> None:
    busy_controller.submit(_request(), _request())
    busy_controller.submit(_request())
    busy_controller.pull()
    host.end(FAILED)
    busy_controller.pull()
    busy_controller.pull()
    assert len(host.requests) == 2
    assert not busy_controller.waiting


def test_nothing_begins_while_something_else_needs_the_machine(host: Host, busy_controller: RunController) -> None:
    busy_controller.hold(True)
    busy_controller.submit(_request())
    busy_controller.pull()
    assert not host.requests
    busy_controller.hold(False)
    assert len(host.requests) == 1


def test_another_recording_begins_afresh_but_not_during_a_run(host: Host, busy_controller: RunController) -> None:
    busy_controller.submit(_request())
    busy_controller.pull()
    with pytest.raises(UserError):
        busy_controller.replace_recording(RecordLog())
    assert list(busy_controller.runs) == [1]
    host.end()
    told: list[bool] = []
    busy_controller.session_replaced.connect(lambda: told.append(True))
    fresh = RecordLog()
    busy_controller.replace_recording(fresh)
    assert told == [True]
    assert busy_controller.runs == {}
    assert host.recording is fresh


def test_closing_ends_the_engine_once(host: Host, busy_controller: RunController) -> None:
    busy_controller.close()
    busy_controller.close()
    assert host.is_closed
    assert not busy_controller.has_host


def test_housekeeping_gives_everything_back(busy_controller: RunController) -> None:
    import gc
    import sys

    before = (gc.isenabled(), sys.getswitchinterval())
    keeper = Housekeeping(busy_controller)
    keeper.start()
    assert (gc.isenabled(), sys.getswitchinterval()) != before
    keeper.stop()
    assert (gc.isenabled(), pytest.approx(sys.getswitchinterval())) == before


def test_what_is_there_when_all_is_imported_is_not_looked_through_again(
    busy_controller: RunController, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., Any]
) -> None:
    import gc

    monkeypatch.setattr("ui.window.housekeeping.MODULES", ("json",))
    monkeypatch.setattr(type(busy_controller), "is_busy", False)
    keeper = Housekeeping(busy_controller)
    keeper.start()
    try:
        wait_until(lambda: gc.get_freeze_count() > 0)
        kept = len(gc.get_objects())
    finally:
        keeper.stop()
    assert gc.get_freeze_count() == 0
    assert len(gc.get_objects()) > 2 * kept


def test_without_a_trace_tensorboard_is_not_started(busy_controller: RunController) -> None:
    said: list[str] = []
    viewer = TraceViewer(WindowSession(busy_controller), busy_controller, lambda sentence, *_: said.append(sentence))
    viewer.open()
    assert viewer.newest is None
    assert said == ["There is no torch trace in this session; switch on Trace and press Run."]


def test_what_a_drafted_run_is_weighed_against_is_noted_when_its_request_ends(application: object) -> None:
    recording, engine = RecordLog(), ScriptedEngine(speed=500)
    controller = RunController(recording)
    for number, mode in enumerate(("target", "speculative")):
        sample = Sample("e.npy", "v.mp4", prompt="What?")
        request = RunRequest(
            mode, sample, ModelChoice("d"), ModelChoice("t"), warmup=None, first_run_id=1 + 10 * number
        )
        engine.run(request, recording, threading.Event())
        controller.pull()
    controller.pull()
    plain, drafted = ([run for run in controller.runs.values() if run.info.mode == mode] for mode in MODES)
    assert [run.info.baseline for run in plain] == [[], []]
    assert [run.info.baseline for run in drafted if not run.info.warmup] == [[plain[1].run_id]]


MODES = ("target", "speculative")
