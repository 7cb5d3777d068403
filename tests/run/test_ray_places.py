"""Suites at the places of a Ray cluster of this machine: the same rows as in one process, whatever dies on the way."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest

import driven_suites
from driven_suites import Listening, plan_of, runs_of
from evprof.core.errors import UserError
from evprof.core.files.held_file import HeldFile
from evprof.core.records import STREAMS
from evprof.core.run_info import CANCELLED, ENGINE_SESSION, FAILED, FINISHED, PLACE
from evprof.core.run_log import RunBook
from evprof.metrics.configurations.gathering import last_attempts
from evprof.run.places import ray_cluster, ray_places
from evprof.run.places.place import SeatTerms
from evprof.run.places.ray_cluster import LOCAL, RayCluster
from evprof.run.places.ray_places import PlaceRoom, RayPlaces
from evprof.run.suites.plan import SuitePlan
from evprof.run.suites.suite import MOST_LOSSES, SuiteEnd
from processes_below import command_lines
from scripted_process import engine_argv
from whole_session import load_session

ACTOR = "ray::EngineSeat"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """One of this machine with room for two places; it leaves no process and no file behind."""
    said: list[str] = []
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with RayCluster(LOCAL, said.append, cpus=2) as found:
        folder = _ray_folder()
        assert (folder.parent.name.rpartition("-")[0], folder.parent.stat().st_mode & 0o077) == ("evprof-ray", 0)
        assert said == ["Ray of this machine alone, which listens to nobody else"]
        yield found
        started = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
        assert started
    _, left = psutil.wait_procs(started, timeout=20)
    assert [child for child in left if child.status() != psutil.STATUS_ZOMBIE] == []
    assert not folder.parent.exists()


def _ray_folder() -> Path:
    words = " ".join(line for _, line in command_lines())
    return Path(words.split("/session_", 1)[0].rsplit("=", 1)[1].rsplit(" ", 1)[-1])


def drive(
    cluster: RayCluster | None, plan: SuitePlan, path: Path, watcher: Listening, words: str = "script:200"
) -> SuiteEnd:
    """What is left of a suite, at both places of the cluster; without one in one engine process."""
    argv = engine_argv(words)
    if cluster is None:
        keywords: dict[str, Any] = {"processes": argv, "timeout_s": 60.0}
    else:
        terms = SeatTerms(partial(list, argv), threads=1)
        keywords = {"places": cluster.places(cluster.slots(1, on_gpus=False), terms, watcher.say)}
    return driven_suites.drive(plan, path, pytest.fail, watcher, **keywords)


def rows_of(path: Path) -> dict[Any, Any]:
    """What every row measured but times: tokens, spans, bytes; warm-ups are of a place, not of a row."""
    session = load_session(path)
    book = RunBook(session.recording)
    book.update()
    untimed: dict[int, Counter[Any]] = {run_id: Counter() for run_id in book.runs}
    for name in STREAMS:
        if name not in ("memory", "power"):
            for row in session.recording.streams[name].rows():
                told = {key: value for key, value in row._asdict().items() if not key.endswith(("_ns", "_us"))}
                del told["run_id"]
                untimed[row.run_id][name, repr(told)] += 1
    return {
        run.info.row: (
            run.info.status,
            [token.token_id for token in run.tokens],
            untimed[run.run_id],
            run.info.kv,
            run.info.lengths,
            run.info.text,
            run.info.sample,
        )
        for run in book.runs.values()
        if not run.info.warmup
    }


def owner_of(engine: psutil.Process) -> psutil.Process:
    return next(parent for parent in engine.parents() if ACTOR in " ".join(parent.cmdline()))


def once(count: int, act: Callable[[], None]) -> Callable[[int], None]:
    done: list[bool] = []

    def call(ended: int) -> None:
        if ended >= count and not done:
            done.append(True)
            act()

    return call


@pytest.mark.whole
def test_two_places_leave_the_rows_of_one_process(cluster, tmp_path):
    plan = plan_of(count=3)
    alone, together = tmp_path / "alone.evprof", tmp_path / "together.evprof"
    drive(None, plan, alone, Listening())
    watcher = Listening()
    end = drive(cluster, plan, together, watcher)
    assert (end.measured, end.failed, end.is_stopped) == (len(plan.rows), 0, False)
    assert rows_of(together) == rows_of(alone)
    sessions = {run.info.environment[ENGINE_SESSION] for run in runs_of(together)}
    assert len(sessions) == 2, "both places worked"
    assert {run.info.environment[PLACE] for run in runs_of(together)} == {os.uname().nodename}
    turns: dict[Any, set[str]] = {}
    for run in runs_of(together):
        if not run.info.warmup:
            turn = run.info.sample.name, run.info.repeat
            turns.setdefault(turn, set()).add(run.info.environment[ENGINE_SESSION])
    assert all(len(engines) == 1 for engines in turns.values()), "pairs are of one engine process"


@pytest.mark.whole
@pytest.mark.parametrize("victim", ["engine", "actor"])
def test_a_row_whose_worker_is_killed_is_measured_elsewhere(cluster, tmp_path, victim):
    """kill -9 in the middle of a row, of the engine or of the actor that owns it: no row is lost, and none is twice."""
    plan, path, waits = plan_of(count=2), tmp_path / "killed.evprof", tmp_path / "waits"
    killed: list[int] = []

    def kill(_: int) -> None:
        told = waits.read_text("utf-8") if waits.exists() and not killed else ""
        if told:
            engine = psutil.Process(int(told))
            process = engine if victim == "engine" else owner_of(engine)
            killed.append(process.pid)
            process.kill()

    watcher = Listening(on_look=kill)
    end = drive(cluster, plan, path, watcher, f"wait:{waits}")
    assert killed
    assert (end.measured, end.failed) == (len(plan.rows), 0)
    assert len(watcher.lost) == 1
    assert all("is measured again" in said for said in watcher.said)
    drive(None, plan, tmp_path / "alone.evprof", Listening())
    assert rows_of(path) == rows_of(tmp_path / "alone.evprof")
    measured = [run.info.row for run in runs_of(path) if not run.info.warmup]
    assert sorted(map(str, measured)) == sorted(str(key) for row in plan.rows for key in row.keys)


@pytest.mark.whole
def test_a_row_that_ends_every_worker_has_failed(cluster, tmp_path):
    """It is tried a few times, and the others are measured; engines that only start to die say why."""
    plan, path = plan_of(repeat=1, count=1, grid={"cells": [{"mode": "draft"}]}), tmp_path / "fatal.evprof"
    watcher = Listening()
    end = drive(cluster, plan, path, watcher, "die")
    assert (end.measured, end.failed, len(watcher.lost)) == (1, 1, MOST_LOSSES - 1)
    [run] = runs_of(path)
    assert run.info.status == FAILED
    assert "exit code 3" in run.info.error
    assert run.info.row == plan.rows[0].keys[0]


@pytest.mark.whole
def test_the_first_ctrl_c_keeps_what_was_measured_and_resuming_measures_the_rest(cluster, tmp_path):
    plan, path = plan_of(repeat=1, count=2), tmp_path / "stopped.evprof"
    watcher = Listening(on_look=once(2, lambda: signal.raise_signal(signal.SIGINT)))
    end = drive(cluster, plan, path, watcher, "script:40")
    assert end.is_stopped
    assert watcher.is_stopping
    finished = [run for run in runs_of(path) if run.info.status == FINISHED and not run.info.warmup]
    assert finished
    assert end.measured < len(plan.rows)
    assert {run.info.status for run in runs_of(path)} <= {FINISHED, CANCELLED}
    again = drive(cluster, plan, path, Listening())
    assert again.measured < len(plan.rows)
    drive(None, plan, tmp_path / "alone.evprof", Listening())
    last = {run.info.row for run in last_attempts(runs_of(path)) if run.info.status == FINISHED}
    assert {key for row in plan.rows for key in row.keys} <= last
    assert rows_of(path).keys() == rows_of(tmp_path / "alone.evprof").keys()


@pytest.mark.whole
class FakeRay:
    """A cluster whose questions stay open, and whose nodes are alive while they are listed."""

    exceptions = SimpleNamespace(RayError=RuntimeError)

    def __init__(self, *alive: str) -> None:
        self.alive = list(alive)

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": node, "Alive": node in self.alive} for node in ("a", "b")]

    def wait(self, questions: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return [], questions

    def kill(self, _: Any) -> None: ...


def test_places_of_a_dead_machine_are_given_up_and_without_any_the_suite_ends(monkeypatch):
    monkeypatch.setattr(ray_places, "NODES_S", 0.0)
    ray, said = FakeRay("a", "b"), list[str]()
    places = RayPlaces(ray, [MagicMock, MagicMock], [PlaceRoom(node, node, 0, 1) for node in "ab"], said.append)
    looks = iter(range(1_000))

    def look() -> None:
        if next(looks) in (10, 20):
            ray.alive.pop(0)

    def wait() -> None:
        while places.next_ended(look) is None:
            pass

    with pytest.raises(UserError, match="No machine of the cluster is left; what was measured is kept"):
        wait()
    assert [line.partition(" is given up")[0] for line in said] == ["a", "b"]


def test_what_a_killed_program_left_is_swept(tmp_path):
    for name in ("evprof-ray-killed", "evprof-ray-begun", "evprof-ray-alive", "other"):
        (tmp_path / name).mkdir()
    for name in ("evprof-ray-killed", "other"):
        (tmp_path / name / "lock").touch()
    log = tmp_path / "evprof-ray-killed" / "agent.log"
    waits = f"open({str(log)!r}, 'w'); print(flush=True); input()"
    agent, reader = (
        subprocess.Popen([name, "-c", f"f = {waits}"], executable=sys.executable, stdin=-1, stdout=-1)
        for name in ("ray::Agent", "less")
    )
    with agent, reader, HeldFile(tmp_path / "evprof-ray-alive" / "lock"):
        for process in (agent, reader):
            process.stdout.readline()
        ray_cluster._sweep(tmp_path)
        assert sorted(os.listdir(tmp_path)) == ["evprof-ray-alive", "evprof-ray-begun", "other"]
        assert agent.wait(10) == -signal.SIGKILL
        assert reader.poll() is None
        reader.kill()


def test_nothing_listens_beyond_the_loopback_address(cluster):
    slots = cluster.slots(1, on_gpus=False)
    assert len(slots) == 2
    places = cluster.places(slots, SeatTerms(partial(list, engine_argv("script"))), pytest.fail)
    try:
        deadline = time.monotonic() + 60
        while len(places.free()) < 2 and time.monotonic() < deadline:
            places.next_ended(lambda: None)
        listening = list(_listening([psutil.Process(), *psutil.Process().children(recursive=True)]))
    finally:
        places.close()
    assert len(listening) >= 4, "Ray's own processes and ours"
    assert [place for place in listening if not _is_loopback(place)] == []


def _listening(processes: Sequence[psutil.Process]) -> Iterator[str]:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    yield connection.laddr.ip


def _is_loopback(place: str) -> bool:
    address = ipaddress.ip_address(place)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


@pytest.mark.parametrize("word", ["", "somewhere", "ray://host:1", "host:port"])
def test_an_address_that_is_none_is_refused(word):
    with pytest.raises(UserError, match="--ray must be auto, local or the address") as refused:
        RayCluster(word, pytest.fail)
    assert refused.value.exit_code == 2


def test_without_ray_the_option_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'evprof\[ray\]'") as refused:
        RayCluster(LOCAL, pytest.fail)
    assert refused.value.exit_code == 2
