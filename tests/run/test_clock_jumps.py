"""A computer's clock that is set while something is measured."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import pytest

from evprof.core.recording import RecordLog
from evprof.core.run_log import RunBook
from evprof.metrics.figures.stages import wall_ms
from evprof.run.requests import demo_requests
from evprof.run.session_writer import SessionWriter
from scripted_engine import ScriptedEngine
from whole_session import load_session

HOUR_MS = 3_600_000


def test_times_do_not_follow_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes to and fro by days at every look; what was measured and saved is as with one that does not."""
    real, jumps = time.time, itertools.cycle((0.0, 86_400.0, -86_400.0, 5.0))
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    monkeypatch.setattr(time, "time_ns", lambda: int((real() + next(jumps)) * 1e9))
    recording, path = RecordLog(), tmp_path / "s.evprof"
    with SessionWriter(recording, path):
        ScriptedEngine(speed=20.0).run(demo_requests()[0], recording, threading.Event())
    book = RunBook(load_session(path).recording)
    book.update()
    assert {run.info.status for run in book.runs.values()} == {"finished"}
    for run in book.runs.values():
        assert 0 < (wall_ms(run) or 0) < HOUR_MS
        assert all(span.duration_ns >= 0 for span in run.stages())
