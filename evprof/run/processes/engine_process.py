"""The host's handle on one engine process: started from an argv, spoken to over its connection, and reaped.

It knows processes and pipes; which runs are open and what a death means for them is the business of `engine_host`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO

from evprof.core.errors import UserError
from evprof.run.processes.channel import (
    Batch,
    Command,
    InheritedChannel,
    ListeningChannel,
    Part,
    Wire,
    is_greeting,
    make_channel,
)

TAIL_BYTES = 16_384

LEFTOVER_PATIENCE_S = 0.5
"""How long a killed process may take to hang up; the kernel does it at once unless a driver holds the process."""


class EngineGone(Exception):  # noqa: N818 - a fact about the child, turned into a sentence by the host
    """The connection to the engine process ended."""


class EngineProcess:
    """One engine process. All methods but `kill` belong to one thread."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        channel: InheritedChannel | ListeningChannel | None = None,
    ) -> None:
        """Starts `argv` with `environment` added to ours. Raises UserError when it cannot be started."""
        channel = channel or make_channel()
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {}), **channel.environment()},
                pass_fds=channel.inherited_fds(),
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # Windows only
            )
        except OSError as error:
            channel.close()
            raise UserError(f"The engine process {argv[0]} cannot be started: {error.strerror}.") from error
        self._tail = _Tail(self._process.stdout)
        self._has_greeted = False
        try:
            self.connection: Wire = channel.connection(lambda: self._process.poll() is None)
        except UserError:
            self.kill()
            self._process.wait()
            self._tail.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, command: Command) -> None:
        """Tells the engine something. Raises EngineGone."""
        try:
            self.connection.send(command)
        except OSError as error:
            raise EngineGone from error

    def receive(self) -> list[Part]:
        """Waits for the next batch. Raises EngineGone at the end, UserError when the other side is none of ours."""
        try:
            said = self.connection.recv()
        except (EOFError, OSError) as error:
            raise EngineGone from error
        if not self._has_greeted:
            if not is_greeting(said):
                raise UserError("The engine process belongs to another version of evprof; install evprof again.")
            self._has_greeted = True
            return []
        if not isinstance(said, Batch):
            raise UserError("The engine process said something evprof does not understand; install evprof again.")
        return said.parts

    def leftovers(self) -> list[Part]:
        """After `kill`: everything the process had sent and nobody had received."""
        parts: list[Part] = []
        with contextlib.suppress(EngineGone, UserError, OSError, ValueError, TypeError, AttributeError, ImportError):
            while self.connection.poll(LEFTOVER_PATIENCE_S):
                parts += self.receive()
        return parts

    def kill(self) -> None:
        """Ends the process at once. Any thread may call this."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def reap(self, patience_s: float = 2.0) -> str:
        """Closes the connection, waits for the end (enforced after `patience_s`) and tells how it ended."""
        with contextlib.suppress(OSError, AttributeError):
            self.connection.close()
        try:
            code = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        return _exit_sentence(code, self._tail.close())


class _Tail:
    """The last bytes a process printed, read by a thread of its own so that the process never waits for us."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._stream = stream
        self._kept = b""
        self._thread = threading.Thread(target=self._drain, name="evprof-engine-output", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        if self._stream is None:
            return
        with contextlib.suppress(OSError, ValueError):
            while piece := os.read(self._stream.fileno(), 65_536):
                self._kept = (self._kept + piece)[-TAIL_BYTES:]

    def close(self) -> str:
        """What was printed last. Waits a moment for the rest, but not for a grandchild that holds the pipe open."""
        self._thread.join(0.5)
        if self._stream is not None and not self._thread.is_alive():
            self._stream.close()
        return self._kept.decode("utf-8", errors="replace")


def _exit_sentence(code: int, printed: str) -> str:
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        sentence = f"The engine process was ended by {name}"
        if name == "SIGKILL":
            sentence += ", as the system does when memory runs out"
    else:
        sentence = f"The engine process ended with exit code {code}"
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return f"{sentence}; it last said: {lines[-1][:300]}" if lines else f"{sentence}."
