"""Join sessions: numbers of runs and requests, and what refers to them, continue after those of the session before.

Engine processes keep their names, so that statistics know them apart. Facts that differ between the sessions, such as
the suite that one records, are kept in the fact "merged", which names the sources and the numbers of their runs.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evprof.core.errors import Cancelled, UserError
from evprof.core.files.whole_file import hidden_name
from evprof.core.protocols import StopFlag
from evprof.core.recording import RecordLog
from evprof.core.records import column_kinds
from evprof.core.run_info import ENGINE_SESSION, RunInfo
from evprof.run.session_target import kept_figures, runs_of
from evprof.session.facts import MARKS, MERGED
from evprof.session.opened import OpenedSession, open_session
from evprof.session.presence import is_written, reserved
from evprof.session.store import Commit, SessionFile

OF_ONE = ("suite", MERGED, "pruned")
"""Facts that describe one session alone."""

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
    repeats_on: Counter[str] = field(default_factory=Counter)

    @property
    def infos(self) -> list[RunInfo]:
        return [run.info for run in self.session.every_run.values()]

    @property
    def merged(self) -> MergedSource:
        runs, deleted = self.session.every_run, len(self.session.deleted)
        last = self.runs_on + max(runs, default=0)
        return MergedSource(self.path, len(runs), deleted, self.runs_on + 1, last)


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
    sources: list[SourceSession] = []
    for path in paths:
        if is_written(path):
            raise UserError(f"{path} is being recorded; wait until that has ended.")
        sources.append(_next(sources, path))
    total, done = sum(source.merged.runs for source in sources), 0
    with _whole_session(output) as file:
        for source in sources:
            if stop.is_set():
                raise Cancelled
            watch("runs", done, total)
            _copy(source, file)
            done += source.merged.runs
        environments = [source.session.environment for source in sources]
        is_one = all(environment == environments[0] for environment in environments)
        facts = merged_facts(sources)
        file.commit({}, Commit(environment=environments[0] if is_one else None, facts=facts))
    return [source.merged for source in sources]


def _next(before: Sequence[SourceSession], path: Path) -> SourceSession:
    """A session whose numbers continue those of the sources before."""
    source = SourceSession(path, open_session(path), len(before) + 1)
    if before:
        last = before[-1]
        source.runs_on = last.merged.last_run
        source.groups_on = last.groups_on + max((info.group_id for info in last.infos), default=0)
        source.repeats_on = last.repeats_on.copy()
        for info in last.infos:
            if info.cell:
                repeats = info.repeat + last.repeats_on[info.cell] + 1
                source.repeats_on[info.cell] = max(source.repeats_on[info.cell], repeats)
    return source


@contextmanager
def _whole_session(output: Path) -> Iterator[SessionFile]:
    """A new session that appears at `output` only if no error occurs inside."""
    if output.exists():
        raise UserError(f"'{output}' exists already; name another file.")
    if not output.absolute().parent.is_dir():
        raise UserError(f"There is no folder '{output.parent}' to write '{output.name}' to; make it first.")
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
    """Copy all rows and facts of a source with their new numbers. Runs with damaged rows become failed."""
    moved, infos, rows_of = RecordLog(), list[RunInfo](), source.session.recording.source
    for info in [info.copied() for info in source.infos]:
        rows, problem = (RecordLog(), "") if rows_of is None else rows_of.rows(info.run_id)
        if problem:
            info.spoil(problem)
        for name, stream in rows.streams.items():
            if len(stream):
                kinds = column_kinds(name).items()
                columns: list[Any] = [
                    (stream.texts if kind == "str" else stream.column)(column) for column, kind in kinds
                ]
                moved.streams[name].extend_columns([columns[0] + source.runs_on, *columns[1:]])
        infos.append(replace(info, **changes_of(source, info)))
    ranges = {name: (0, len(stream)) for name, stream in moved.streams.items() if len(stream)}
    figures = kept_figures(run for run in runs_of(moved, infos) if run.info.is_over)
    file.commit(moved.streams, Commit(ranges, infos, frozenset(info.run_id for info in infos), figures=figures))


def changes_of(source: SourceSession, info: RunInfo) -> dict[str, Any]:
    """The fields of a run that change in the joined session. A process without a name is named after its session."""
    changes: dict[str, Any] = {
        "run_id": info.run_id + source.runs_on,
        "group_id": info.group_id + source.groups_on,
        "chosen_baseline": [number + source.runs_on for number in info.chosen_baseline],
    }
    if info.imported is None:
        changes["repeat"] = info.repeat + source.repeats_on[info.cell]
        process = info.environment.get(ENGINE_SESSION) or f"{source.path.stem} ({source.number})"
        changes["environment"] = {**info.environment, ENGINE_SESSION: process}
    return changes


def merged_facts(sources: Sequence[SourceSession]) -> dict[str, Any]:
    """The facts of all: lists one after the other, equal ones once, and apart what cannot stand for all."""
    together: dict[str, Any] = {}
    apart: list[dict[str, Any]] = [{} for _ in sources]
    for key in dict.fromkeys(key for source in sources for key in source.session.facts if key != MERGED):
        told = [(own, _moved(key, source)) for own, source in zip(apart, sources, strict=True)]
        values = [value for _, value in told if value is not None]
        joined = None if key in OF_ONE else _joined(key, values)
        if joined is not None:
            together[key] = joined
        else:
            for own, value in told:
                if value is not None:
                    own[key] = value
    listed = []
    for source, own in zip(sources, apart, strict=True):
        session, inner = source.session, source.session.facts.get(MERGED)
        about = {"created_at": session.created_at, "evprof_version": session.evprof_version, "facts": own}
        listed.append({**source.merged.to_json(), **about, **({"sources": inner} if isinstance(inner, list) else {})})
    return {**together, MERGED: listed}


def _moved(key: str, source: SourceSession) -> Any:
    """A fact whose numbers of runs are those they have now."""
    value = source.session.facts.get(key)
    if key == MARKS and isinstance(value, list):
        marks = [mark for mark in value if isinstance(mark, dict) and isinstance(mark.get("run_id"), int)]
        return [{**mark, "run_id": mark["run_id"] + source.runs_on} for mark in marks]
    return value


def _joined(key: str, values: Sequence[Any]) -> Any:
    if all(value == values[0] for value in values):
        return values[0] if values else None
    if not all(isinstance(value, list) for value in values):
        return None
    listed = [entry for value in values for entry in value]
    paths = [str(entry.get("path")) for entry in listed if isinstance(entry, dict)]
    if key == "imports" and len(set(paths)) < len(paths):
        return None  # runs find their file by its path
    return [entry for place, entry in enumerate(listed) if entry not in listed[:place]]
