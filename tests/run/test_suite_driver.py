"""Suites that are measured: failures, ends of every kind, and what is left in the session."""

from __future__ import annotations

import _thread
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driven_suites import GRID, InstantEngine, Listening, drive, infos_of, plan_of, runs_of
from evprof.core.errors import GPU_LOST, EngineLost, UserError
from evprof.core.protocols import Sink, StopFlag
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED, FINISHED
from evprof.metrics.configurations.gathering import last_attempts
from evprof.run.places.place import OnePlace
from evprof.run.suites import suite as suite_module
from evprof.run.suites.plan import BLOCKS, INTERLEAVED, SuitePlan
from evprof.run.suites.record import RowOutcomes, fingerprint, made_folder, suite_fact
from evprof.session.store import SessionFile


def outcome(path: Path) -> set[tuple[Any, ...]]:
    """What a session says in the end, but for times and numbers of runs."""
    return {
        (
            run.info.cell,
            run.info.sample.name,
            run.info.repeat,
            run.info.role,
            run.info.status,
            tuple(token.token_id for token in run.tokens),
        )
        for run in last_attempts(runs_of(path))
        if not run.info.warmup
    }


@pytest.mark.parametrize("order", [INTERLEAVED, BLOCKS])
def test_every_row_is_in_the_session_once(tmp_path: Path, order: str) -> None:
    plan = plan_of(order=order)
    end = drive(plan, tmp_path / "s.evprof")
    runs = [run for run in runs_of(tmp_path / "s.evprof") if not run.info.warmup]
    assert (end.measured, end.failed, end.is_stopped) == (len(plan.rows), 0, False)
    assert len(runs) == sum(len(row.keys) for row in plan.rows)
    assert len({run.run_id for run in runs}) == len(runs)
    assert RowOutcomes(run.info for run in runs).is_done(plan.rows[0])


def test_warm_ups_are_flagged_and_come_before_the_first_turn(tmp_path: Path) -> None:
    drive(plan_of(), tmp_path / "s.evprof")
    runs = infos_of(tmp_path / "s.evprof")
    assert [info.warmup for info in runs] == [True] * 5 + [False] * 20
    assert all((info.turn is None) == info.warmup for info in runs)
    by_cell: dict[str, list[bool]] = {}
    for info in infos_of(tmp_path / "s.evprof"):
        by_cell.setdefault(info.cell, []).append(info.warmup)
    assert by_cell["speculative"] == [True, False, False, False, False]
    assert by_cell["side-by-side"] == [True, True, *[False] * 8]


