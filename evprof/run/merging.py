"""Join sessions: numbers of runs and requests, and what refers to them, continue after those of the session before.

Engine processes keep their names, so that statistics know them apart. Facts of one session, such as the suite that it
records, are kept in the fact "merged", which names the sources and the numbers that their runs have now.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evprof.core.errors import Cancelled, UserError
from evprof.core.files.whole_file import hidden_name
from evprof.core.protocols import RunStarted, StopFlag
from evprof.core.recording import RecordLog
from evprof.core.records import column_kinds
from evprof.core.run_info import ENGINE_SESSION, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text
from evprof.run.kept_figures import kept_figures, runs_of
from evprof.run.session_target import sample_files
from evprof.session.facts import MARKS, MERGED
from evprof.session.opened import OpenedSession, open_session
from evprof.session.presence import is_written, reserved
from evprof.session.reading import load_session
from evprof.session.store import Commit, SessionFile

OF_ONE = ("suite", MERGED, "pruned")
"""Facts that describe one session alone."""

_SPARE_BYTES = 16 << 20

Watch = Callable[[str, int, int], None]
"""Receives what is done, with how many of how many runs."""


@dataclass
class SourceSession:
    """A session to join. `runs_on` and `groups_on` are added to the numbers of its runs and requests.

    `repeats_on` is added to the repeats of a configuration, by its name: earlier sources have so many. `number` counts
    the sources from 1.
    """

    path: Path
    session: OpenedSession
    number: int = 1
    runs_on: int = 0
    groups_on: int = 0
    repeats_on: Mapping[str, int] = field(default_factory=dict)

    @property
    def runs(self) -> dict[int, RunLog]:
        """All runs, deleted ones too, in order of their numbers."""
        every = {**self.session.runs, **self.session.deleted}
        return {run_id: every[run_id] for run_id in sorted(every)}

    @property
    def last_run(self) -> int:
        """The highest number of a run; 0 without one."""
        return max((*self.session.runs, *self.session.deleted), default=0)

    @property
    def last_group(self) -> int:
        """The highest number of a request; 0 without one."""
        return max((run.info.group_id for run in self.runs.values()), default=0)


@dataclass(frozen=True)
class MergedSource:
    """What became of one source: the numbers its runs have now. `deleted` of them were deleted, and still are."""

    path: Path
    runs: int
    deleted: int
    first_run: int
    last_run: int

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "path": str(self.path)}


def merge_sessions(paths: Sequence[Path], output: Path, stop: StopFlag, watch: Watch) -> list[MergedSource]:
    """Write one session that holds all runs. The rows of one source at a time are in memory.

    Raises UserError or Cancelled, and writes nothing then. The sources are not changed.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError("A session is named twice; each goes in once.")
    if output.resolve() in {path.resolve() for path in paths}:
        raise UserError(f"'{output}' is one of the sessions that are joined; name a new file.")
    sources = [_opened(path, number) for number, path in enumerate(paths, start=1)]
    _check_room(output, sum(path.stat().st_size for path in paths))
    _number(sources)
    total, done = sum(len(source.runs) for source in sources), 0
    with _whole_session(output) as file:
        for source in sources:
            if stop.is_set():
                raise Cancelled
            watch("runs", done, total)
            _copy(source, file)
            done += len(source.runs)
        facts = merged_facts(sources)
        environments = [source.session.environment for source in sources]
        is_one = all(environment == environments[0] for environment in environments)
        file.commit({}, Commit(environment=environments[0] if is_one else None, facts=facts))
    return [_told(source) for source in sources]


def _opened(path: Path, number: int) -> SourceSession:
    """Raises UserError if the session cannot be read, or is being recorded."""
    if is_written(path):
        raise UserError(f"{path} is being recorded; wait until that has ended.")
    return SourceSession(path, open_session(path), number)


def _check_room(output: Path, needed: int) -> None:
    """Raises UserError unless the disk of `output` has room for so many bytes."""
    folder = output.absolute().parent
    if not folder.is_dir():
        raise UserError(f"There is no folder '{folder}' to write '{output.name}' to; make it first.")
    free = shutil.disk_usage(folder).free
    if free < needed + _SPARE_BYTES:
        raise UserError(
            f"'{output}' would take about {bytes_text(needed)}, and there are {bytes_text(free)} free on its disk; "
            "make room, or name a place on another disk."
        )


@contextmanager
def _whole_session(output: Path) -> Iterator[SessionFile]:
    """A new session that appears at `output` only if no error occurs inside."""
    if output.exists():
        raise UserError(f"'{output}' exists already; name another file.")
    part = output.with_name(hidden_name())
    try:
        with reserved(output):
            with closing(SessionFile(part)) as file:
                yield file
            os.replace(part, output)
    except (OSError, sqlite3.Error) as error:
        raise UserError(f"'{output}' cannot be written: {error}; name another place, or make room.") from error
    finally:
        for ending in ("", "-wal", "-shm", "-journal", "-lock"):
            part.with_name(part.name + ending).unlink(missing_ok=True)


