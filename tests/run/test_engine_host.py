"""The window's worker and a real engine process: runs, stops, deaths and what is left in the Recording."""

from __future__ import annotations

import os
import signal
import sys
import time

import psutil
import pytest

from evprof.core.errors import UserError
from evprof.core.protocols import EngineChanged, RequestEnded, RunEnded
from evprof.core.recording import RecordLog
from evprof.run.processes import engine_host
from evprof.run.processes.engine_host import EngineHost
from scripted_process import engine_argv


def test_two_requests_on_one_warm_process(start_host, request_for, wait_until, book_of):
    host, recording = start_host("script:40")
    host.start()
    host.submit(request_for())
    assert host.is_busy
    wait_until(lambda: not host.is_busy)
    pid = host.pid
    host.submit(request_for(mode="speculative", first_run_id=3, group_id=2))
    wait_until(lambda: not host.is_busy)
    assert host.pid == pid is not None
    runs = book_of(recording).runs
    assert sorted(runs) == [1, 2, 3]
    assert {run.info.status for run in runs.values()} == {"finished"}
    assert [span.name for span in runs[1].stages()] == ["load", "preprocess", "vision", "prefill", "decode"]
    assert runs[3].rounds
    assert runs[3].rejected
    assert runs[2].info.text == runs[3].info.text
    assert all(run.memory and run.memory[0].rss_bytes > 1 << 20 for run in runs.values())
    states = [message.state for message in recording.messages() if isinstance(message, EngineChanged)]
    assert states[0] == "starting"
    assert states.index("ready") < states.index("busy")


def test_whoever_sees_a_run_end_has_seen_its_rows(start_host, request_for):
    """Reads as a view does, all the time, and counts at each end what was there by then."""
    host, recording = start_host("script:60")
    host.submit(request_for())
    cursor, seen = recording.cursor(), dict.fromkeys(recording.streams, 0)
    at_end: dict[int, dict[str, int]] = {}
    while len(at_end) < 2:
        news = cursor.read()
        for name, (_, stop) in news.ranges.items():
            seen[name] = stop
        for message in news.messages:
            if isinstance(message, RunEnded):
                at_end[message.run_id] = {
                    name: sum(1 for row in recording.streams[name].rows(0, seen[name]) if row[0] == message.run_id)
                    for name in seen
                }
    final = {
        run_id: {
            name: sum(1 for row in stream.rows() if row[0] == run_id) for name, stream in recording.streams.items()
        }
        for run_id in (1, 2)
    }
    assert at_end == final
    assert final[2]["tokens"] > 20


def test_a_killed_engine_fails_its_run_keeps_the_records_and_the_next_run_works(
    start_host, request_for, wait_until, book_of
):
    host, recording = start_host("rate:2000:30")
    host.submit(request_for())
    wait_until(lambda: len(recording.streams["tokens"]) > 200)
    before, first_pid = len(recording.streams["tokens"]), host.pid
    os.kill(first_pid, signal.SIGKILL)
    wait_until(lambda: not host.is_busy)
    run = book_of(recording).runs[1]
    assert run.info.status == "failed"
    assert "SIGKILL" in run.info.error
    assert run.info.error.endswith(".")
    assert len(run.tokens) >= before
    assert isinstance(recording.messages()[-1], EngineChanged | RequestEnded)
    host.submit(request_for(first_run_id=2, group_id=2))
    wait_until(lambda: 2 in book_of(recording).runs and host.pid not in (None, first_pid))
    wait_until(lambda: len(book_of(recording).runs[2].tokens) > 20)
    host.stop()
    wait_until(lambda: not host.is_busy)
    assert book_of(recording).runs[2].info.status == "cancelled"


def test_stop_is_answered_and_the_process_stays(start_host, request_for, wait_until, book_of, monkeypatch):
    monkeypatch.setattr(engine_host, "STOP_PATIENCE_S", 3600)
    host, recording = start_host("rate:1000:3600")
    host.submit(request_for())
    wait_until(lambda: len(recording.streams["tokens"]) > 20)
    pid = host.pid
    host.stop()
    wait_until(lambda: not host.is_busy)
    assert host.pid == pid
    assert book_of(recording).runs[1].info.status == "cancelled"
    time.sleep(0.1)
    host.submit(request_for(first_run_id=2))
    wait_until(lambda: 2 in book_of(recording).runs)
    host.stop()
    wait_until(lambda: not host.is_busy)
    assert host.pid == pid