def test_memory_is_let_go_of_and_the_engine_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings: list[Any] = []
    whole = RecordLog

    def counted() -> Any:
        recordings.append(whole())
        return recordings[-1]

    monkeypatch.setattr(suite_module, "RecordLog", counted)
    engine = InstantEngine()
    plan = plan_of(repeat=5)
    drive(plan, tmp_path / "s.evprof", engine, rows_in_memory=7)
    assert len(recordings) == -(-len(plan.rows) // 7)
    assert max(recording.message_count for recording in recordings) < 60
    assert engine.is_closed
    assert outcome(tmp_path / "s.evprof") == outcome_of_whole(tmp_path, plan)


def outcome_of_whole(tmp_path: Path, plan: SuitePlan, engine: Any = None) -> set[tuple[Any, ...]]:
    path = tmp_path / "whole.evprof"
    drive(plan, path, engine)
    return outcome(path)


def test_failures_are_kept_and_the_suite_goes_on(tmp_path: Path) -> None:
    def fails(request: RunRequest, role: str) -> str | None:
        return f"{request.sample.name} is damaged." if request.sample.name == "sample 1" and role == "draft" else None

    plan = plan_of()
    end = drive(plan, tmp_path / "s.evprof", InstantEngine(fails))
    failed = [info for info in infos_of(tmp_path / "s.evprof") if info.status == FAILED and not info.warmup]
    assert end.failed == 4
    assert end.measured == len(plan.rows)
    assert {(info.cell, info.error) for info in failed} == {
        ("draft", "sample 1 is damaged."),
        ("side-by-side", "sample 1 is damaged."),
    }
    assert not [row for row in plan.rows if not RowOutcomes(infos_of(tmp_path / "s.evprof")).is_done(row)]


def test_a_warm_up_that_fails_leaves_a_row_that_says_so(tmp_path: Path) -> None:
    plan = plan_of(repeat=1, count=1)
    drive(plan, tmp_path / "s.evprof", InstantEngine(lambda _, role: "No model." if role == "draft" else None))
    runs = {(info.cell, info.role): info.status for info in infos_of(tmp_path / "s.evprof") if not info.warmup}
    assert runs == {
        ("draft", "draft"): FAILED,
        ("side-by-side", "draft"): FAILED,
        ("side-by-side", "target"): FINISHED,
        ("target · 2 frames", "target"): FINISHED,
        ("speculative", "target"): FINISHED,
    }


@pytest.mark.parametrize("order", [INTERLEAVED, BLOCKS])
def test_stopped_anywhere_and_resumed_in_other_orders_is_the_same(tmp_path: Path, order: str) -> None:
    plan = plan_of(order=order)
    wanted = outcome_of_whole(tmp_path, plan)
    path = tmp_path / "s.evprof"
    for seed in range(len(plan.rows)):
        stop_after = random.randint(1, 5)

        def interrupt(count: int, limit: int = stop_after) -> None:
            if count == limit:
                signal.raise_signal(signal.SIGINT)

        if not drive(plan_of(order=order, seed=seed), path, watcher=Listening(interrupt)).is_stopped:
            break
    assert outcome(path) == wanted
    turns = [(info.turn, info.sample.name, info.repeat) for info in infos_of(path) if info.turn]
    of_turn = {(turn.series, turn.number): (sample, repeat) for turn, sample, repeat in turns}
    assert all(of_turn[turn.series, turn.number] == (sample, repeat) for turn, sample, repeat in turns)


def test_ctrl_c_during_a_row_stops_after_it(tmp_path: Path) -> None:
    plan = plan_of(grid={"settings": {"mode": "draft"}}, repeat=6)

    heard = threading.Event()

    def fails(request: RunRequest, role: str) -> str | None:
        if request.first_repeat == 1:
            _thread.interrupt_main()
            assert heard.wait(60)
        return None

    end = drive(plan, tmp_path / "s.evprof", InstantEngine(fails), watcher=Listening(on_stop=heard.set))
    assert end.is_stopped
    statuses = [info.status for info in infos_of(tmp_path / "s.evprof") if not info.warmup]
    assert statuses == [FINISHED, FINISHED, CANCELLED]
    assert drive(plan, tmp_path / "s.evprof").measured == 12 - 2


KILLED = """
import sys
import threading
from pathlib import Path
sys.path.insert(0, {folder!r})
from driven_suites import InstantEngine, Listening, drive, plan_of
def said(count):
    print(count, flush=True)
plan = plan_of(order={order!r}, repeat=4)
drive(plan, Path({path!r}), InstantEngine(pause_s=0.02), Listening(said))
"""


@pytest.mark.parametrize("order", [INTERLEAVED, BLOCKS])
def test_killed_at_any_row_and_resumed_is_the_same(tmp_path: Path, order: str) -> None:
    plan, path = plan_of(order=order, repeat=4), tmp_path / "s.evprof"
    script = KILLED.format(folder=str(Path(__file__).parents[1]), order=order, path=str(path))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        count = random.randint(1, len(plan.rows) // 2)  # the child must not end before it is killed
        for _ in range(count):
            assert child.stdout.readline()
        time.sleep(random.uniform(0, 0.02))
        child.kill()
    left = [row for row in plan.rows if not RowOutcomes(infos_of(path)).is_done(row)]
    # Only the row that was told last may still have been on its way to the file.
    assert 0 < len(left) <= len(plan.rows) - (count - 1)
    assert drive(plan, path).measured == len(left)
    assert outcome(path) == outcome_of_whole(tmp_path, plan)


class FullDisk:
    """Stands for `SessionFile.commit`: takes so many runs and no more, until there is room again."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self._real = SessionFile.commit

    def __get__(self, owner: Any, kind: Any = None) -> Callable[..., None]:
        def commit(streams: Any, news: Any) -> None:
            if any(info.run_id > self.runs for info in news.infos):
                raise sqlite3.OperationalError("database or disk is full")
            self._real(owner, streams, news)

        return commit


@pytest.mark.parametrize("order", [INTERLEAVED, BLOCKS])
def test_a_full_disk_stops_at_the_first_row_it_does_not_take(tmp_path, monkeypatch, order: str) -> None:
    plan, path, watcher = plan_of(order=order), tmp_path / "s.evprof", Listening()
    monkeypatch.setattr(SessionFile, "commit", FullDisk(runs=7))
    with pytest.raises(UserError, match=r"could not be saved \(.*disk is full.*--resume") as refused:
        drive(plan, path, watcher=watcher)
    assert refused.value.sentence.endswith("free some space, and go on with --resume.")
    saved = [row for row in plan.rows if RowOutcomes(infos_of(path)).is_done(row)]
    # The row that could not be saved was the last that was measured.
    assert len(watcher.ended) == len(saved) + 1 < len(plan.rows)
    monkeypatch.undo()
    assert drive(plan, path).measured == len(plan.rows) - len(saved)
    assert outcome(path) == outcome_of_whole(tmp_path, plan)


class LosesGpu(InstantEngine):
    """Its GPU fails in the seventh request: the third row after the warm-ups of four cells."""

    def run(self, request: RunRequest, sink: Sink, stop: StopFlag) -> None:
        self._fails = lambda *_: GPU_LOST + " (unspecified launch failure)." if len(self.requests) == 7 else None
        super().run(request, sink, stop)
        if len(self.requests) == 7:
            raise EngineLost(f"{GPU_LOST} (unspecified launch failure).")


def test_a_lost_gpu_stops_the_suite_and_its_row_is_measured_again(tmp_path: Path) -> None:
    plan, path, engine = plan_of(), tmp_path / "s.evprof", LosesGpu()
    with pytest.raises(UserError, match=r"GPU failed .* --resume"):
        drive(plan, path, engine)
    assert len(engine.requests) == 7
    assert drive(plan, path).measured == len(plan.rows) - 2
    assert outcome(path) == outcome_of_whole(tmp_path, plan)


def test_a_row_that_hangs_is_given_up_and_the_next_has_a_fresh_engine(tmp_path: Path) -> None:
    """The engine process of the draft's rows goes silent; the rows of the target are measured."""
    from scripted_process import engine_argv

    grid = {"cells": [{"mode": "draft"}, {"mode": "target"}]}
    plan, watcher = plan_of(repeat=1, count=1, grid=grid), Listening()
    processes = engine_argv("hang:draft")
    end = drive(plan, tmp_path / "s.evprof", watcher=watcher, processes=processes, timeout_s=1.0)
    assert (end.measured, end.failed, end.is_stopped) == (2, 1, False)
    found = {(info.cell, info.status): info.error for info in infos_of(tmp_path / "s.evprof") if not info.warmup}
    assert found.keys() == {("draft", FAILED), ("target", FINISHED)}
    assert found["draft", FAILED] == "The engine made no progress for 1 s and was ended, as --timeout asked for."


def test_a_suite_killed_before_its_first_row_is_begun_anew(tmp_path: Path) -> None:
    folder = made_folder(tmp_path / "suite", resumes=False).parent
    (folder / "event-frames").mkdir()
    (folder / "suite.evprof-lock").touch()
    with pytest.raises(UserError, match="no suite in"):
        made_folder(folder, resumes=True)
    assert drive(plan_of(), made_folder(folder, resumes=False)).measured == len(plan_of().rows)


def test_folders_that_hold_something_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert made_folder(folder, resumes=False) == folder / "suite.evprof"
    (folder / "suite.evprof").write_text("x")
    with pytest.raises(UserError, match="add --resume"):
        made_folder(folder, resumes=False)
    assert made_folder(folder, resumes=True).is_file()
    with pytest.raises(UserError, match="no suite in"):
        made_folder(tmp_path / "elsewhere", resumes=True)
    with pytest.raises(UserError, match="is a file"):
        made_folder(folder / "suite.evprof", resumes=False)


def test_the_rest_is_a_fact_of_the_suite() -> None:
    plan = plan_of(repeat=1, grid={**GRID, "cooldown": 30})
    assert suite_fact(plan, fingerprint(plan.spec, plan.samples))["cooldown"] == "30 s"
    plain = plan_of()
    assert suite_fact(plain, fingerprint(plain.spec, plain.samples))["cooldown"] is None


class Rest:
    """A flag that is never set and counts how long it was waited for."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)


def test_a_place_rests_before_every_request_but_the_first() -> None:
    class Idle:
        def run(self, *_: object) -> None:
            """Carries nothing out."""

    rest = Rest()
    place = OnePlace(Idle(), rest, 30.0)  # type: ignore[arg-type]  # as far as a place uses them
    for _ in range(3):
        place.begin(0, plan_of().rows[0].request(0), is_fresh=False)
        place.next_ended(lambda: None)
    assert rest.waits == [30.0, 30.0]
