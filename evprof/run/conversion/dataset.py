"""Converts a list of samples into a folder of its own. After any interruption the same call continues.

Every result is whole before it has its name, and in the journal only after that. A list of the converted samples is
written at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Protocol

from evprof.core.errors import UserError
from evprof.core.files.held_file import locked
from evprof.core.files.whole_file import is_part
from evprof.core.plain import Plain
from evprof.core.sample import Sample
from evprof.loaders.json_lines import json_line, read_lines
from evprof.loaders.paths import reason
from evprof.loaders.writers.frames import write_manifest
from evprof.run.conversion.plan import ConversionPlan, converted
from evprof.run.conversion.task import Task, Written, size_of, stamp
from evprof.run.conversion.workers import Outcome, Pool, check_place, in_threads
from evprof.run.processes.interrupts import first_interrupt

JOURNAL, MANIFEST, LOCK = "conversion.jsonl", "manifest.csv", "conversion.lock"
VERSION = 1
_MARK = "evprof_conversion"


@dataclass(frozen=True)
class JournalEntry(Plain):
    """One finished task: its output below the folder, its key, and what was written."""

    output: str
    key: str
    written: Written


def read_journal(folder: Path) -> dict[str, JournalEntry]:
    """The finished tasks of a folder by output. Raises UserError for another file under the journal's name."""
    path = folder / JOURNAL
    if not path.exists():
        return {}
    values = read_lines(path, _MARK, VERSION, "conversion", "choose another folder")[1]
    entries = (JournalEntry.if_fitting(value) for value in values)
    return {entry.output: entry for entry in entries if entry is not None}


def is_done(folder: Path, output: str, entry: JournalEntry | None, key: str) -> bool:
    """Whether the result of a task is there, whole, and would be made again by this key."""
    if not key or entry is None or entry.key != key:
        return False
    try:
        return (folder / output).exists() and size_of(folder / output) == entry.written.bytes
    except OSError:
        return False


def _appended(folder: Path) -> IO[str]:
    """The journal, open for new lines. A kill may have left half a line at its end."""
    path = folder / JOURNAL
    is_new = not path.exists()
    file = path.open("a", encoding="utf-8", newline="\n")
    file.write(json_line({_MARK: VERSION}) if is_new else "\n")
    return file


class ConversionWatcher(Protocol):
    """Hears the progress of a conversion, in one thread."""

    def begin(self, tasks: int, done_before: int) -> None:
        """The number of files, and of those that are there already."""

    def look(self) -> None:
        """Several times a second."""

    def end(self, outcome: Outcome) -> None:
        """A file was written, or failed."""

    def stopping(self) -> None:
        """The first Ctrl-C."""


@dataclass
class DatasetEnd:
    """The end of a conversion: `written` by output, of which `kept` were there before; `failed` by output."""

    written: dict[str, Written] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    samples: int = 0
    is_stopped: bool = False
    problems: list[str] = field(default_factory=list)


def convert_list(
    plan: ConversionPlan,
    watcher: ConversionWatcher,
    *,
    pool: Pool = in_threads,
    overwrite: bool = False,
    source: Path | None = None,
) -> DatasetEnd:
    """Converts everything that is not there yet. `source` is the list, which must not be written over.

    Raises UserError when the folder is not fit or nothing can be written, KeyboardInterrupt at a second Ctrl-C. What
    was finished is kept in any case.
    """
    folder = plan.folder
    check_place(folder)
    _check_folder(folder, overwrite=overwrite, source=source)
    busy = f"{folder}: another conversion writes into it; wait for it, or choose another folder."
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / LOCK, busy):
            if overwrite:
                (folder / JOURNAL).unlink(missing_ok=True)
            end = _convert(plan, watcher, pool)
            samples = _conclude(plan, end)
            write_manifest(folder / MANIFEST, samples)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be written to ({reason(error)}); check its permissions and its free space."
        ) from None
    return end


def _convert(plan: ConversionPlan, watcher: ConversionWatcher, pool: Pool) -> DatasetEnd:
    _remove_parts(plan)
    end, stop = DatasetEnd(), threading.Event()
    entries, keys = read_journal(plan.folder), _keys(plan)
    for output in plan.tasks:
        if is_done(plan.folder, output, entries.get(output), keys[output]):
            end.written[output] = entries[output].written
            end.kept.add(output)
    left = {task.output: output for output, task in plan.tasks.items() if output not in end.kept}
    watcher.begin(len(plan.tasks), len(end.kept))
    if not left:
        return end

    def stops() -> None:
        stop.set()
        watcher.stopping()

    hopeless = None
    with _appended(plan.folder) as journal, first_interrupt(stops):
        for outcome in pool([plan.tasks[output] for output in left.values()], stop):
            watcher.look()
            if outcome is None:
                continue
            output = left[outcome.task.output]
            if outcome.written is not None:
                journal.write(json_line(JournalEntry(output, keys[output], outcome.written).to_json()))
                journal.flush()
                end.written[output] = outcome.written
            elif outcome.error is not None:
                end.failed[output] = outcome.error
                hopeless = hopeless or (outcome.error if outcome.is_hopeless else None)
            watcher.end(outcome)
    _remove_parts(plan)
    if hopeless is not None:
        raise UserError(f"{hopeless.rstrip('.')}; the same command then goes on.")
    end.is_stopped = stop.is_set()
    return end


def _remove_parts(plan: ConversionPlan) -> None:
    """Removes the unfinished files of killed conversions and killed workers."""
    for folder in {(plan.folder / output).parent for output in plan.tasks}:
        for part in filter(is_part, folder.glob(".*.part")):
            part.unlink(missing_ok=True)


def _conclude(plan: ConversionPlan, end: DatasetEnd) -> list[Sample]:
    samples: list[Sample] = []
    for number, row in enumerate(plan.rows, start=1):
        problem = row.problem or next((end.failed[output] for output in row.outputs if output in end.failed), None)
        if problem is not None:
            end.problems.append(f"Sample {number}, '{row.sample.name}': {problem}")
        elif all(output in end.written for output in row.outputs):
            samples.append(converted(row, plan, end.written))
    end.samples = len(samples)
    return samples


def _keys(plan: ConversionPlan) -> dict[str, str]:
    """The key of each task, "" if its source is gone. Folders of pictures are listed once."""
    listed: Callable[[str], list[int]] = lru_cache(maxsize=None)(stamp)

    def key(task: Task) -> str:
        try:
            return task.key(lambda path: listed(path if Path(path).exists() else str(Path(path).parent)))
        except OSError:
            return ""

    return {output: key(task) for output, task in plan.tasks.items()}


def _check_folder(folder: Path, *, overwrite: bool, source: Path | None) -> None:
    if source is not None and (folder / MANIFEST).exists() and (folder / MANIFEST).samefile(source):
        raise UserError(f"{source}: would be written over by its own conversion; give -o another folder.")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; a list of samples is converted into a folder.")
    if not folder.exists() or overwrite:
        return
    if not any((folder / name).exists() for name in (JOURNAL, LOCK)) and any(folder.iterdir()):
        raise UserError(
            f"{folder}: holds other things; give an empty or a new folder, or --overwrite to write between them."
        )
