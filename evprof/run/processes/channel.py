"""How the host and the engine process come by the connection between them.

On POSIX the host makes a socket pair and the child inherits one end by number: no address, no file, nothing anyone
else could connect to, and the end of either process is the end of file for the other. Windows cannot hand a socket
over like that; there the child connects back to a named pipe, and both prove that they know the same random key. The
second way works everywhere and is tested everywhere. A frozen program needs nothing more: everything is in the
environment of the child.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from evprof.core.errors import USAGE, UserError
from evprof.core.protocols import Message
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, STREAM_OF, Record, SpanRecord
from evprof.core.request import RunRequest

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
    if sys.platform == "win32":
        return ListeningChannel()
    return InheritedChannel()


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
    raise UserError("The engine process is started by the window; it is no command for people.", exit_code=USAGE)


PROTOCOL = 1
"""Counted up with every change to what is said here."""

_GREETING = "evprof-engine"

StreamRows = tuple[str, list[tuple[Any, ...]]]
"""Rows of one stream, in order."""

Part = StreamRows | Message
"""A batch is a list of these; a message stands after every row that was appended before it."""


@dataclass(frozen=True)
class Submit:
    """Carry this request out."""

    request: dict[str, Any]

    @classmethod
    def of(cls, request: RunRequest) -> Submit:
        return cls(request.to_json())


@dataclass(frozen=True)
class Stop:
    """Set the stop flag of the request at work; without one, nothing."""


Command = Submit | Stop
"""What the host says. To end the engine process it hangs up."""


@dataclass(frozen=True)
class Batch:
    """Rows and messages in order."""

    parts: list[Part]


def greeting(pid: int) -> tuple[str, int, int]:
    return (_GREETING, PROTOCOL, pid)


def is_greeting(said: object) -> bool:
    """Whether this is the greeting of an engine that speaks this protocol."""
    return isinstance(said, tuple) and said[:2] == (_GREETING, PROTOCOL)


def apply_part(part: Part, recording: RecordLog) -> None:
    if isinstance(part, tuple):
        recording.extend(*part)
    else:
        recording.post(part)


LARGEST_BATCH = 2000
"""Items taken at once at most: what piled up behind a slow reader arrives in pieces, so that a window stays alive."""


class QueueSink:
    """Appended to by the engine thread, emptied by one other thread."""

    def __init__(self) -> None:
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
        self._items.append(message)
        self.wake()

    def wake(self) -> None:
        """Ends the reader's wait, this one or the next."""
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
