"""An engine in this process: the same Recording as through a pipe, Ctrl-C once and twice, and defects of engines."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from benchmarks.synthetic_engine import SyntheticEngine
from evprof.core.errors import UserError
from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.run_info import RunInfo
from evprof.run.processes.runner import LocalRunner
from scripted_engine import ScriptedEngine
from scripted_process import DeafEngine


def test_runs_are_the_same_as_through_the_pipe(request_for, start_host, wait_until, book_of):
    request = request_for(mode="speculative")
    here = RecordLog()
    with LocalRunner(lambda: ScriptedEngine(speed=50), here) as runner:
        runner.run(request)
    host, there = start_host("script:50")
    host.submit(request)
    wait_until(lambda: not host.is_busy)
    for stream in ("spans", "tensors", "tokens", "rounds", "kv", "frames"):
        timeless = [name for name in here.streams[stream].column_names if not name.endswith("_ns")]
        for name in timeless:
            assert list(here.streams[stream].column(name)) == list(there.streams[stream].column(name)), (stream, name)
    assert book_of(here).runs[1].info.text == book_of(there).runs[1].info.text
    assert len(here.streams["memory"]) > 0


def interrupt_when(recording: RecordLog, rows: int, times: int) -> threading.Thread:
    def send() -> None:
        while recording.row_count < rows:
            time.sleep(0.01)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_the_first_ctrl_c_stops_and_keeps_what_was_measured(request_for, book_of):
    recording = RecordLog()
    before = signal.getsignal(signal.SIGINT)
    with LocalRunner(lambda: SyntheticEngine(400, 30), recording) as runner:
        sender = interrupt_when(recording, 50, 1)
        runner.run(request_for())
        sender.join()
    run = book_of(recording).runs[1]
    assert run.info.status == "cancelled"
    assert len(run.tokens) >= 10
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_ctrl_c_breaks_off_and_the_run_says_so(request_for, book_of):
    recording = RecordLog()
    runner = LocalRunner(lambda: DeafEngine(400, 1.5), recording)
    sender = interrupt_when(recording, 50, 2)
    with pytest.raises(KeyboardInterrupt):
        runner.run(request_for())
    sender.join()
    assert book_of(recording).runs[1].info.status == "cancelled"
    assert "second Ctrl-C" in book_of(recording).runs[1].info.error
    runner.close()


class FaultyEngine(SyntheticEngine):
    """Begins a run and then breaks."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__(100, 1)
        self.error = error

    def run(self, request, sink, stop):
        sink.post(RunStarted(request.first_run_id, RunInfo(request.first_run_id, 1, 0, "draft", "draft")))
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RuntimeError("bad index"), "The engine failed: RuntimeError: bad index"),
        (UserError("The disk is full; free some space."), "The disk is full; free some space."),
        (None, "The engine stopped without saying how this run ended."),
    ],
)
def test_a_defect_of_the_engine_fails_its_run_and_the_runner_goes_on(request_for, book_of, capsys, error, sentence):
    recording = RecordLog()
    with LocalRunner(lambda: FaultyEngine(error), recording) as runner:
        for run_id in (1, 2):
            runner.run(request_for(mode="draft", first_run_id=run_id))
    assert [(run.info.status, run.info.error) for run in book_of(recording).runs.values()] == [("failed", sentence)] * 2


@pytest.mark.parametrize("error", [UserError("No such model; choose another."), ImportError("torch")])
def test_an_engine_that_cannot_be_made_is_a_sentence(request_for, book_of, error):
    def make():
        raise error

    recording = RecordLog()
    runner = LocalRunner(make, recording)
    with pytest.raises(UserError, match=r"No such model|ImportError: torch"):
        runner.run(request_for())
    assert book_of(recording).runs[1].info.status == "failed"
    runner.close()
