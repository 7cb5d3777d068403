"""The connection between host and engine process, and the engine's end of it.

On POSIX the host makes a socket pair and the child inherits one end by number: no address, no file, nothing anyone
else could connect to, and the end of either process is the end of file for the other. Windows cannot hand a socket
over like that; there the child connects back to a named pipe, and both prove that they know the same random key. A
frozen program needs nothing more: everything is in the environment of the child.

The engine process has three threads. The main thread runs the engine, because that is where CUDA, signal handling and
OpenMP expect the work. A sender empties the queue every 25 ms and at once at each stage and message; a receiver hears
Stop while the main thread computes. The process never outlives its host: the end of the connection ends it, and on
Linux the kernel does so too.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, MutableMapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from evprof.core.errors import FAILURE, EngineLost, UsageError, UserError
from evprof.core.protocols import BUSY, GONE, READY, Engine, EngineChanged, Message
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, STREAM_OF, Record, SpanRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import FAILED
from evprof.run.processes.open_runs import OpenRuns

INHERITED = "EVPROF_ENGINE_FD"
ADDRESS = "EVPROF_ENGINE_ADDRESS"
KEY = "EVPROF_ENGINE_KEY"

Wire = Any
"""A Connection, or Windows' PipeConnection, which shares its methods but no base class in typeshed."""


class InheritedChannel:
    """The host's side of a socket pair whose other end the child inherits."""

    def __init__(self) -> None:
        ours, self._theirs = socket.socketpair()
        self._connection = Connection(ours.detach())

    def environment(self) -> dict[str, str]:
        return {INHERITED: str(self._theirs.fileno())}

    def inherited_fds(self) -> tuple[int, ...]:
        return (self._theirs.fileno(),)

    def connection(self, is_alive: Callable[[], bool]) -> Wire:
        """The host's end, once the child was started: our copy of the child's end is closed, so that its end shows."""
        self.close()
        return self._connection

    def close(self) -> None:
        self._theirs.close()


class ListeningChannel:
    """The host's side of an address the child connects back to (named pipe on Windows, Unix socket elsewhere)."""

    def __init__(self, *, accept_timeout_s: float = 30.0) -> None:
        self._key = secrets.token_bytes(32)
        self._listener = Listener(None, authkey=self._key)
        self._accept_timeout_s = accept_timeout_s

    def environment(self) -> dict[str, str]:
        return {ADDRESS: str(self._listener.address), KEY: self._key.hex()}

    def inherited_fds(self) -> tuple[int, ...]:
        return ()

    def connection(self, is_alive: Callable[[], bool]) -> Wire:
        """Waits until the child has connected; raises UserError when it does not, or is no longer alive."""
        accepted: list[Wire] = []

        def accept() -> None:
            with contextlib.suppress(OSError, EOFError, AuthenticationError):  # told below, in a sentence
                accepted.append(self._listener.accept())

        waiting = threading.Thread(target=accept, name="evprof-accept", daemon=True)
        waiting.start()
        deadline = time.monotonic() + self._accept_timeout_s
        while waiting.is_alive() and is_alive() and time.monotonic() < deadline:
            waiting.join(0.05)
        if waiting.is_alive():
            # Closing does not wake a thread that accepts; a caller who knows no key does, and is turned away.
            with contextlib.suppress(OSError):
                Client(self._listener.address).close()
            waiting.join()
        self.close()
        if not accepted:
            raise UserError("The engine process did not connect to its window; run evprof doctor.")
        return accepted[0]

    def close(self) -> None:
        self._listener.close()


def make_channel() -> InheritedChannel | ListeningChannel:
    return ListeningChannel() if sys.platform == "win32" else InheritedChannel()


def connect_to_host(environment: MutableMapping[str, str] = os.environ) -> Wire:
    """The engine's end of the channel; takes it out of the environment, so that no grandchild mistakes it for its own.

    Raises UserError (exit code 2) when this process was not started by a host.
    """
    inherited = environment.pop(INHERITED, "")
    address, key = environment.pop(ADDRESS, ""), environment.pop(KEY, "")
    if inherited and sys.platform != "win32":
        os.set_inheritable(int(inherited), False)
        return Connection(int(inherited))
    if address and key:
        return Client(address, authkey=bytes.fromhex(key))
    raise UsageError("The engine process is started by the window; it is no command for people.")


StreamRows = tuple[str, list[tuple[Any, ...]]]
"""Rows of one stream, in order."""

Part = StreamRows | Message
"""The engine sends lists of these; a message stands after every row that was appended before it."""


