"""Marks that people set on the time axis of a session's runs, with notes: a list under a fact of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from evprof.core.plain import Plain
from evprof.core.safe_text import one_line
from evprof.core.units import ms_from_ns

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
    return sorted((_safe(mark) for mark in listed if mark is not None and _is_possible(mark)), key=_order)


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


def _is_possible(mark: Mark) -> bool:
    return -_FARTHEST_NS <= mark.start_ns <= mark.end_ns <= _FARTHEST_NS and 0 <= mark.run_id < _FARTHEST_NS


def _safe(mark: Mark) -> Mark:
    return Mark(mark.run_id, mark.start_ns, mark.end_ns, one_line(mark.note[:LONGEST_NOTE]))


def _order(mark: Mark) -> tuple[int, int, int]:
    return mark.run_id, mark.start_ns, mark.end_ns
