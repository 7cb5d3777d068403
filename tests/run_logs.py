"""Requests that an engine carries out, as logs of their runs."""

from __future__ import annotations

import threading
from typing import Any

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog


def runs_of(engine: Any, request: RunRequest, stop: Any = None) -> list[RunLog]:
    recording = RecordLog()
    engine.run(request, recording, stop or threading.Event())
    book = RunBook(recording)
    book.update()
    return list(book.runs.values())


def carry_out(engine: Any, request: RunRequest, stop: Any = None) -> RunLog:
    """The only run of a request."""
    (run,) = runs_of(engine, request, stop)
    return run


def ids_of(run: RunLog) -> list[int]:
    return [token.token_id for token in run.tokens if token.origin != "rejected"]
