"""Which plain runs a drafted one is weighed against is in the session as soon as its command has ended."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunBook
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.session_target import note_baselines
from evprof.run.session_writer import SessionWriter
from scripted_engine import ScriptedEngine
from whole_session import load_session


def play(path: Path, *modes: str, engine: ScriptedEngine, **changes: Any) -> None:
    recording = RecordLog()
    with SessionWriter(recording, path) as writer:
        for mode in modes:
            sample = Sample("e.npy", "v.mp4", prompt="What?", name=changes.pop("name", "scene"))
            request = RunRequest(mode, sample, ModelChoice("d"), ModelChoice("t"), warmup=None, repeat=2)
            request = replace(request, first_run_id=writer.next_run_id, group_id=writer.next_group_id)
            engine.run(request, recording, threading.Event())
            writer.flush()


def infos(path: Path) -> list[RunInfo]:
    book = RunBook(load_session(path).recording)
    book.update()
    return [run.info for run in book.runs.values()]


def test_plain_runs_of_the_same_process_are_noted_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "s.evprof"
    play(path, "target", engine=ScriptedEngine(speed=500))
    play(path, "target", "speculative", engine=ScriptedEngine(speed=500))
    note_baselines(path)
    found = infos(path)
    drafted = [info for info in found if info.mode == "speculative"]
    plain = [info for info in found if info.mode == "target" and not info.warmup]
    assert [info.run_id for info in plain] == [2, 3, 5, 6]
    # Of the target alone there are two repeats of each process; the first process drafted nothing.
    assert [info.baseline for info in drafted if not info.warmup] == [[5, 6], [5, 6]]
    assert all(not info.baseline for info in plain)


def test_only_the_runs_of_this_command_are_noted(tmp_path: Path) -> None:
    path, engine = tmp_path / "s.evprof", ScriptedEngine(speed=500)
    play(path, "speculative", "target", engine=engine)
    first = {info.run_id for info in infos(path)}
    note_baselines(path, first)
    before = {info.run_id: info.baseline for info in infos(path)}
    play(path, "target", engine=engine)
    note_baselines(path, {info.run_id for info in infos(path)} - first)
    assert {info.run_id: info.baseline for info in infos(path) if info.run_id in first} == before
    assert any(before.values())
