"""The marks of the session on show: set, noted and deleted by a person, kept by whoever listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from evprof.core.run_log import RunLog
from evprof.session.facts import LONGEST_NOTE, MOST_MARKS, Mark, marks_of
from evprof.view.columns import pair_for
from ui.state.selection import Selection, TimeRange


class MarkBook(QObject):
    """Marks in order of run and time.

    Signals:
        changed(): there are other marks than before, for whatever reason.
        edited(object): a person changed them; plain values for the session's facts.
        deleted(object): a Mark was deleted; `add` undoes it.
        refused(str): why a mark was not set, in a sentence.
    """

    changed = Signal()
    edited = Signal(object)
    deleted = Signal(object)
    refused = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.marks: list[Mark] = []

    def read(self, facts: Mapping[str, Any]) -> None:
        self.marks = marks_of(facts)
        self.changed.emit()

    def add(self, mark: Mark) -> None:
        """Sets a mark; one that is there already is not set twice."""
        if any(_place(mark) == _place(other) for other in self.marks):
            return
        if len(self.marks) >= MOST_MARKS:
            self.refused.emit(f"A session keeps {MOST_MARKS} marks; delete one first.")
            return
        self._put([*self.marks, mark])

    def delete(self, mark: Mark) -> None:
        if mark in self.marks:
            self._put([other for other in self.marks if other != mark])
            self.deleted.emit(mark)

    def write_note(self, mark: Mark, note: str) -> None:
        """Writes on a mark, in place of what stood there."""
        noted = replace(mark, note=" ".join(note.split())[:LONGEST_NOTE])
        if mark in self.marks and noted != mark:
            self._put([noted if other == mark else other for other in self.marks])

    def of_runs(self, run_ids: set[int]) -> list[Mark]:
        return [mark for mark in self.marks if mark.run_id in run_ids]

    def _put(self, marks: list[Mark]) -> None:
        self.marks = sorted(marks, key=_place)
        self.changed.emit()
        self.edited.emit([mark.to_json() for mark in self.marks])


def _place(mark: Mark) -> tuple[int, int, int]:
    return mark.run_id, mark.start_ns, mark.end_ns


def go_to(mark: Mark, runs: Mapping[int, RunLog], selection: Selection) -> None:
    """Shows a mark, and its run if need be; a stretch is selected. None of a run that was deleted."""
    if mark.run_id not in runs:
        return
    if mark.run_id not in selection.runs:
        selection.set_runs(*pair_for(runs, mark.run_id))
    a, b = selection.runs
    shift = selection.offset_ns if mark.run_id == b != a else 0
    when = TimeRange(mark.start_ns + shift, mark.end_ns + shift)
    view = selection.view_range
    if when.end_ns > when.start_ns:
        selection.select(when)
    elif view is not None and not view.start_ns <= when.start_ns <= view.end_ns:
        half = (view.end_ns - view.start_ns) // 2
        selection.set_view_range((when.start_ns - half, when.start_ns + half))
