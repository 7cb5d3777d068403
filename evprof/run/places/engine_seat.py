"""One place at work for somebody elsewhere: an engine process of its own, and what it recorded as a whole.

It runs in a process of whoever spreads the work (an actor of Ray, say), one for each GPU or group of CPU threads. The
engine is a child of that process and ends with it; it may crash or hang without taking the place along.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evprof.core.messages import RunEnded
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED, PLACE, PLACES_AT_WORK
from evprof.run.meters.cooldown import Cooldown, CoolingPause
from evprof.run.places.place import FIRST_RUN_ID, HERE, Arrival, OnePlace
from evprof.run.processes.open_runs import OpenRuns
from evprof.run.processes.runner import ProcessRunner
from evprof.run.processes.silence import NO_PROGRESS
from evprof.version import __version__


@dataclass(frozen=True)
class SeatTerms:
    """What a place works with. `make_argv` gives the argument list of an engine process on the place's own machine;
    `threads` are the CPU threads of its engine (None: as PyTorch finds), `neighbours` the places of its machine."""

    make_argv: Callable[[], Sequence[str]]
    timeout_s: float | None = None
    cooldown: Cooldown = field(default_factory=Cooldown)
    threads: int | None = None
    neighbours: int = 1


@dataclass(frozen=True)
class SeatAnswer:
    """The result of a request. `lost`: why its engine process ended unexpectedly; `notes` are sentences."""

    arrival: Arrival
    lost: str | None = None
    is_cold: bool = False
    notes: tuple[str, ...] = ()


class EngineSeat:
    """Carries out one request at a time; `stop` may be called meanwhile, from another thread."""

    def __init__(self, terms: SeatTerms) -> None:
        os.environ.pop("OMP_NUM_THREADS", None)
        if terms.threads is not None:
            os.environ["OMP_NUM_THREADS"] = str(terms.threads)
        self._notes: list[str] = []
        self._stop = threading.Event()
        pause = CoolingPause(terms.cooldown, self._stop, self._notes.append)
        runner = ProcessRunner(terms.make_argv(), RecordLog(), timeout_s=terms.timeout_s)
        self._place = OnePlace(runner, pause, self._stop.is_set)
        self._environment = {PLACE: place_name(), PLACES_AT_WORK: terms.neighbours}

    def describe(self) -> dict[str, Any]:
        return {PLACE: self._environment[PLACE], "evprof": __version__, "pid": os.getpid()}

    def carry_out(self, values: dict[str, Any], *, is_fresh: bool = False) -> SeatAnswer:
        """The request of these values (`RunRequest.to_json`), in a new engine process where it `is_fresh`."""
        asked = replace(RunRequest.from_json(values), first_run_id=FIRST_RUN_ID)
        recording = RecordLog()
        self._place.record_into(recording)
        self._place.begin(HERE, asked, is_fresh=is_fresh)
        ended = self._place.next_ended(self._look)
        if not ended.is_begun:
            return self._stopped(asked)
        notes, self._notes[:] = tuple(self._notes), ()
        arrival = Arrival.of(recording).told(asked.sample, self._environment)
        return SeatAnswer(arrival, self._loss(arrival) if ended.is_cold else None, ended.is_cold, notes)

    def stop(self) -> None:
        """Asks what is at work to stop, and lets nothing else begin."""
        self._stop.set()
        self._place.stop()

    def close(self) -> None:
        self._place.close()

    def _look(self) -> None:
        if self._stop.is_set():
            self._place.stop()

    def _stopped(self, request: RunRequest) -> SeatAnswer:
        """A request that no engine received still has a run."""
        recording, begun = RecordLog(), OpenRuns()
        begun.begin(request)
        for message in begun.close(CANCELLED, "Stopped before it began."):
            recording.post(message)
        return SeatAnswer(Arrival.of(recording).told(request.sample, self._environment))

    def _loss(self, arrival: Arrival) -> str | None:
        """Why the engine process ended, unless a person or a limit had it ended."""
        errors = [
            message.error
            for message in arrival.messages
            if isinstance(message, RunEnded) and message.status == FAILED and message.error
        ]
        if not errors or self._stop.is_set() or errors[-1].startswith(NO_PROGRESS):
            return None
        return errors[-1]


def place_name() -> str:
    """This machine, and the GPUs of it that this process is given."""
    host = socket.gethostname()
    cards = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return f"{host} GPU {cards}" if cards and cards != "-1" else host
