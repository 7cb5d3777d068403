"""Carries out many conversions, several at a time, in threads: what takes time in them happens outside Python."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from evprof.core.errors import Cancelled, UserError
from evprof.run.conversion.converting import OutputFullError, convert
from evprof.run.conversion.step import Step
from evprof.run.conversion.task import Task, Written

TICK_S = 0.1
THREADS = "evprof-convert"

LEAST_FREE_BYTES = 1 << 16
"""With less room than that a failure is one of the disk, and all others would fail, too."""


@dataclass(frozen=True)
class Outcome:
    """What became of a task: `written`, or a sentence; neither when it was stopped. `is_hopeless`: all would fail."""

    task: Task
    written: Written | None = None
    error: str | None = None
    is_hopeless: bool = False
    seconds: float = 0.0


class Workers:
    """Threads that take tasks one after the other. Iterate `outcomes` in one thread, the one that hears signals."""

    def __init__(self, tasks: Sequence[Task], jobs: int, stop: threading.Event) -> None:
        self.steps: list[Step] = []
        self._tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
        self._stop = stop
        for task in tasks:
            self._tasks.put(task)
        self._threads = [
            threading.Thread(target=self._work, args=(step,), name=f"{THREADS}-{number}", daemon=True)
            for number, step in enumerate(self._new_steps(max(1, min(jobs, len(tasks)))))
        ]

    def outcomes(self) -> Iterator[Outcome | None]:
        """What became of each task, in the order they end, and None several times a second for whoever draws.

        Ends when all are done, or after a stop when those that were under way are. Raises what is a defect.
        """
        for thread in self._threads:
            thread.start()
        running = len(self._threads)
        while running:
            try:
                found = self._done.get(timeout=TICK_S)
            except queue.Empty:
                yield None
                continue
            if found is None:
                running -= 1
            elif isinstance(found, Outcome):
                yield found
            else:
                self._stop.set()
                raise found
        for thread in self._threads:
            thread.join()

    def _new_steps(self, count: int) -> list[Step]:
        self.steps = [Step(self._stop) for _ in range(count)]
        return self.steps

    def _work(self, step: Step) -> None:
        try:
            while not self._stop.is_set():
                try:
                    task = self._tasks.get_nowait()
                except queue.Empty:
                    break
                outcome = carried_out(task, step)
                if outcome.is_hopeless:
                    self._stop.set()
                self._done.put(outcome)
        except BaseException as error:  # noqa: BLE001 - told to the thread that waits, which raises it
            self._done.put(error)
        finally:
            self._done.put(None)


class ConversionWorkers(Protocol):
    """Who carries out conversions, here or elsewhere."""

    @property
    def steps(self) -> Sequence[Step]:
        """How far those under way are, where that is known."""

    def outcomes(self) -> Iterator[Outcome | None]:
        """What became of each task in the order they end, and None several times a second."""


MakeWorkers = Callable[[Sequence[Task], threading.Event], ConversionWorkers]
"""Makes workers for tasks; the event asks them to stop."""


def carried_out(task: Task, step: Step) -> Outcome:
    """Converts, and says what came of it."""
    began = time.perf_counter()
    try:
        written = convert(task, step)
    except Cancelled:
        return Outcome(task)
    except UserError as error:
        is_hopeless = isinstance(error, OutputFullError) or _is_full(task.output)
        return Outcome(task, error=error.sentence, is_hopeless=is_hopeless)
    return Outcome(task, written, seconds=time.perf_counter() - began)


def _is_full(output: Path) -> bool:
    """Whether there is no room left: some writers tell it in their own words."""
    try:
        return shutil.disk_usage(output.parent).free < LEAST_FREE_BYTES
    except OSError:
        return False
