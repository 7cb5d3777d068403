"""Joins sessions: runs, requests and what refers to them are numbered on; nothing that a session says is lost.

Engine processes keep their names, so that intervals know them apart. Facts that speak of one session, such as the suite
it records, are kept under it in the fact "merged", which names the sources and the numbers their runs have now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.protocols import StopFlag
from evprof.core.run_info import ENGINE_SESSION, RunInfo
from evprof.run.rewriting.copying import (
    SourceSession,
    Watch,
    check_room,
    copy_session_into,
    file_bytes,
    open_source,
    stopping,
    whole_session,
)
from evprof.session.facts import MARKS, MERGED, VIEWS
from evprof.session.schema import FACT_PREFIX
from evprof.session.store import Copies

OF_ONE = ("suite", MERGED, "pruned")
"""Facts that speak of one session alone."""


@dataclass(frozen=True)
class MergedSource:
    """What became of one source: the numbers its runs have now. `deleted` of them were deleted, and still are."""

    path: Path
    runs: int
    deleted: int
    first_run: int
    last_run: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "path": str(self.path)}


def merge_sessions(paths: Sequence[Path], output: Path, stop: StopFlag, watch: Watch) -> list[MergedSource]:
    """Writes one session of all. Raises UserError, and writes nothing, where that cannot be; Cancelled where `stop` is.

    The sources are not touched.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError("A session is named twice; each goes in once.")
    if output.resolve() in {path.resolve() for path in paths}:
        raise UserError(f"'{output}' is one of the sessions that are joined; name a new file.")
    sources = [open_source(path) for path in paths]
    check_room(output, file_bytes(paths))
    _number(sources)
    watching = stopping(stop, watch)
    with whole_session(output) as file:
        for source in sources:
            copy_session_into(file, source, watching)
        session = {FACT_PREFIX + key: value for key, value in merged_facts(sources).items()}
        environments = [source.session.environment for source in sources]
        if all(found == environments[0] for found in environments):
            session["environment"] = environments[0]
        file.copy_rows(Copies(session=session))
    return [_told(source) for source in sources]


def _number(sources: Sequence[SourceSession]) -> None:
    """Lets the numbers of every source follow those of the one before."""
    runs_on = groups_on = 0
    repeats: dict[str, int] = {}
    for place, source in enumerate(sources):
        source.runs_on, source.groups_on = runs_on, groups_on
        infos = [run.info for run in source.runs.values()]
        source.change = _Change(source.path, place, dict(repeats))
        for info in infos:
            if info.cell:
                last = repeats.get(info.cell, -1)
                repeats[info.cell] = max(last, info.repeat + source.change.more(info.cell))
        runs_on += source.last_run
        groups_on += source.last_group


@dataclass(frozen=True)
class _Change:
    """What becomes of the facts of one source's runs: rows of a configuration that an earlier source has are further
    repeats of it, and a process without a name is called by its session."""

    path: Path
    place: int
    known: Mapping[str, int]

    def more(self, cell: str) -> int:
        """What is added to the number of a repeat."""
        return self.known[cell] + 1 if cell in self.known else 0

    def __call__(self, info: RunInfo) -> dict[str, Any]:
        if info.imported is not None:
            return {}
        found: dict[str, Any] = {}
        if not info.environment.get(ENGINE_SESSION):
            found["environment"] = {**info.environment, ENGINE_SESSION: f"{self.path.stem} ({self.place + 1})"}
        if more := self.more(info.cell):
            found["repeat"] = info.repeat + more
        return found


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
    if key == VIEWS and isinstance(value, dict):
        return {name: _moved_view(view, source) for name, view in value.items()}
    return value


def _moved_view(view: Any, source: SourceSession) -> Any:
    if not isinstance(view, dict):
        return view

    def column(entry: Any) -> Any:
        is_own = isinstance(entry, list) and len(entry) == 4 and isinstance(entry[1], int) and not entry[0]
        return [entry[0], entry[1] + source.runs_on, *entry[2:]] if is_own else entry

    columns = view.get("columns")
    moved = [column(entry) for entry in columns] if isinstance(columns, list) else columns
    return {**view, "columns": moved, "baseline": column(view.get("baseline"))}


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
