"""Actors of Ray as places: requests go out, answers come back in the order they end, what dies is replaced.

It is handed Ray itself by `ray_cluster` and knows its calls, but imports nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.errors import UserError
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import PLACE
from evprof.run.places.engine_seat import SeatAnswer
from evprof.run.places.place import Ended
from evprof.version import __version__

LOOK_S = 0.05

SLOW_START_S = 30.0
"""After so long without a place a person is told what is waited for."""

MOST_STARTS = 3
"""Attempts to put a place on a machine in a row before the place is given up."""


@dataclass(frozen=True)
class PlaceRoom:
    """Room for one place: on which node, with a GPU or so many CPU threads of its own."""

    node_id: str
    host: str
    gpus: int
    threads: int


@dataclass
class _Worker:
    """A place as we know it: the actor, what it was asked last, and how often it was started in vain."""

    actor: Any
    asked: Any
    name: str = ""
    is_busy: bool = False
    starts: int = 1

    @property
    def is_free(self) -> bool:
        return self.asked is None and self.actor is not None


class RayPlaces:
    """Places that are actors. An actor that dies is replaced on its machine, as long as that answers."""

    def __init__(
        self, ray: Any, starters: Sequence[Callable[[], Any]], slots: Sequence[PlaceRoom], say: Callable[[str], None]
    ) -> None:
        self._ray = ray
        self._starters = starters
        self._slots = slots
        self._say = say
        self._is_stopping = False
        self._began = time.monotonic()
        self._is_slow_told = False
        self._workers = [self._started(place) for place in range(len(starters))]

    @property
    def lost(self) -> str | None:
        """Never: `next_ended` raises when none is left."""
        return None

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was asked for."""
        return self._is_stopping

    def free(self) -> list[int]:
        """Those that have answered and were asked nothing since."""
        return [place for place, worker in enumerate(self._workers) if worker.is_free]

    def machine(self, place: int) -> str:
        """As it calls itself."""
        return self._workers[place].name or self._slots[place].host

    def begin(self, place: int, request: RunRequest, *, is_fresh: bool) -> None:
        """Sends it there."""
        worker = self._workers[place]
        worker.asked = worker.actor.carry_out.remote(request.to_json(), is_fresh=is_fresh)
        worker.is_busy = True

    def next_ended(self, look: Callable[[], None]) -> Ended | None:
        """Waits for an answer of any place. Raises UserError when no place is left."""
        while True:
            look()
            waiting = {worker.asked: place for place, worker in enumerate(self._workers) if worker.asked is not None}
            if not waiting and not self.free():
                raise UserError("No machine of the cluster is left; what was measured is kept, go on with --resume.")
            if self._is_stopping and not any(worker.is_busy for worker in self._workers):
                return None
            ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=LOOK_S) if waiting else ([], [])
            for answer in ready:
                return self._heard(waiting[answer])
            self._tell_slow()

    def stop(self) -> None:
        """Asks all that are at work."""
        self._is_stopping = True
        for worker in self._workers:
            if worker.is_busy:
                worker.actor.stop.remote()

    def record_into(self, recording: RecordLog) -> None:
        """What is recorded arrives as a whole; it is put where it belongs by whoever takes it."""

    def close(self, *, is_broken_off: bool = False) -> None:
        """Ends the actors, and their engines with them."""
        for worker in self._workers:
            if worker.actor is not None:
                self._ray.kill(worker.actor)
                worker.actor = worker.asked = None

    def _started(self, place: int) -> _Worker:
        actor = self._starters[place]()
        return _Worker(actor, actor.describe.remote())

    def _heard(self, place: int) -> Ended | None:
        worker = self._workers[place]
        answer_of, worker.asked = worker.asked, None
        try:
            answer = self._ray.get(answer_of)
        except self._ray.exceptions.RayError as error:
            return self._give_up(place, reason_of(error))
        if not worker.is_busy:
            self._greet(place, answer)
            return None
        worker.is_busy = False
        return self._ended(place, answer)

    def _greet(self, place: int, told: dict[str, Any]) -> None:
        """Raises UserError for a machine that has another version of evprof."""
        worker = self._workers[place]
        worker.name, worker.starts = told[PLACE], 0
        if told["evprof"] != __version__:
            raise UserError(f"{worker.name} has evprof {told['evprof']}, and here is {__version__}; install the same.")

    def _ended(self, place: int, answer: SeatAnswer) -> Ended:
        name = self._workers[place].name
        for note in answer.notes:
            self._say(f"{name}: {note}")
        return Ended(place, answer.arrival, answer.lost, is_cold=answer.is_cold)

    def _give_up(self, place: int, reason: str) -> Ended | None:
        """An actor is dead: another takes its place, unless several have died there before they answered."""
        before = self._workers[place]
        if before.starts < MOST_STARTS:
            after = self._started(place)
            after.name, after.starts = before.name, before.starts + 1
        else:
            after = _Worker(None, None, before.name)
            self._say(f"{before.name or self._slots[place].host} is given up: {reason}")
        self._workers[place] = after
        lost = f"its worker was lost ({reason.rstrip('.')})"
        return Ended(place, lost=lost, is_cold=True) if before.is_busy else None

    def _tell_slow(self) -> None:
        is_slow = time.monotonic() - self._began > SLOW_START_S and not any(worker.name for worker in self._workers)
        if is_slow and not self._is_slow_told:
            self._is_slow_told = True
            self._say(f"no place has answered for {SLOW_START_S:.0f} s: the cluster may be busy with others' work")


def reason_of(error: BaseException) -> str:
    """One line of what Ray tells in many; of an error in what it ran, that error."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return f"{type(cause).__name__}: {cause}"[:200]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