Command = dict[str, Any] | None
"""What the host says: a request (`RunRequest.to_json`), or None, which sets the stop flag of the request at work. It
hangs up to end the engine process."""


def apply_part(part: Part, recording: RecordLog) -> None:
    if isinstance(part, tuple):
        recording.extend(*part)
    else:
        recording.post(part)


LARGEST_BATCH = 2000
"""Items taken at once at most: what piled up behind a slow reader arrives in pieces, so that a window stays alive."""


class QueueSink:
    def __init__(self, note: Callable[[Message], None] = lambda _: None) -> None:
        """`note` receives each message as it is posted."""
        self._note = note
        self._items: deque[Record | Message] = deque()
        # A lock as a bell: free means rung. Ringing never waits, unlike an Event, whose inner lock the woken reader
        # holds while it waits for the interpreter; the engine was seen to lose 5 to 20 ms between stages that way.
        self._bell = threading.Lock()
        self._bell.acquire()

    def append(self, record: Record) -> None:
        """Takes one record; the begin of a stage wakes the reader at once.

        Its end does not: the next stage begins, or a message comes, within a moment, and waking somebody between the
        two can cost the engine its processor in time that belongs to no stage.
        """
        self._items.append(record)
        if type(record) is SpanRecord and record.parent_id < 0 and record.phase == BEGIN:
            self.wake()

    def post(self, message: Message) -> None:
        self._note(message)
        self._items.append(message)
        self.wake()

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # rung already
            self._bell.release()

    def wait(self, timeout_s: float | None) -> None:
        """Returns after `timeout_s`, or at once when something urgent came or waits."""
        if self._bell.acquire(timeout=-1 if timeout_s is None else timeout_s):
            self.wake()  # stays rung until something is taken

    def take(self) -> list[Part]:
        """Up to LARGEST_BATCH items in order: rows gathered by stream, each message after the rows before it."""
        # Silenced first: whatever is appended from here on rings again.
        self._bell.acquire(blocking=False)
        parts: list[Part] = []
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for _ in range(min(len(self._items), LARGEST_BATCH)):
            item = self._items.popleft()
            stream = STREAM_OF.get(type(item))  # type: ignore[arg-type]  # a message is no key, which is the question
            if stream is not None:
                rows.setdefault(stream, []).append(tuple(item))  # type: ignore[arg-type]  # records are tuples
                continue
            parts.extend(rows.items())
            rows = {}
            parts.append(item)  # type: ignore[arg-type]  # no record, so a message
        parts.extend(rows.items())
        return parts


def carry_out(engine: Engine, request: RunRequest, sink: QueueSink, stop: threading.Event) -> tuple[str, bool]:
    """Runs a request. Why it has failed where the engine did not say so, and whether this process can do no more."""
    try:
        engine.run(request, sink, stop)
    except EngineLost as error:
        return error.sentence, True
    except UserError as error:
        return error.sentence, False
    except Exception as error:  # noqa: BLE001 - a defect of the engine ends its run, not the process and its models
        traceback.print_exc()
        return f"The engine failed: {type(error).__name__}: {error}", False
    return "The engine stopped without saying how this run ended.", False


SEND_INTERVAL_S = 0.025


def serve(make_engine: Callable[[], Engine]) -> int:
    """Runs an engine for the host that started this process, until that host hangs up.

    Returns (the exit code) only when the engine cannot be made. Raises UserError when no host started this process.
    """
    connection = connect_to_host()
    _guard_process()
    return _Server(connection, make_engine).run()


class _Server:
    def __init__(self, connection: Wire, make_engine: Callable[[], Engine]) -> None:
        self._connection = connection
        self._make_engine = make_engine
        self._open = OpenRuns()
        self._sink = QueueSink(self._open.note)
        self._requests: queue.SimpleQueue[tuple[dict[str, Any], threading.Event]] = queue.SimpleQueue()
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
            values, stop = self._requests.get()
            if (lost := self._work(engine, RunRequest.from_json(values), stop)) is not None:
                return self._leave(lost)

    def _work(self, engine: Engine, request: RunRequest, stop: threading.Event) -> str | None:
        """Carries a request out; why this process can do no more, if so."""
        self._open.begin(request)
        self._is_working.set()
        self._say(BUSY)
        sentence, is_lost = carry_out(engine, request, self._sink, stop)
        if is_lost:
            return sentence
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
                    self._connection.send(parts)
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
            if command is None:
                stop.set()
            else:
                stop = threading.Event()  # each request its own flag: a late Stop never hits the next one
                self._requests.put((command, stop))


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
