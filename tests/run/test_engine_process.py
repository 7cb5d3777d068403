"""The engine process by itself: a reader that stops, ends of either side, channels, and what it asks of Linux."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from evprof.core.errors import UserError
from evprof.core.protocols import RequestEnded
from evprof.core.recording import RecordLog
from evprof.core.run_log import RunBook
from evprof.run.processes.channel import ListeningChannel, apply_part
from evprof.run.processes.engine_host import EngineProcess
from scripted_process import engine_argv

RATE, SECONDS, PAUSE_S = 10_000, 6.0, 5.0


def receive_until(process, recording, condition):
    while not condition():
        for part in process.receive():
            apply_part(part, recording)


def receive_until_over(process, recording, requests=1):
    def is_over():
        return sum(isinstance(message, RequestEnded) for message in recording.messages()) == requests

    receive_until(process, recording, is_over)


def test_with_the_reader_stopped_for_five_seconds_the_engine_goes_on_and_nothing_is_lost(start_process, request_for):
    process, recording = start_process(f"rate:{RATE}:{SECONDS:.0f}"), RecordLog()
    process.send(request_for().to_json())
    receive_until(process, recording, lambda: len(recording.streams["tokens"]))
    stopped_ns = time.perf_counter_ns()
    time.sleep(PAUSE_S)
    receive_until_over(process, recording)

    tokens = recording.streams["tokens"]
    assert tokens.column("position").tolist() == list(range(int(RATE * SECONDS) // 4))
    assert len(recording.streams["kv"]) == len(tokens)
    # In the unread time far more was recorded than a pipe holds ...
    times = tokens.column("t_ns")
    unread = (times > stopped_ns) & (times < stopped_ns + PAUSE_S * 1e9)
    assert int(unread.sum()) * 4 * 50 > 10 * 65_536
    assert (np.diff(times) >= 0).all()
    run = RunBook(recording)
    run.update()
    assert run.runs[1].info.status == "finished"


def test_when_the_host_hangs_up_the_engine_ends_in_mid_run(start_process, request_for, wait_until):
    process = start_process("deaf:1000:3600")
    process.send(request_for().to_json())
    for _ in range(5):
        process.receive()
    process.connection.close()
    wait_until(lambda: not psutil.pid_exists(process.pid) or psutil.Process(process.pid).status() == "zombie")


def test_what_a_killed_engine_had_sent_can_still_be_read(start_process, request_for):
    process, recording = start_process("rate:2000:3600"), RecordLog()
    process.send(request_for().to_json())
    receive_until(process, recording, lambda: len(recording.streams["tokens"]))
    before = len(recording.streams["tokens"])
    assert process.connection.poll(300)
    process.kill()
    for part in process.leftovers():
        apply_part(part, recording)
    assert recording.streams["tokens"].column("position").tolist() == list(range(len(recording.streams["tokens"])))
    assert len(recording.streams["tokens"]) > before
    assert "SIGKILL" in process.reap()


_HOST = """
import sys, time
from evprof.run.processes.engine_host import EngineProcess
from evprof.core.request import ModelChoice, RunRequest
from evprof.core.sample import Sample
process = EngineProcess(sys.argv[1:])
process.send(RunRequest("target", Sample(video_path="absent"), None, ModelChoice("m")).to_json())
for _ in range(5):
    process.receive()
print(process.pid, flush=True)
time.sleep(3600)
"""


def test_a_killed_host_leaves_no_orphan(wait_until):
    host = subprocess.Popen(
        [sys.executable, "-c", _HOST, *engine_argv("deaf:1000:3600")], stdout=subprocess.PIPE, text=True
    )
    engine = psutil.Process(int(host.stdout.readline()))
    assert engine.is_running()
    host.kill()
    host.wait()
    host.stdout.close()
    wait_until(lambda: not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's /proc")
def test_the_engine_leaves_ctrl_c_to_the_host_and_offers_itself_when_memory_runs_out(start_process, request_for):
    process, recording = start_process("rate:100:1"), RecordLog()
    process.send(request_for().to_json())
    process.receive()
    os.kill(process.pid, signal.SIGINT)
    assert Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip() == "1000"
    receive_until_over(process, recording)
    assert len(recording.streams["tokens"]) == 25


def test_the_channel_of_windows_works_here_too(start_process, request_for):
    process, recording = start_process("script:60", channel=ListeningChannel()), RecordLog()
    process.send(request_for(mode="draft").to_json())
    receive_until_over(process, recording)
    assert len(recording.streams["tokens"]) > 10


def test_a_child_that_dies_before_it_connects_is_not_waited_for():
    with pytest.raises(UserError, match="did not connect"):
        EngineProcess([sys.executable, "-c", ""], channel=ListeningChannel(accept_timeout_s=3600))


def test_a_stop_that_comes_late_does_not_hit_the_next_request(start_process, request_for):
    process, recording = start_process("rate:400:0.2"), RecordLog()
    process.send(request_for().to_json())
    receive_until_over(process, recording)
    process.send(None)
    process.send(request_for(first_run_id=2).to_json())
    receive_until_over(process, recording, requests=2)
    book = RunBook(recording)
    book.update()
    assert [run.info.status for run in book.runs.values()] == ["finished", "finished"]
