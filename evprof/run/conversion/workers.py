"""Carries out conversions, several at a time: in threads of this process, or in actors of a Ray cluster.

Threads suffice: what takes time happens outside Python.
"""

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
from evprof.core.vocabulary.families import EVENTS
from evprof.loaders.paths import reason
from evprof.loaders.writers.frames import is_ours
from evprof.run.conversion.task import FRAMES, MP4, Step, Task, Written
from evprof.run.places.ray_places import anywhere, check_seen

_FULL = frozenset({errno.ENOSPC, errno.EROFS, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})

LEAST_FREE_BYTES = 1 << 16
"""With less free space a failure is one of the disk."""

TICK_S = 0.1
THREADS = "evprof-convert"


class OutputFullError(UserError):
    """There is no room, or no right, to write at all. All other conversions would fail, too."""


@dataclass(frozen=True)
class Outcome:
    """The result of a task: `written`, or an error; neither after a stop. `is_hopeless`: all others would fail."""

    task: Task
    written: Written | None = None
    error: str | None = None
    is_hopeless: bool = False
    seconds: float = 0.0


Pool = Callable[[Sequence[Task], threading.Event], Iterator[Outcome | None]]
"""Carries out tasks: their outcomes in the order of their ends, and None several times a second. The event stops it."""


def convert(task: Task, step: Step) -> Written:
    """Writes `task.output`, whole or not at all, and replaces what is there. Raises UserError and Cancelled."""
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


def _convert(task: Task, step: Step) -> Written:
    from evprof.run.conversion import from_events, from_video

    ways = from_events if task.source == EVENTS else from_video
    way: Callable[[Task, Step], Written] = {FRAMES: ways.to_frames, MP4: ways.to_mp4}.get(
        task.recipe.to, ways.to_events
    )
    return way(task, step)


def check_place(output: Path) -> None:
    """Raises UserError for a place that cannot be reached, or is neither a file nor a folder."""
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
    """Raises UserError where a source would be written over."""
    for place in (task.output, part_of(task.output)):
        for source in (task.path, *task.others):
            if _same(Path(source), place) or (place.is_dir() and _same(Path(source).parent, place)):
                raise UserError(f"{source}: would be written over by its own conversion; give -o another place.")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.exists() and other.exists() and one.samefile(other)
    except OSError:
        return False


def _not_written(output: Path, error: BaseException) -> UserError:
    sentence = f"{output}: cannot be written ({reason(error)}); check the place, its permissions and its free space."
    kind = OutputFullError if getattr(error, "errno", None) in _FULL else UserError
    return kind(sentence)


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
    try:
        return shutil.disk_usage(output.parent).free < LEAST_FREE_BYTES
    except OSError:
        return False


def in_threads(
    tasks: Sequence[Task], stop: threading.Event, jobs: int = 1, step: Step | None = None
) -> Iterator[Outcome | None]:
    """Threads that take tasks one after the other. `step` is the progress of the first. Raises what is a defect.

    Threads are daemons, so that a second Ctrl-C ends the process.
    """
    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
    done: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)

    def work(step: Step) -> None:
        try:
            while not stop.is_set() and not waiting.empty():
                outcome = carried_out(waiting.get_nowait(), step)
                if outcome.is_hopeless:
                    stop.set()
                done.put(outcome)
        except queue.Empty:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            done.put(error)
        finally:
            done.put(None)

    running = min(jobs, len(tasks))
    steps = [step or Step(stop), *(Step(stop) for _ in range(running - 1))]
    for number, each in enumerate(steps[:running]):
        threading.Thread(target=work, args=(each,), name=f"{THREADS}-{number}", daemon=True).start()
    while running:
        try:
            outcome = done.get(timeout=TICK_S)
        except queue.Empty:
            yield None
            continue
        if isinstance(outcome, BaseException):
            stop.set()
            raise outcome
        if outcome is None:
            running -= 1
        else:
            yield outcome


class ConversionSeat:
    """Converts one file at a time in an actor."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def carry_out(self, task: Task) -> Outcome:
        return carried_out(task, Step(self._stop))

    def stop(self) -> None:
        self._stop.set()


def in_cluster(
    tasks: Sequence[Task], stop: threading.Event, *, cluster: Any, slots: Sequence[Any], folder: Path
) -> Iterator[Outcome | None]:
    """Places of a cluster. A lost worker's file is begun again elsewhere.

    Raises UserError where a machine does not see the folder.
    """
    slots = list(slots)[: len(tasks)]
    check_seen(cluster, slots, folder)
    absolute = [replace(task, sample=anywhere(task.sample), output=task.output.absolute()) for task in tasks]
    named = {there.output: task for there, task in zip(absolute, tasks, strict=True)}
    crew = cluster.crew(slots, ConversionSeat)
    try:
        for done in crew.done(absolute, stop):
            if done is None:
                yield None
                continue
            task = named[done.task.output]
            if done.answer is None:
                yield Outcome(task, error=None if stop.is_set() else f"{task.path}: {done.lost}")
                continue
            if done.answer.is_hopeless:
                stop.set()
            yield replace(done.answer, task=task)
    finally:
        crew.close()
