"""The engine's own process: takes requests from the host and sends back what the engine records.

Three threads. The main thread runs the engine, because that is where CUDA, signal handling and OpenMP expect the
work. A sender empties the queue every 25 ms and at once at each stage and message; a receiver hears Stop while the
main thread computes. The process never outlives its host: the end of the connection ends it, and on Linux the
kernel does so too.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from evprof.core.errors import FAILURE, EngineLost, UserError
from evprof.core.protocols import BUSY, GONE, READY, Engine, EngineChanged
from evprof.core.request import RunRequest
from evprof.core.run_info import FAILED
from evprof.run.processes.channel import Batch, Command, QueueSink, Stop, Submit, Wire, connect_to_host, greeting
from evprof.run.processes.open_runs import OpenRuns

SEND_INTERVAL_S = 0.025


def serve(make_engine: Callable[[], Engine]) -> int:
    """Runs an engine for the host that started this process, until that host hangs up.

    Returns (the exit code) only when the engine cannot be made. Raises UserError when no host started this process.
    """
    connection = connect_to_host()
    _guard_process()
    connection.send(greeting(os.getpid()))
    return _Server(connection, make_engine).run()


class _Server:
    def __init__(self, connection: Wire, make_engine: Callable[[], Engine]) -> None:
        self._connection = connection
        self._make_engine = make_engine
        self._sink = QueueSink()
        self._open = OpenRuns()
        self._commands: queue.SimpleQueue[tuple[Command, threading.Event]] = queue.SimpleQueue()
        self._is_working = threading.Event()
        self._is_done = threading.Event()
        self._sender = threading.Thread(target=self._send, name="evprof-sender", daemon=True)

    def run(self) -> int:
        self._sender.start()
        threading.Thread(target=self._receive, name="evprof-receiver", daemon=True).start()
        try:
            engine = self._make_engine()
            environment = engine.describe()
        except Exception as error:  # noqa: BLE001 - see below
            # Whatever keeps an engine from starting is told to the host before this process ends.
            traceback.print_exc()
            sentence = error.sentence if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            return self._leave(f"The engine could not start: {sentence}")
        self._say(READY, "The engine is ready.", environment)
        while True:
            command, stop = self._commands.get()
            match command:
                case Submit(request=values):
                    if (lost := self._work(engine, RunRequest.from_json(values), stop)) is not None:
                        return self._leave(lost)
                case Stop():
                    continue  # heard by the receiver

    def _work(self, engine: Engine, request: RunRequest, stop: threading.Event) -> str | None:
        """Carries a request out; why this process can do no more, if so."""
        sink = _NotingSink(self._sink, self._open)
        self._open.begin(request)
        self._is_working.set()
        self._say(BUSY)
        sentence = "The engine stopped without saying how this run ended."
        try:
            engine.run(request, sink, stop)
        except EngineLost as error:
            return error.sentence
        except UserError as error:
            sentence = error.sentence
        except Exception as error:  # noqa: BLE001 - see below
            # A defect of the engine: the run has failed, the process and its models stay.
            traceback.print_exc()
            sentence = f"The engine failed: {type(error).__name__}: {error}"
        for message in self._open.close(FAILED, sentence):
            self._sink.post(message)
        self._say(READY)
        self._is_working.clear()
        return None

    def _leave(self, sentence: str) -> int:
        """Says that this process ends, before its request is over: the host must not submit another one to it."""
        self._say(GONE, sentence)
        for message in self._open.close(FAILED, sentence):
            self._sink.post(message)
        self._is_done.set()
        self._sink.wake()
        self._sender.join()
        return FAILURE

    def _say(self, state: str, sentence: str = "", environment: dict[str, Any] | None = None) -> None:
        self._sink.post(EngineChanged(state, sentence, os.getpid(), environment or {}))

    def _send(self) -> None:
        while True:
            # Rows come only while a request is at work; an idle engine sleeps until something urgent happens.
            self._sink.wait(SEND_INTERVAL_S if self._is_working.is_set() else None)
            is_last = self._is_done.is_set()
            try:
                while parts := self._sink.take():
                    self._connection.send(Batch(parts))
            except OSError:
                os._exit(0)  # the host is gone; nothing here is worth a second of its machine
            if is_last:
                return

    def _receive(self) -> None:
        stop = threading.Event()
        while True:
            try:
                command: Command = self._connection.recv()
            except (EOFError, OSError):
                # At once, and whatever the main thread is caught in: an orphan would hold the device.
                os._exit(0)
            match command:
                case Stop():
                    stop.set()
                    continue
                case Submit():
                    stop = threading.Event()  # each request its own flag: a late Stop never hits the next one
            self._commands.put((command, stop))


class _NotingSink:
    """Passes everything on and keeps track of open runs."""

    def __init__(self, sink: QueueSink, open_runs: OpenRuns) -> None:
        self.append = sink.append  # the engine's every record goes through here: no detour
        self._sink = sink
        self._open = open_runs

    def post(self, message: Any) -> None:
        self._open.note(message)
        self._sink.post(message)


def _guard_process() -> None:
    """Leaves Ctrl-C to the host, dies with it, and offers itself first when memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        import ctypes

        PR_SET_PDEATHSIG = 1  # the kernel's own name
        with contextlib.suppress(OSError, AttributeError):
            # The signal comes when the *thread* that started us ends; the host's worker lives as long as the host.
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as adjustment:
            adjustment.write("1000")
