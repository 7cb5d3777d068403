"""Facts of a session apart from its runs: JSON under names. Merged sources, batches and marks have a form that is known
here; what does not fit it is ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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

    def added(before: Any, new: Any) -> Any:
        if isinstance(before, dict) and isinstance(new, dict):
            return before | new
        return before + new if isinstance(before, list) and isinstance(new, list) else new

    with changed_session(path) as file:
        file.commit({}, Commit(facts={name: added(file.fact(name), value) for name, value in facts.items()}))


def told_facts(facts: Mapping[str, Any], key: str, depth: int = _DEEPEST) -> list[Any]:
    """A fact of a session, and the same of the sessions that were merged into it, in order."""
    found = [facts[key]] if key in facts else []
    sources = facts.get(MERGED) if depth else None
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, dict):
            own, inner = source.get("facts"), source.get("sources")
            found += told_facts({**(own if isinstance(own, dict) else {}), MERGED: inner}, key, depth - 1)
    return found


def read_batches(facts: Mapping[str, Any]) -> list[BatchRow]:
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
    """The marks of a session's facts, in order of run and time; invalid ones are left out."""
    found = facts.get(MARKS)
    listed = [Mark.if_fitting(entry) for entry in found[:MOST_MARKS]] if isinstance(found, list) else []
    marks = [
        replace(mark, note=one_line(mark.note[:LONGEST_NOTE]))
        for mark in listed
        if mark is not None
        and -_FARTHEST_NS <= mark.start_ns <= mark.end_ns <= _FARTHEST_NS
        and 0 <= mark.run_id < _FARTHEST_NS
    ]
    return sorted(marks, key=lambda mark: (mark.run_id, mark.start_ns, mark.end_ns))


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
