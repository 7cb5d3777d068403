"""Actors of Ray: places that measure requests, and a crew for other tasks. A lost actor is replaced.

`ray_cluster` passes the Ray module in; this file does not import it.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import uuid4

from evprof.core.errors import UserError
from evprof.core.protocols import StopFlag
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import PLACE
from evprof.core.sample import Sample
from evprof.run.places.place import Ended, SeatAnswer
from evprof.version import __version__

LOOK_S = 0.05

SLOW_START_S = 30.0
"""After so long without a place a person is told what is waited for."""

NODES_S = 5.0
"""Between two looks at which nodes are alive."""

MOST_STARTS = 3
"""Attempts to put a place on a machine in a row before the place is given up."""


@dataclass(frozen=True)
class PlaceRoom:
    """Room for one place: on which node, with a GPU or so many CPU threads of its own."""

    node_id: str
    host: str
    gpus: int
    threads: int


@dataclass(frozen=True)
class ActorAnswer:
    number: int
    value: Any = None
    lost: str = ""


class RayActors:
    """Actors by number, each asked one thing at a time. One that is lost is replaced, MOST_STARTS times in a row."""

    def __init__(self, ray: Any, starters: Sequence[Callable[[], Any]], nodes: Sequence[str]) -> None:
        """`nodes`: the id of the node on which each actor runs."""
        self._ray = ray
        self._starters = starters
        self._nodes = nodes
        self._nodes_at = time.monotonic() + NODES_S
        self._actors = [start() for start in starters]
        self._starts = [1] * len(starters)
        self._asked: dict[Any, int] = {}

    @property
    def is_waiting(self) -> bool:
        return bool(self._asked)

    def idle(self) -> list[int]:
        busy = set(self._asked.values())
        return [number for number, actor in enumerate(self._actors) if actor is not None and number not in busy]

    def is_gone(self, number: int) -> bool:
        return self._actors[number] is None

    def ask(self, number: int, method: str, *values: Any, **named: Any) -> None:
        self._asked[getattr(self._actors[number], method).remote(*values, **named)] = number

    def stop(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._actors[number].stop.remote()

    def next_answer(self) -> ActorAnswer | None:
        ready, _ = self._ray.wait(list(self._asked), num_returns=1, timeout=LOOK_S)
        if not ready:
            return self._on_dead_node()
        number = self._asked.pop(ready[0])
        try:
            value = self._ray.get(ready[0])
        except self._ray.exceptions.RayError as error:
            self._starts[number] += 1
            is_replaced = self._starts[number] <= MOST_STARTS and self._nodes[number] in self._alive()
            self._actors[number] = self._starters[number]() if is_replaced else None
            return ActorAnswer(number, lost=f"its worker was lost ({reason_of(error).rstrip('.')})")
        self._starts[number] = 0
        return ActorAnswer(number, value)

    def _alive(self) -> set[str]:
        return {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}

    def _on_dead_node(self) -> ActorAnswer | None:
        """Gives up an actor whose node is dead: Ray would keep the question for ever. Looks every NODES_S."""
        if time.monotonic() < self._nodes_at:
            return None
        self._nodes_at, alive = time.monotonic() + NODES_S, self._alive()
        for question, number in self._asked.items():
            if self._nodes[number] not in alive:
                del self._asked[question]
                self._actors[number] = None
                return ActorAnswer(number, lost="its machine does not answer any more")
        return None

    def close(self) -> None:
        for actor in self._actors:
            if actor is not None:
                self._ray.kill(actor)
        self._actors = [None] * len(self._actors)
        self._asked.clear()


class RayPlaces:
    lost: str | None = None

    def __init__(
        self, ray: Any, starters: Sequence[Callable[[], Any]], slots: Sequence[PlaceRoom], say: Callable[[str], None]
    ) -> None:
        self._actors = RayActors(ray, starters, [slot.node_id for slot in slots])
        self._names = [slot.host for slot in slots]
        self._say = say
        self.is_stopping = False
        self._busy: set[int] = set()
        self._slow_at: float | None = time.monotonic() + SLOW_START_S
        for place in self._actors.idle():
            self._actors.ask(place, "describe")

    def free(self) -> list[int]:
        return self._actors.idle()

    def machine(self, place: int) -> str:
        return self._names[place]

    def begin(self, place: int, request: RunRequest, *, is_fresh: bool) -> None:
        self._busy.add(place)
        self._actors.ask(place, "carry_out", request.to_json(), is_fresh=is_fresh)

    def next_ended(self, look: Callable[[], None]) -> Ended | None:
        """Waits for an answer of any place. Raises UserError when no place is left."""
        while True:
            look()
            if self.is_stopping and not self._busy:
                return None
            if not self._actors.is_waiting:
                if not self.free():
                    raise UserError(
                        "No machine of the cluster is left; what was measured is kept, go on with --resume."
                    )
                return None
            answer = self._actors.next_answer()
            if answer is not None:
                return self._ended(answer)
            if self._slow_at is not None and time.monotonic() > self._slow_at:
                self._slow_at = None
                self._say(f"no place has answered for {SLOW_START_S:.0f} s: the cluster may be busy with others' work")

    def stop(self) -> None:
        self.is_stopping = True
        self._actors.stop(self._busy)

    def record_into(self, recording: RecordLog) -> None:
        """Does nothing: a place returns its records as a whole."""

    def close(self, *, is_broken_off: bool = False) -> None:
        self._actors.close()

    def _ended(self, answer: ActorAnswer) -> Ended | None:
        place, was_busy = answer.number, answer.number in self._busy
        self._busy.discard(place)
        if answer.lost:
            if self._actors.is_gone(place):
                self._say(f"{self._names[place]} is given up: {answer.lost}")
            else:
                self._actors.ask(place, "describe")
            return Ended(place, lost=answer.lost, is_cold=True) if was_busy else None
        if not was_busy:
            self._greet(place, answer.value)
            return None
        result: SeatAnswer = answer.value
        return Ended(place, result.arrival, result.lost, is_cold=result.is_cold)

    def _greet(self, place: int, description: dict[str, Any]) -> None:
        """Raises UserError for a machine that has another version of evprof."""
        name = self._names[place] = description[PLACE]
        self._slow_at = None
        if description["evprof"] != __version__:
            raise UserError(f"{name} has evprof {description['evprof']}, and here is {__version__}; install the same.")


MOST_LOSSES = 3
"""Workers that one task may end before it is not tried again."""

T = TypeVar("T")


@dataclass(frozen=True)
class Done(Generic[T]):
    task: T
    answer: Any = None
    lost: str = ""


class RayCrew:
    """Actors with `carry_out(task)` and `stop()`. A task whose actor is lost goes to another."""

    def __init__(self, ray: Any, starters: Sequence[Callable[[], Any]], slots: Sequence[PlaceRoom]) -> None:
        self._actors = RayActors(ray, starters, [slot.node_id for slot in slots])

    def done(self, tasks: Sequence[T], stop: StopFlag) -> Iterator[Done[T] | None]:
        """The result of each task in the order they end, and None every LOOK_S.

        A set `stop` ends it once the tasks under way are over. Raises UserError when no actor is left.
        """
        left, losses, at_work = deque(tasks), Counter[int](), dict[int, T]()
        is_stopping = False
        while left or at_work:
            if stop.is_set() and not is_stopping:
                is_stopping = True
                left.clear()
                self._actors.stop(at_work)
            for number in self._actors.idle()[: len(left)]:
                at_work[number] = left.popleft()
                self._actors.ask(number, "carry_out", at_work[number])
            if left and not at_work:
                raise UserError("No worker of the cluster is left; what was finished is kept.")
            answer = self._actors.next_answer() if at_work else None
            if answer is not None:
                task = at_work.pop(answer.number)
                losses[id(task)] += bool(answer.lost)
                if answer.lost and losses[id(task)] < MOST_LOSSES and not is_stopping:
                    left.appendleft(task)
                else:
                    yield Done(task, answer.value, answer.lost)
            yield None

    def close(self) -> None:
        self._actors.close()


def reason_of(error: BaseException) -> str:
    """One line of what Ray tells in many; of an error in what it ran, that error."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return f"{type(cause).__name__}: {cause}"[:200]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__


INPUT_PATHS = ("events_path", "video_path", "video_times_path", "rectify_path")
"""Fields of a sample that name files."""


def check_seen(cluster: Any, slots: Sequence[Any], folder: Path) -> None:
    """Raises UserError where a machine of the cluster does not see a folder of this one."""
    machines = cluster.elsewhere(slots)
    if not machines:
        return
    mark = folder / f".evprof-{uuid4().hex}.part"
    mark.touch()
    try:
        for slot in machines:
            if not cluster.ask(slot, os.path.isfile, str(mark.absolute())):
                raise UserError(
                    f"{slot.host} does not see the folder {folder}; give -o a folder that all machines see under "
                    "one path."
                )
    finally:
        mark.unlink()


def anywhere(sample: Sample) -> Sample:
    """The sample with whole paths: a worker may have been started in another folder."""
    paths: dict[str, Any] = {
        name: os.path.abspath(path) for name in INPUT_PATHS if (path := getattr(sample, name)) is not None
    }
    return replace(sample, **paths)
