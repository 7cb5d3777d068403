"""Two ways to run an engine: `LocalRunner` in this process for commands, `EngineHost` in another for the window.

Both leave the same rows and messages in a Recording, so that nobody downstream can tell which one it was.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence

from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import READY, Closing, Engine, EngineChanged, RequestEnded, StopFlag
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED, FINISHED
from evprof.core.run_log import RunBook, RunLog
from evprof.run.meters.samplers import RunSamplers
from evprof.run.processes.channel import Part, QueueSink, apply_part, carry_out
from evprof.run.processes.engine_host import STOP_PATIENCE_S, EngineHost
from evprof.run.processes.interrupts import first_interrupt
from evprof.run.processes.open_runs import OpenRuns

PUMP_INTERVAL_S = 0.05
NO_START = "The engine could not start: "


class LocalRunner(Closing):
    """Runs an engine in a thread of this process while the calling thread fills the Recording.

    The engine has one thread for all its life, because OpenMP keeps a pool of workers per calling thread. Ctrl-C stops
    the request and keeps what was measured; a second Ctrl-C raises KeyboardInterrupt out of `run`.
    """

    def __init__(self, make_engine: Callable[[], Engine], recording: RecordLog) -> None:
        self._make_engine = make_engine
        self._recording = recording
        self._sink = QueueSink()
        self._open = OpenRuns()
        self._samplers = RunSamplers(os.getpid())
        self._work: queue.SimpleQueue[tuple[RunRequest, threading.Event] | None] = queue.SimpleQueue()
        self._is_idle = threading.Event()
        self._stop = threading.Event()
        self._worker: threading.Thread | None = None
        self._failure: UserError | None = None
        self._defect = ""
        self.lost: str | None = None
        """Why this process cannot carry out another request, such as after a lost GPU; None while it can."""

    def run(self, request: RunRequest, on_update: Callable[[], None] | None = None) -> None:
        """Carries `request` out and returns when it has ended, however: the runs' statuses tell.

        `on_update` is called after each look at the queue, about 20 times a second, on the calling thread. Raises
        UserError when the engine cannot be made, KeyboardInterrupt at the second Ctrl-C.
        """
        self._stop = threading.Event()
        self._is_idle.clear()
        self._defect = ""
        self._open.begin(request)
        if self._worker is None:
            self._worker = threading.Thread(target=self._run_engine, name="evprof-engine", daemon=True)
            self._worker.start()
        self._work.put((request, self._stop))
        try:
            with first_interrupt(self._stop.set):
                while not self._is_idle.is_set():
                    self._sink.wait(PUMP_INTERVAL_S)
                    self._pump(on_update)
        except KeyboardInterrupt:
            self._end(CANCELLED, "The run was broken off by a second Ctrl-C.")
            # The engine may never answer; nobody is to wait for it.
            self._worker = None
            self._work.put(None)
            raise
        except BaseException:
            # Whoever is told has failed, such as a terminal that has gone: what was measured is kept all the same.
            self._stop.set()
            self._is_idle.wait(STOP_PATIENCE_S)
            self._pump(None)
            self._end(CANCELLED, "The run was broken off, because its progress could not be shown.")
            raise
        self._pump(on_update)
        if self._failure is not None:
            failure, self._failure, self._worker = self._failure, None, None
            self._end(FAILED, NO_START + failure.sentence.removeprefix(NO_START))
            raise failure
        self._end(FAILED, self._defect)

    def record_into(self, recording: RecordLog) -> None:
        """Everything from the next request on goes into another Recording, with the engine as warm as it is.

        To be called between requests, so that what a long series recorded need not stay in memory.
        """
        self._recording = recording

    def stop(self) -> None:
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            self._stop.set()
            self._work.put(None)
            worker.join(5.0)

    def _pump(self, on_update: Callable[[], None] | None) -> None:
        # The samples go in before the messages that may end their run.
        self._samplers.sample(self._open.run_ids, self._recording)
        while parts := self._sink.take():
            for part in parts:
                self._apply(part)
        # A run that has just begun has its first sample before its zero.
        self._samplers.sample(self._open.run_ids, self._recording)
        if on_update is not None:
            on_update()

    def _apply(self, part: Part) -> None:
        if not isinstance(part, tuple):
            self._samplers.note(part, self._recording)
            self._open.note(part)
        apply_part(part, self._recording)

    def _end(self, status: str, sentence: str) -> None:
        for message in self._open.close(status, sentence):
            self._recording.post(message)

    # From here on the engine's thread.

    def _run_engine(self) -> None:
        try:
            engine = self._make_engine()
            environment = engine.describe()
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits, which raises it
            failure = UserError(f"{NO_START}{type(error).__name__}: {error}")
            self._failure = error if isinstance(error, UserError) else failure
            self._is_idle.set()
            self._sink.wake()
            return
        self._sink.post(EngineChanged(READY, "The engine is ready.", os.getpid(), environment))
        while (work := self._work.get()) is not None:
            request, stop = work
            self._defect, is_lost = carry_out(engine, request, self._sink, stop)
            if is_lost:
                self.lost = self._defect
            self._is_idle.set()
            self._sink.wake()
        engine.close()


LOOK_INTERVAL_S = 0.05


class ProcessRunner:
    """From outside a `LocalRunner`, but the engine lives in a process of its own until `renew`.

    Ctrl-C stops the request and keeps what was measured; a second Ctrl-C raises KeyboardInterrupt out of `run`.
    """

    def __init__(self, argv: Sequence[str], recording: RecordLog, *, timeout_s: float | None = None) -> None:
        """`argv` starts an engine process; it is started by the first request, and ended when it makes no progress
        for `timeout_s`."""
        self._argv = list(argv)
        self._timeout_s = timeout_s
        self.lost: str | None = None
        """Never: an engine process that cannot go on is replaced."""
        self._recording = recording
        self._host: EngineHost | None = None
        self._stop = threading.Event()

    def run(self, request: RunRequest, on_update: Callable[[], None] | None = None) -> None:
        """Carries `request` out and returns when it has ended, however: the runs' statuses tell.

        `on_update` is called about 20 times a second on the calling thread. Raises KeyboardInterrupt at the second
        Ctrl-C.
        """
        host = self._host = self._host or EngineHost(self._argv, self._recording, timeout_s=self._timeout_s)
        self._stop = threading.Event()
        place = self._recording.message_count
        host.submit(request)
        try:
            with first_interrupt(self.stop):
                while not any(isinstance(message, RequestEnded) for message in self._recording.messages(place)):
                    time.sleep(LOOK_INTERVAL_S)
                    if on_update is not None:
                        on_update()
        except KeyboardInterrupt:
            self.close()
            raise
        if on_update is not None:
            on_update()

    @property
    def pid(self) -> int | None:
        return self._host.pid if self._host is not None else None

    def renew(self) -> None:
        self.close()
        self._host = None

    def record_into(self, recording: RecordLog) -> None:
        """Everything from the next request on goes into another Recording. To be called between requests."""
        self._recording = recording
        if self._host is not None:
            self._host.attach(recording)

    def stop(self) -> None:
        self._stop.set()
        if self._host is not None:
            self._host.stop()

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    def close(self) -> None:
        if self._host is not None:
            self._host.close()


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
    recording = RecordLog()
    while parts := sink.take():
        for part in parts:
            apply_part(part, recording)
    book = RunBook(recording)
    book.update()
    return next(iter(book.runs.values()), None)
