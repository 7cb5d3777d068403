"""One run of an engine in this process, read back at once: what benchmarks are made of."""

from __future__ import annotations

from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import Engine, StopFlag
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_info import CANCELLED, FINISHED
from evprof.core.run_log import RunLog
from evprof.run.processes.queue_sink import QueueSink
from evprof.run.processes.wire import apply_part


def finished_run(engine: Engine, request: RunRequest, stop: StopFlag) -> RunLog:
    """The one run of a request. Raises UserError when it fails or is refused, Cancelled when it was stopped."""
    if stop.is_set():
        raise Cancelled
    sink = QueueSink()
    engine.run(request, sink, stop)
    run = recorded_run(sink)
    if run is not None and run.info.status == CANCELLED:
        raise Cancelled
    if run is None or run.info.status != FINISHED:
        raise UserError((run.info.error if run else None) or "The engine made no run of it.")
    return run


def recorded_run(sink: QueueSink) -> RunLog | None:
    """The first run that an engine left in the sink."""
    recording = RecordLog()
    while parts := sink.take():
        for part in parts:
            apply_part(part, recording)
    book = RunBook(recording)
    book.update()
    return next(iter(book.runs.values()), None)
