"""Several fresh engine processes behind one command."""

from __future__ import annotations

import os
import signal
import threading

import pytest

pytestmark = pytest.mark.usefixtures("processes")


def test_every_process_warms_up_and_measures_the_same_request(evprof, tmp_path) -> None:
    path = tmp_path / "s.evprof"
    found = evprof("run", "--mode", "target", "--processes", 3, "--repeat", 2, "-o", path, "--json")
    assert found.code == 0, found.errors
    runs = found.document["runs"]
    assert [run["run_id"] for run in runs] == list(range(1, 10))
    assert [run["warmup"] for run in runs] == [True, False, False] * 3
    assert [run["repeat"] for run in runs if not run["warmup"]] == list(range(6))
    assert len({run["group_id"] for run in runs}) == 1
    named = [run["engine_session"] for run in runs]
    assert [named[place : place + 3] for place in (0, 3, 6)] == [[name] * 3 for name in dict.fromkeys(named)]
    assert len(set(named)) == 3
    assert "process 2 of 3" in found.errors


def test_a_report_asks_for_as_many_processes_again(evprof, tmp_path) -> None:
    path = tmp_path / "s.evprof"
    evprof("run", "--sessions", 2, "--repeat", 3, "-o", path)
    assert evprof("report", path, "-o", tmp_path / "r.md").code == 0
    [line] = [line for line in (tmp_path / "r.md").read_text().splitlines() if line.startswith("evprof run")]
    assert "--repeat 3 --processes 2" in line
    assert "--warmup" not in line


def test_ctrl_c_keeps_what_was_measured_and_begins_no_further_process(evprof, tmp_path) -> None:
    path = tmp_path / "s.evprof"
    timer = threading.Timer(4.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        found = evprof("run", "--mode", "target", "--processes", 50, "--repeat", 3, "-o", path, "--json")
    finally:
        timer.cancel()
    assert found.code == 130
    assert {run["status"] for run in found.document["runs"]} <= {"finished", "cancelled"}
    assert "process 50 of 50" not in found.errors
