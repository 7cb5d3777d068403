"""Between host and views: what is told, in which order, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evprof.core.errors import UserError
from evprof.core.protocols import Message, RequestEnded, RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, TARGET, SpanRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import FAILED, FINISHED, RunInfo
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from kept import Keep
from ui.state.run_controller import FEW_CORES, FEW_CORES_TICK_MS, TICK_MS, RunController


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
def busy_controller(host: Host, keep: Keep) -> RunController:
    return keep(RunController(host.recording, host))


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


@pytest.mark.parametrize(("cores", "tick_ms"), [(2, FEW_CORES_TICK_MS), (FEW_CORES, TICK_MS)])
def test_the_window_ticks_more_seldom_on_few_cores(cores: int, tick_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.state.run_controller._core_count", lambda: cores)
    assert RunController(RecordLog())._timer.interval() == tick_ms


def test_a_tick_takes_in_all_rows_and_updates_the_views_in_one_go(
    host: Host, busy_controller: RunController, wait_until: Callable[..., object]
) -> None:
    seen: list[str] = []
    busy_controller.runs_changed.connect(lambda _: seen.append("rows"))
    busy_controller.figures_due.connect(lambda _: seen.append("figures"))
    busy_controller.ticked.connect(lambda: seen.append("tick"))
    busy_controller.submit(_request())
    busy_controller.start()
    wait_until(lambda: seen.count("tick") > 1)
    assert seen[:4] == ["rows", "figures", "tick", "tick"]


def test_figures_follow_a_running_run_seldom_and_its_end_at_once(host: Host, busy_controller: RunController) -> None:
    due: list[set[int]] = []
    busy_controller.figures_due.connect(due.append)
    busy_controller.submit(_request())
    busy_controller._tick()
    assert due == [{1}]
    for _ in range(2):
        host.recording.extend("kv", [(1, TARGET, 5, 5, 5)])
        busy_controller._tick()
    assert due == [{1}]
    host.end()
    busy_controller._tick()
    assert due == [{1}, {1}]


@pytest.mark.parametrize("status", [FAILED, "cancelled"])
def test_what_waits_is_dropped_when_a_run_does_not_finish(
    host: Host, busy_controller: RunController, status: str
) -> None:
    busy_controller.submit(_request(), _request())
    busy_controller.submit(_request())
    host.end(status)
    for _ in range(3):
        busy_controller.pull()
    assert [request.group_id for request in host.requests] == [1, 2], "the request of another call goes on"
    assert not busy_controller.waiting


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
