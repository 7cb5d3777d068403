"""A session as the scripted engine leaves it: side by side, then speculative."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from evprof.core.recording import Recording
from evprof.core.request import ModelChoice, RunRequest
from evprof.core.run_log import RunBook, RunLog
from evprof.core.sample import Sample
from evprof.run.script import Script
from evprof.run.synthetic import ScriptedEngine


@pytest.fixture(scope="session")
def runs() -> list[RunLog]:
    """Three runs."""
    recording = Recording()
    engine = ScriptedEngine(Script(), speed=50.0)
    request = RunRequest("side-by-side", Sample("e.npy", "v.mp4"), ModelChoice("draft"), ModelChoice("target"))
    for mode, first in (("side-by-side", 1), ("speculative", 3)):
        engine.run(replace(request, mode=mode, first_run_id=first, group_id=first), recording, threading.Event())
    book = RunBook(recording)
    book.update()
    return list(book.runs.values())
