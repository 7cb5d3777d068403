"""Conversions at the places of a Ray cluster: one file at a time each, written where all machines see the folder."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.run.conversion.step import Step
from evprof.run.conversion.task import Task
from evprof.run.conversion.workers import Outcome, carried_out
from evprof.run.places.shared_paths import anywhere, check_seen


class ConversionSeat:
    """What an actor holds: it converts one file at a time."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def carry_out(self, task: Task) -> Outcome:
        """Converts one."""
        return carried_out(task, Step(self._stop))

    def stop(self) -> None:
        """Asks what is under way to stop, and lets nothing else begin."""
        self._stop.set()


class ClusterWorkers:
    """Carries out tasks at places of a cluster. Raises UserError where one of its machines does not see the folder."""

    steps: Sequence[Step] = ()

    def __init__(
        self, cluster: Any, slots: Sequence[Any], folder: Path, tasks: Sequence[Task], stop: threading.Event
    ) -> None:
        self._cluster = cluster
        self._slots = list(slots)[: len(tasks)]
        self._tasks = {there.output: task for task in tasks for there in [_anywhere(task)]}
        self._stop = stop
        check_seen(cluster, self._slots, folder)

    def outcomes(self) -> Iterator[Outcome | None]:
        """What became of each task, and None many times a second. A lost worker's file is begun again elsewhere."""
        crew = self._cluster.crew(self._slots, ConversionSeat)
        try:
            for done in crew.done([_anywhere(task) for task in self._tasks.values()], self._stop):
                if done is None:
                    yield None
                    continue
                task = self._tasks[done.task.output]
                if done.answer is None:
                    yield Outcome(task, error=None if self._stop.is_set() else f"{task.path}: {done.lost}")
                    continue
                if done.answer.is_hopeless:
                    self._stop.set()
                yield replace(done.answer, task=task)
        finally:
            crew.close()


def _anywhere(task: Task) -> Task:
    return replace(task, sample=anywhere(task.sample), output=task.output.absolute())
