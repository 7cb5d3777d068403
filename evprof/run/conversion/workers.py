"""Carries out many conversions, several at a time, in threads: what takes time in them happens outside Python."""

from __future__ import annotations

import errno
import os
import queue
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evprof.core.errors import Cancelled, UserError
from evprof.core.files.whole_file import part_of
from evprof.loaders.paths import reason
from evprof.loaders.writers.frames import is_ours
from evprof.run.conversion.task import EVENTS, FRAMES, MP4, VIDEO, Step, Task, Written
from evprof.run.places.ray_places import anywhere, check_seen

_FULL = frozenset({errno.ENOSPC, errno.EROFS, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


class OutputFullError(UserError):
    """There is no room, or no right, to write at all: no other conversion would fare better."""


def convert(task: Task, step: Step) -> Written:
    """Writes `task.output`, whole or not at all; what was there is replaced. Raises UserError, and Cancelled."""
    check_place(task.output)
    refuse_itself(task)
    try:
        if task.recipe.to == FRAMES and task.output.is_dir() and not is_ours(task.output):
            raise UserError(
                f"{task.output}: holds other things than frames, which would be lost; choose another folder."
            )
        task.output.parent.mkdir(parents=True, exist_ok=True)
        return _convert(task, step)
    except OSError as error:
        raise _not_written(task.output, error) from None
    except MemoryError:
        raise UserError(f"{task.path}: memory ran out; convert a part with --start-ms and --duration-ms.") from None
    except Exception as error:
        if type(error).__module__.startswith("av."):
            raise _not_written(task.output, error) from None
        raise


def check_place(output: Path) -> None:
    """Raises UserError when a place cannot be reached, or holds neither a file nor a folder: devices stay devices."""
    for place in (output, part_of(output)):
        try:
            mode = os.lstat(place).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            raise UserError(f"{output}: cannot be written ({reason(error)}); choose another name.") from None
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            raise UserError(f"{place}: is neither a file nor a folder; choose another name.")


def refuse_itself(task: Task) -> None:
    """Raises UserError when what is to be read would be written over."""
    for place in (task.output, part_of(task.output)):
        for source in (task.path, *task.others):
            if _same(Path(source), place) or (place.is_dir() and _same(Path(source).parent, place)):
                raise UserError(f"{source}: would be written over by its own conversion; give -o another place.")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.exists() and other.exists() and one.samefile(other)
    except OSError:
        return False


def _convert(task: Task, step: Step) -> Written:
    from evprof.run.conversion import from_events, from_video

    ways = {
        EVENTS: {FRAMES: from_events.to_frames, MP4: from_events.to_mp4},
        VIDEO: {FRAMES: from_video.to_frames, MP4: from_video.to_mp4},
    }
    to_events = from_events.to_events if task.source == EVENTS else from_video.to_events
    return ways[task.source].get(task.recipe.to, to_events)(task, step)


def _not_written(output: Path, error: BaseException) -> UserError:
    sentence = f"{output}: cannot be written ({reason(error)}); check the place, its permissions and its free space."
    kind = OutputFullError if getattr(error, "errno", None) in _FULL else UserError
    return kind(sentence)


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


def carried_out(task: Task, step: Step) -> Outcome:
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


class ConversionSeat:
    """What an actor holds: it converts one file at a time."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def carry_out(self, task: Task) -> Outcome:
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


MakeWorkers = Callable[[Sequence[Task], threading.Event], Workers | ClusterWorkers]
"""Makes workers for tasks; the event asks them to stop."""
