"""The one place that a plain suite has: an engine in this process, or a process of its own beside it."""

from __future__ import annotations

from collections.abc import Callable

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.run.meters.cooldown import CoolingPause
from evprof.run.places.place import Ended
from evprof.run.processes.process_runner import ProcessRunner
from evprof.run.processes.runner import LocalRunner

HERE = 0
"""Its number."""


class OnePlace:
    """Places, of which there is one. Its records go straight into the runner's Recording."""

    def __init__(
        self, runner: LocalRunner | ProcessRunner, pause: CoolingPause, is_stopped: Callable[[], bool]
    ) -> None:
        """`pause` is made before every request but the first; `is_stopped` says whether a stop was heard meanwhile."""
        self._runner = runner
        self._pause = pause
        self._is_stopped = is_stopped
        self._request: RunRequest | None = None
        self._has_worked = False

    @property
    def lost(self) -> str | None:
        """Why the runner's process cannot go on."""
        return self._runner.lost

    @property
    def is_stopping(self) -> bool:
        """Whether the runner was asked to stop."""
        return self._runner.is_stopping

    def free(self) -> list[int]:
        """The place, until it has a request."""
        return [HERE] if self._request is None else []

    def machine(self, place: int) -> str:
        """There is no other."""
        return ""

    def begin(self, place: int, request: RunRequest, *, is_fresh: bool) -> None:
        """Keeps the request: it is carried out by whoever waits for its end."""
        if is_fresh and isinstance(self._runner, ProcessRunner):
            self._runner.renew()
        self._request = request

    def next_ended(self, look: Callable[[], None]) -> Ended | None:
        """Rests, and carries the request out on the calling thread."""
        request, self._request = self._request, None
        if request is None:
            raise RuntimeError("nothing was begun")
        if self._has_worked:
            self._pause.rest()
        if self._is_stopped():
            return Ended(HERE, is_begun=False)
        self._has_worked = True
        self._runner.run(request, look)
        return Ended(HERE, is_cold=isinstance(self._runner, ProcessRunner) and self._runner.pid is None)

    def stop(self) -> None:
        """Asks the runner."""
        self._runner.stop()

    def record_into(self, recording: RecordLog) -> None:
        """Tells the runner."""
        self._runner.record_into(recording)

    def close(self, *, is_broken_off: bool = False) -> None:
        """Frees the engine; one that was broken off may never answer."""
        if not is_broken_off:
            self._runner.close()
