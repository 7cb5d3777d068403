"""Actors of Ray that carry out pieces of work of any kind, each its next one when it is free; what dies is replaced.

It is handed Ray itself by `ray_cluster` and knows its calls, but imports nothing.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import uuid4

from evprof.core.errors import UserError
from evprof.core.protocols import StopFlag
from evprof.core.sample import Sample
from evprof.run.places.ray_places import LOOK_S, MOST_STARTS, reason_of

MOST_LOSSES = 3
"""Workers that one piece of work may end before it is taken for the reason."""

T = TypeVar("T")


@dataclass
class _Hand:
    """One actor: what it was given last and the answer that is waited for; how often it was started in vain."""

    actor: Any
    asked: Any = None
    task: Any = None
    starts: int = 1


@dataclass(frozen=True)
class Done(Generic[T]):
    """A piece of work that is over: its `answer`, or why there is none."""

    task: T
    answer: Any = None
    lost: str = ""


class RayCrew:
    """Actors with `carry_out(task)` and `stop()`. A piece whose actor dies is given to another."""

    def __init__(self, ray: Any, starters: Sequence[Callable[[], Any]]) -> None:
        self._ray = ray
        self._starters = starters
        self._hands = [_Hand(start()) for start in starters]

    def done(self, tasks: Sequence[T], stop: StopFlag) -> Iterator[Done[T] | None]:
        """What became of each piece in the order they end, and None many times a second for whoever draws.

        A set `stop` ends it once those under way are over, which are told of it. Raises UserError when nobody is left.
        """
        left, losses = deque(tasks), dict[int, int]()
        is_told = False
        while left or any(hand.asked is not None for hand in self._hands):
            if stop.is_set() and not is_told:
                is_told = True
                left.clear()
                for hand in self._hands:
                    if hand.asked is not None:
                        hand.actor.stop.remote()
            for hand in self._hands:
                if hand.asked is None and hand.actor is not None and left:
                    hand.task = left.popleft()
                    hand.asked = hand.actor.carry_out.remote(hand.task)
            waiting = {hand.asked: hand for hand in self._hands if hand.asked is not None}
            if not waiting:
                if left:
                    raise UserError("No worker of the cluster is left; what was finished is kept.")
                continue
            ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=LOOK_S)
            for answer in ready:
                found = self._heard(waiting[answer], losses)
                if found.lost and losses[id(found.task)] < MOST_LOSSES and not is_told:
                    left.appendleft(found.task)
                else:
                    yield found
            yield None

    def _heard(self, hand: _Hand, losses: dict[int, int]) -> Done[Any]:
        asked, hand.asked = hand.asked, None
        try:
            answer = self._ray.get(asked)
        except self._ray.exceptions.RayTaskError as error:
            raise UserError(f"A worker of the cluster failed: {reason_of(error)}.") from error
        except self._ray.exceptions.RayError as error:
            losses[id(hand.task)] = losses.get(id(hand.task), 0) + 1
            hand.starts += 1
            start = self._starters[self._hands.index(hand)]
            hand.actor = start() if hand.starts <= MOST_STARTS else None
            return Done(hand.task, lost=f"its worker was lost ({reason_of(error).rstrip('.')})")
        hand.starts = 1
        return Done(hand.task, answer)

    def close(self) -> None:
        """Ends the actors."""
        for hand in self._hands:
            if hand.actor is not None:
                self._ray.kill(hand.actor)
                hand.actor = hand.asked = None


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
            if not cluster.ask(slot, is_file, str(mark.absolute())):
                raise UserError(
                    f"{slot.host} does not see the folder {folder}; give -o a folder that all machines see under "
                    "one path."
                )
    finally:
        mark.unlink()


def is_file(path: str) -> bool:
    """Whether a machine sees a file."""
    return Path(path).is_file()


def anywhere(sample: Sample) -> Sample:
    """The sample with whole paths: a worker may have been started in another folder."""
    paths: dict[str, Any] = {
        name: os.path.abspath(path) for name in INPUT_PATHS if (path := getattr(sample, name)) is not None
    }
    return replace(sample, **paths)
