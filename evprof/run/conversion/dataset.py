"""Converts a list of samples into a folder of its own, which can be gone on with after any interruption.

Every result is whole before it has its name, and in the journal only after that; so what the journal says is there,
is. A list of the converted samples is written at the end.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from evprof.core.errors import UserError
from evprof.core.files.whole_file import is_part, whole_file
from evprof.core.plain import Plain
from evprof.core.protocols import Closing
from evprof.core.sample import Sample
from evprof.loaders.json_lines import json_line, read_lines
from evprof.loaders.paths import reason
from evprof.loaders.writers.frames import write_manifest
from evprof.run.conversion.plan import OUTPUTS, ConversionPlan, converted
from evprof.run.conversion.task import EVENTS, SUFFIXES, VIDEO, Step, Task, Written, size_of, stamp
from evprof.run.conversion.workers import MakeWorkers, Outcome, Workers, check_place
from evprof.run.folder_lock import locked
from evprof.run.processes.interrupts import first_interrupt

NAME = "conversion.jsonl"
VERSION = 1

_MARK = "evprof_conversion"


@dataclass(frozen=True)
class JournalEntry(Plain):
    """One finished task: its output below the folder, its key, and what was written."""

    output: str
    key: str
    written: Written


class Journal(Closing):
    """The journal of one folder, open for going on. A context manager."""

    NAME = NAME

    def __init__(self, folder: Path) -> None:
        """Reads what is there. Raises UserError when that is no journal."""
        self.folder = folder
        self.path = folder / NAME
        self.entries: dict[str, JournalEntry] = {}
        self._file: IO[str] | None = None
        if self.path.exists():
            way = "choose another folder"
            for values in read_lines(self.path, _MARK, VERSION, "conversion", way)[1]:
                # Half a line, or one that somebody changed, is none: its task is carried out again.
                if (entry := JournalEntry.if_fitting(values)) is not None:
                    self.entries[entry.output] = entry

    def is_done(self, output: str, key: str) -> bool:
        """Whether this task's result is there, whole, and what would be made again."""
        entry = self.entries.get(output)
        if not key or entry is None or entry.key != key:
            return False
        try:
            return (self.folder / output).exists() and size_of(self.folder / output) == entry.written.bytes
        except OSError:
            return False

    def add(self, entry: JournalEntry) -> None:
        """Notes a finished task, at once, after `begin`. Raises OSError."""
        self.entries[entry.output] = entry
        if self._file is not None:
            self._file.write(json_line(entry.to_json()))
            self._file.flush()

    def begin(self) -> None:
        """Writes the journal anew, without what a kill may have left half a line of. Raises OSError."""
        self.close()
        self.rewrite(self.entries)
        self._file = self.path.open("a", encoding="utf-8", newline="\n")

    def rewrite(self, outputs: Iterable[str]) -> None:
        """All entries, those of these outputs first and in this order. Raises OSError."""
        first = [output for output in outputs if output in self.entries]
        others = sorted(self.entries.keys() - set(first))
        with whole_file(self.path) as stream:
            stream.write(json_line({_MARK: VERSION}))
            for output in (*first, *others):
                stream.write(json_line(self.entries[output].to_json()))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


MANIFEST, LOCK = "manifest.csv", "conversion.lock"


_UNFINISHED = frozenset(
    {f"{name}.part" for name in OUTPUTS.values()}
    | {f"{half}{suffix}.part" for half in (EVENTS, VIDEO) for suffix in SUFFIXES}
)


class ConversionWatcher(Protocol):
    """Who is told how a conversion goes; always in one thread."""

    def begin(self, tasks: int, done_before: int) -> None:
        """So many files are to be written, of which some are there."""

    def look(self, steps: Sequence[Step]) -> None:
        """Several times a second."""

    def end(self, outcome: Outcome) -> None:
        """One was written, or could not be."""

    def stopping(self) -> None:
        """A stop was heard."""


@dataclass
class DatasetEnd:
    """What there is afterwards: `written` by output, of which `kept` were there before; `failed` by output."""

    written: dict[str, Written] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    samples: int = 0
    is_stopped: bool = False
    problems: list[str] = field(default_factory=list)


