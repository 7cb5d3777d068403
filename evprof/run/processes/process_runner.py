"""Runs requests for a command in an engine process, which can be replaced by a fresh one between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from evprof.core.messages import RequestEnded
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.run.processes.engine_host import EngineHost
from evprof.run.processes.interrupts import first_interrupt

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
        """The engine process; None while there is none."""
        return self._host.pid if self._host is not None else None

    def renew(self) -> None:
        """Ends the engine process; the next request has a fresh one."""
        self.close()
        self._host = None

    def record_into(self, recording: RecordLog) -> None:
        """Everything from the next request on goes into another Recording. To be called between requests."""
        self._recording = recording
        if self._host is not None:
            self._host.attach(recording)

    def stop(self) -> None:
        """Asks the request at work to stop. Any thread may call this."""
        self._stop.set()
        if self._host is not None:
            self._host.stop()

    @property
    def is_stopping(self) -> bool:
        """Whether the request at work was asked to stop."""
        return self._stop.is_set()

    def close(self) -> None:
        """Ends the engine process. Safe to call twice."""
        if self._host is not None:
            self._host.close()
