"""Facts of a session apart from its runs: JSON under names. Merged sources, batches, marks and trainings
have a form that is known here; what does not fit it is ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evprof.core.errors import UserError
from evprof.core.plain import Plain
from evprof.core.records import BATCHES, BatchRow
from evprof.core.texts import one_line
from evprof.core.units import ms_from_ns

MERGED = "merged"
"""The fact that names the sessions that were merged into one, and keeps what could not stand for all."""

_DEEPEST = 20
"""Merges of merged sessions that are looked into."""


def add_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Adds to what the session at `path` holds, which is made if need be: entries of a dictionary replace those of
    their names, entries of a list follow those before. Raises UserError when the session cannot be written.
    """
    from evprof.session.store import Commit, changed_session

    with changed_session(path) as file:
        file.commit({}, Commit(facts={name: _added(file.fact(name), value) for name, value in facts.items()}))


def _added(before: Any, new: Any) -> Any:
    if isinstance(before, dict) and isinstance(new, dict):
        return before | new
    if isinstance(before, list) and isinstance(new, list):
        return before + new
    return new


def told_facts(facts: Mapping[str, Any], key: str, depth: int = _DEEPEST) -> list[Any]:
    """A fact of a session, and the same of the sessions that were merged into it, in order."""
    found = [facts[key]] if key in facts else []
    return found + (_of_sources(facts.get(MERGED), key, depth) if depth else [])


def _of_sources(sources: Any, key: str, depth: int) -> list[Any]:
    found: list[Any] = []
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, dict):
            own = source.get("facts")
            found += told_facts(own, key, 0) if isinstance(own, dict) else []
            found += _of_sources(source.get("sources"), key, depth - 1) if depth else []
    return found


# Batches.


def read_batches(facts: Mapping[str, Any]) -> list[BatchRow]:
    """The rows of a session's facts, in order; what is no such row is none."""
    listed = facts.get(BATCHES)
    rows = listed if isinstance(listed, list) else []
    return [row for values in rows if (row := BatchRow.if_fitting(values)) is not None]


# Marks on the time axis of runs.

MARKS = "marks"
"""The fact that holds them."""

MOST_MARKS, LONGEST_NOTE = 1_000, 500
_FARTHEST_NS = 1 << 60


@dataclass(frozen=True)
class Mark(Plain):
    """A moment or stretch of one run, in ns from the run's zero (`end_ns` equals `start_ns` for a moment)."""

    run_id: int
    start_ns: int
    end_ns: int
    note: str = ""


def marks_of(facts: Mapping[str, Any]) -> list[Mark]:
    """The marks of a session's facts, in order of time; what is none is left out."""
    found = facts.get(MARKS)
    listed = [Mark.if_fitting(entry) for entry in found[:MOST_MARKS]] if isinstance(found, list) else []
    return sorted(
        (_safe_mark(mark) for mark in listed if mark is not None and _is_possible_mark(mark)), key=_mark_order
    )


def mark_documents(facts: Mapping[str, Any], run_ids: Collection[int]) -> list[dict[str, Any]]:
    """The marks of these runs as JSON (keys are a contract; see docs/json.md); a moment has the length 0."""
    return [
        {
            "run_id": mark.run_id,
            "at_ms": ms_from_ns(mark.start_ns),
            "length_ms": ms_from_ns(mark.end_ns - mark.start_ns),
            "note": mark.note,
        }
        for mark in marks_of(facts)
        if mark.run_id in run_ids
    ]


def _is_possible_mark(mark: Mark) -> bool:
    return -_FARTHEST_NS <= mark.start_ns <= mark.end_ns <= _FARTHEST_NS and 0 <= mark.run_id < _FARTHEST_NS


def _safe_mark(mark: Mark) -> Mark:
    return Mark(mark.run_id, mark.start_ns, mark.end_ns, one_line(mark.note[:LONGEST_NOTE]))


def _mark_order(mark: Mark) -> tuple[int, int, int]:
    return mark.run_id, mark.start_ns, mark.end_ns


# Trainings.

TRAINING = "training"
"""The fact that holds them."""

MOST_TRAININGS = 200


def trainings(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The trainings of a session's facts, in order; what is no such list is none."""
    found = facts.get(TRAINING)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


class TrainingEntry:
    """One training in a session that is held open for it; `put` may be called as often as its curves grow.

    A context manager. A session that is not there is made; one with runs keeps them.
    """

    def __init__(self, path: Path) -> None:
        """Raises UserError for a file that is no session, for one that is being recorded, and for a full one."""
        from evprof.session.store import SessionFile

        self.path = path
        self._file = SessionFile(path)
        self._before = trainings({TRAINING: self._file.fact(TRAINING)})
        if len(self._before) >= MOST_TRAININGS:
            self._file.close()
            raise UserError(f"{path} tells of {MOST_TRAININGS} trainings already; name another session.")

    def put(self, entry: Mapping[str, Any]) -> None:
        """This training as it is now, after those that were there. Raises UserError when it cannot be written."""
        import sqlite3

        from evprof.session.store import Commit

        try:
            self._file.commit({}, Commit(facts={TRAINING: [*self._before, dict(entry)]}))
        except sqlite3.Error as error:
            raise UserError(f"{self.path} cannot be written: {error}; is there room on the disk?") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import sqlite3

        try:
            self._file.close()
        except sqlite3.Error as problem:
            if kind is None:
                raise UserError(f"{self.path} cannot be closed: {problem}; is there room on the disk?") from problem