def _copy(source: SourceSession, file: SessionFile) -> None:
    """Copy all rows and facts of a source with their new numbers. Damaged runs stay failed, with their warning."""
    read, moved = load_session(source.path).recording, RecordLog()
    for name, stream in read.streams.items():
        columns: list[Any] = [
            (stream.texts if kind == "str" else stream.column)(column) for column, kind in column_kinds(name).items()
        ]
        moved.streams[name].extend_columns([columns[0] + source.runs_on, *columns[1:]])
    infos = [
        replace(message.info.copied(), **changes_of(source, message.info))
        for message in read.messages()
        if isinstance(message, RunStarted)
    ]
    samples = [sample for info in infos for sample in sample_files(info)]
    file.commit(
        moved.streams,
        Commit(
            ranges={name: (0, len(stream)) for name, stream in moved.streams.items() if len(stream)},
            infos=infos,
            begun=frozenset(info.run_id for info in infos),
            samples=samples,
            figures=kept_figures(run for run in runs_of(moved, infos) if run.info.is_over),
        ),
    )


def changes_of(source: SourceSession, info: RunInfo) -> dict[str, Any]:
    """The fields of a run that change in the joined session. A process without a name is named after its session."""
    changes: dict[str, Any] = {
        "run_id": info.run_id + source.runs_on,
        "group_id": info.group_id + source.groups_on,
        "baseline": [number + source.runs_on for number in info.baseline],
        "chosen_baseline": [number + source.runs_on for number in info.chosen_baseline],
    }
    if info.imported is None:
        changes["repeat"] = info.repeat + source.repeats_on.get(info.cell, 0)
        process = info.environment.get(ENGINE_SESSION) or f"{source.path.stem} ({source.number})"
        changes["environment"] = {**info.environment, ENGINE_SESSION: process}
    return changes


def _number(sources: Sequence[SourceSession]) -> None:
    runs_on = groups_on = 0
    repeats: dict[str, int] = {}
    for source in sources:
        source.runs_on, source.groups_on, source.repeats_on = runs_on, groups_on, dict(repeats)
        for run in source.runs.values():
            if cell := run.info.cell:
                after = run.info.repeat + source.repeats_on.get(cell, 0) + 1
                repeats[cell] = max(repeats.get(cell, 0), after)
        runs_on += source.last_run
        groups_on += source.last_group


def _told(source: SourceSession) -> MergedSource:
    return MergedSource(
        source.path, len(source.runs), len(source.session.deleted), source.runs_on + 1, source.runs_on + source.last_run
    )


def merged_facts(sources: Sequence[SourceSession]) -> dict[str, Any]:
    """The facts of all: lists one after the other, tables together, and apart what cannot stand for all."""
    together: dict[str, Any] = {}
    apart: list[dict[str, Any]] = [{} for _ in sources]
    keys = dict.fromkeys(key for source in sources for key in source.session.facts if key not in OF_ONE)
    for key in keys:
        told = [(place, _moved(key, source)) for place, source in enumerate(sources) if key in source.session.facts]
        found = _joined(key, [value for _, value in told])
        if found is None:
            for place, value in told:
                apart[place][key] = value
        else:
            together[key] = found
    listed = []
    for source, own in zip(sources, apart, strict=True):
        session = source.session
        own |= {key: session.facts[key] for key in OF_ONE if key in session.facts and key != MERGED}
        inner = session.facts.get(MERGED)
        listed.append(
            {
                **_told(source).to_json(),
                "created_at": session.created_at,
                "evprof_version": session.evprof_version,
                "facts": own,
                **({"sources": inner} if isinstance(inner, list) else {}),
            }
        )
    return {**together, MERGED: listed}


def _moved(key: str, source: SourceSession) -> Any:
    """A fact whose numbers of runs are those they have now."""
    value = source.session.facts[key]
    if key == MARKS and isinstance(value, list):
        return [
            {**mark, "run_id": mark["run_id"] + source.runs_on}
            for mark in value
            if isinstance(mark, dict) and isinstance(mark.get("run_id"), int)
        ]
    return value


def _joined(key: str, values: Sequence[Any]) -> Any:
    """The facts of one name as one; None where one cannot stand for all."""
    if all(value == values[0] for value in values):
        return values[0]
    if all(isinstance(value, list) for value in values):
        listed = [entry for value in values for entry in value]
        paths = [entry.get("path") for entry in listed if isinstance(entry, dict)]
        if key == "imports" and len(set(map(str, paths))) < len(paths):
            return None  # runs find their file by its path
        return [entry for place, entry in enumerate(listed) if entry not in listed[:place]]
    if all(isinstance(value, dict) for value in values):
        found: dict[str, Any] = {}
        for value in values:
            if any(name in found and found[name] != entry for name, entry in value.items()):
                return None
            found |= value
        return found
    return None