class DatasetConversion:
    """One call of `run` each."""

    def __init__(
        self,
        plan: ConversionPlan,
        *,
        jobs: int = 1,
        overwrite: bool = False,
        source: Path | None = None,
        workers: MakeWorkers | None = None,
    ) -> None:
        """`source` is the list itself, which must not be written over; `workers` carry the tasks out, by default `jobs`
        threads of this process. Raises UserError when the folder is not fit."""
        self._plan = plan
        self._folder = plan.folder
        self._workers = workers or (lambda tasks, stop: Workers(tasks, jobs, stop))
        self._overwrite = overwrite
        self._stop = threading.Event()
        self._keys: dict[str, str] = {}
        check_place(plan.folder)
        _check_folder(plan.folder, overwrite=overwrite, source=source)

    def run(self, watcher: ConversionWatcher) -> DatasetEnd:
        """Converts what is not there yet. Raises UserError when nothing can be written, KeyboardInterrupt at a second
        Ctrl-C; what was finished is kept in any case."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            busy = f"{self._folder}: another conversion writes into it; wait for it, or choose another folder."
            with locked(self._folder / LOCK, busy):
                return self._run(watcher)
        except OSError as error:
            raise UserError(
                f"{self._folder}: cannot be written to ({reason(error)}); check its permissions and its free space."
            ) from None

    def _run(self, watcher: ConversionWatcher) -> DatasetEnd:
        end = DatasetEnd()
        with self._journal() as journal:
            self._keys = _keys(self._plan)
            for output in self._plan.tasks:
                if journal.is_done(output, self._keys[output]):
                    end.written[output] = journal.entries[output].written
                    end.kept.add(output)
            journal.begin()
            _clear_away(self._folder)
            left = [task for output, task in self._plan.tasks.items() if output not in end.kept]
            watcher.begin(len(self._plan.tasks), len(end.kept))
            self._work(left, journal, end, watcher)
            journal.close()
            journal.rewrite(self._plan.tasks)
        self._conclude(end)
        return end

    def _journal(self) -> Journal:
        if self._overwrite:
            (self._folder / Journal.NAME).unlink(missing_ok=True)
        return Journal(self._folder)

    def _work(self, left: list[Task], journal: Journal, end: DatasetEnd, watcher: ConversionWatcher) -> None:
        def stops() -> None:
            self._stop.set()
            watcher.stopping()

        if not left:
            return
        hopeless: str | None = None
        workers = self._workers(left, self._stop)
        with first_interrupt(stops):
            for outcome in workers.outcomes():
                watcher.look(workers.steps)
                if outcome is None:
                    continue
                self._note(outcome, journal, end)
                watcher.end(outcome)
                if outcome.is_hopeless and hopeless is None:
                    hopeless = outcome.error
                    self._stop.set()
        if hopeless is not None:
            raise UserError(f"{hopeless.rstrip('.')}; the same command then goes on.")
        end.is_stopped = self._stop.is_set()

    def _note(self, outcome: Outcome, journal: Journal, end: DatasetEnd) -> None:
        output = outcome.task.output.relative_to(self._folder).as_posix()
        if outcome.written is not None:
            journal.add(JournalEntry(output, self._keys[output], outcome.written))
            end.written[output] = outcome.written
        elif outcome.error is not None:
            end.failed[output] = outcome.error

    def _conclude(self, end: DatasetEnd) -> None:
        samples: list[Sample] = []
        for number, row in enumerate(self._plan.rows, start=1):
            problem = row.problem or next((end.failed[output] for output in row.outputs if output in end.failed), None)
            if problem is not None:
                end.problems.append(f"Sample {number}, '{row.sample.name}': {problem}")
            elif all(output in end.written for output in row.outputs):
                samples.append(converted(row, self._plan, end.written))
        end.samples = len(samples)
        write_manifest(self._folder / MANIFEST, samples)


def _clear_away(folder: Path) -> None:
    """Removes what a killed conversion had begun, whatever it was to become. Raises OSError."""
    for place in folder.iterdir():
        if not place.is_dir() or place.is_symlink():
            continue
        for unfinished in place.glob("*.part"):
            if not (unfinished.name in _UNFINISHED or is_part(unfinished)) or unfinished.is_symlink():
                continue
            if unfinished.is_dir():
                shutil.rmtree(unfinished)
            else:
                unfinished.unlink()


def _keys(plan: ConversionPlan) -> dict[str, str]:
    """The key of each task; of one whose source is gone, none that a journal could have. Folders are listed once."""
    stamps: dict[str, list[int]] = {}

    def stamp_of(path: str) -> list[int]:
        place = path if Path(path).exists() else str(Path(path).parent)
        if place not in stamps:
            stamps[place] = stamp(path)
        return stamps[place]

    found: dict[str, str] = {}
    for output, task in plan.tasks.items():
        try:
            found[output] = task.key(stamp_of)
        except OSError:
            found[output] = ""
    return found


def _check_folder(folder: Path, *, overwrite: bool, source: Path | None) -> None:
    if source is not None and (folder / MANIFEST).exists() and (folder / MANIFEST).samefile(source):
        raise UserError(f"{source}: would be written over by its own conversion; give -o another folder.")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; a list of samples is converted into a folder.")
    if not folder.exists() or overwrite:
        return
    is_ours = any((folder / name).exists() for name in (Journal.NAME, LOCK))
    if not is_ours and any(folder.iterdir()):
        raise UserError(
            f"{folder}: holds other things; give an empty or a new folder, or --overwrite to write between them."
        )