def test_stop_without_an_answer_ends_the_process_and_says_so(start_host, request_for, wait_until, book_of):
    host, recording = start_host("deaf:1000:3600")
    host.submit(request_for())
    wait_until(lambda: len(recording.streams["tokens"]) > 20)
    pid, before = host.pid, len(recording.streams["tokens"])
    host.stop()
    host.stop()
    wait_until(lambda: not host.is_busy)
    assert engine_host.STOP_PATIENCE_S == 2.0
    run = book_of(recording).runs[1]
    assert run.info.status == "cancelled"
    assert "loaded again at the next run" in run.info.error
    # Everything up to the end was kept: tokens came while the answer was waited for, too.
    assert len(run.tokens) > before + 20
    wait_until(lambda: not psutil.pid_exists(pid))
    host.submit(request_for(first_run_id=2))
    wait_until(lambda: 2 in book_of(recording).runs)
    assert host.pid != pid


def test_an_engine_that_cannot_start_fails_the_run_with_its_last_words(start_host, request_for, wait_until, book_of):
    host, recording = start_host("die")
    host.submit(request_for())
    wait_until(lambda: not host.is_busy)
    run = book_of(recording).runs[1]
    assert (run.info.status, run.info.mode) == ("failed", "side-by-side")
    assert "exit code 3" in run.info.error


def test_one_request_at_a_time(start_host, request_for, wait_until):
    host, _ = start_host("rate:100:30")
    host.submit(request_for())
    with pytest.raises(UserError, match="going on"):
        host.submit(request_for(first_run_id=2))
    with pytest.raises(UserError, match="going on"):
        host.attach(RecordLog())
    host.stop()
    wait_until(lambda: not host.is_busy)


def test_closing_in_mid_run_cancels_it_and_leaves_no_process(start_host, request_for, wait_until, book_of):
    host, recording = start_host("deaf:1000:3600")
    host.submit(request_for())
    wait_until(lambda: len(recording.streams["tokens"]) > 20)
    pid = host.pid
    host.close()
    assert not psutil.pid_exists(pid)
    assert book_of(recording).runs[1].info.status == "cancelled"
    host.close()
    host.stop()
    with pytest.raises(UserError, match="closed"):
        host.submit(request_for())


def test_an_attached_recording_begins_with_the_state_of_the_engine(start_host, request_for, wait_until, book_of):
    host, first = start_host("script:60")
    host.submit(request_for(mode="draft"))
    wait_until(lambda: not host.is_busy and getattr(first.messages()[-1], "state", "") == "ready")
    second = RecordLog()
    host.attach(second)
    wait_until(lambda: second.message_count > 0)
    state = second.messages()[0]
    assert (state.state, state.environment["device"]) == ("ready", "scripted")
    count = first.message_count
    host.submit(request_for(mode="target"))
    wait_until(lambda: not host.is_busy)
    assert book_of(second).runs[1].info.role == "target"
    assert first.message_count == count


_NONSENSE = """
from evprof.run.processes.channel import connect_to_host
connection = connect_to_host()
connection.recv()
connection.send([("kv", [(1, "draft", "not a number", 0, 0)])])
connection.recv()
"""


def test_rows_that_fit_no_column_fail_the_run_and_not_the_window(request_for, wait_until, book_of):
    recording = RecordLog()
    host = EngineHost([sys.executable, "-c", _NONSENSE], recording)
    for run_id in (1, 2):
        host.submit(request_for(first_run_id=run_id))
        wait_until(lambda: not host.is_busy)
    assert ["cannot be recorded" in run.info.error for run in book_of(recording).runs.values()] == [True, True]
    assert recording.row_count == 0
    host.close()


def test_a_lost_gpu_ends_its_process_and_the_next_run_has_a_fresh_one(start_host, request_for, wait_until, book_of):
    host, recording = start_host("lost")
    pids = []
    for run_id in (1, 2, 3):
        host.submit(request_for(first_run_id=run_id))
        wait_until(lambda: not host.is_busy)
        run = book_of(recording).runs[run_id]
        assert (run.info.status, run.info.error) == ("failed", "The GPU failed (unspecified launch failure).")
        starts = [m.pid for m in recording.messages() if isinstance(m, EngineChanged) and m.state == "starting"]
        pids.append(starts[-1])
    assert len(set(pids)) == 3
    wait_until(lambda: host.pid is None)
    assert not any(psutil.pid_exists(pid) for pid in pids[:2])


def test_an_engine_that_hangs_is_ended_after_the_time_that_was_asked_for(request_for, wait_until, book_of):
    recording = RecordLog()
    host = EngineHost(engine_argv("hang:draft"), recording, timeout_s=1.0)
    try:
        host.submit(request_for(mode="draft"))
        wait_until(lambda: not host.is_busy)
        run = book_of(recording).runs[1]
        assert (run.info.status, run.info.error) == (
            "failed",
            "The engine made no progress for 1 s and was ended, as --timeout asked for.",
        )
        host.submit(request_for(first_run_id=2))
        wait_until(lambda: not host.is_busy)
        assert book_of(recording).runs[2].info.status == "finished"
    finally:
        host.close()
