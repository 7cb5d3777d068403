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
from collections.abc import Callable, MutableMapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from evprof.core.errors import USAGE, UserError

INHERITED = "EVPROF_ENGINE_FD"
ADDRESS = "EVPROF_ENGINE_ADDRESS"
KEY = "EVPROF_ENGINE_KEY"

Wire = Any
"""A Connection, or Windows' PipeConnection, which shares its methods but no base class in typeshed."""


class InheritedChannel:
    """The host's side of a socket pair whose other end the child inherits."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours.detach())
        self._theirs: socket.socket | None = theirs

    def environment(self) -> dict[str, str]:
        """What the child must find in its environment."""
        return {INHERITED: str(self._child_end().fileno())}

    def inherited_fds(self) -> tuple[int, ...]:
        """Descriptors the child must inherit."""
        return (self._child_end().fileno(),)

    def connection(self, is_alive: Callable[[], bool]) -> Wire:
        """The host's end, once the child was started: our copy of the child's end is closed, so that its end shows."""
        self.close()
        return self._connection

    def close(self) -> None:
        """Lets go of the child's end."""
        if self._theirs is not None:
            self._theirs.close()
            self._theirs = None

    def _child_end(self) -> socket.socket:
        if self._theirs is None:
            raise RuntimeError("the child's end was handed over already")
        return self._theirs


class ListeningChannel:
    """The host's side of an address the child connects back to (named pipe on Windows, Unix socket elsewhere)."""

    def __init__(self, *, accept_timeout_s: float = 30.0) -> None:
        self._key = secrets.token_bytes(32)
        self._listener = Listener(None, authkey=self._key)
        self._accept_timeout_s = accept_timeout_s

    def environment(self) -> dict[str, str]:
        """What the child must find in its environment."""
        return {ADDRESS: str(self._listener.address), KEY: self._key.hex()}

    def inherited_fds(self) -> tuple[int, ...]:
        """Descriptors the child must inherit: none."""
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
        """Stops listening."""
        self._listener.close()


def make_channel() -> InheritedChannel | ListeningChannel:
    """The channel of this platform."""
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
