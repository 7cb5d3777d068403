"""Logs of runs: of requests that an engine carries out, and of a recording; and what a run holds."""

from __future__ import annotations

import threading
from typing import Any

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_log import RunBook, RunLog


def runs_of(engine: Any, request: RunRequest, stop: Any = None) -> list[RunLog]:
    recording = RecordLog()
    engine.run(request, recording, stop or threading.Event())
    return saved_runs(recording)


def carry_out(engine: Any, request: RunRequest, stop: Any = None) -> RunLog:
    (run,) = runs_of(engine, request, stop)
    return run


def ids_of(run: RunLog) -> list[int]:
    return [token.token_id for token in run.tokens if token.origin != "rejected"]


def saved_runs(recording: RecordLog) -> list[RunLog]:
    book = RunBook(recording)
    book.update()
    return [book.runs[run_id] for run_id in sorted(book.runs)]


def content(run: RunLog) -> tuple[object, ...]:
    rows = (run.tokens, run.rejected, run.rounds, run.judgements, run.kv, run.memory, run.power, run.frames)
    return run.info, run.spans, run.stages(), *rows
