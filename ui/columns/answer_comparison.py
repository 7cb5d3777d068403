"""Where the answers of runs A and B part, kept up to date while they are being said."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from evprof.core.run_log import RunLog
from evprof.view.columns import columns_of
from ui.state.newest_errand import NewestErrand
from ui.state.run_controller import RunController
from ui.state.selection import Selection

if TYPE_CHECKING:
    from evprof.metrics.comparison.answers import AnswerDiff

MOST_AT_ONCE = 1_000
"""Tokens of both answers together that are compared at once. Longer ones are compared when both are over, on a thread:
words that come again and again would hold up several pictures."""


class AnswerComparison(QObject):
    """The diff of the two shown runs; None while they are not two. Nothing is done while `seen_by` is hidden;
    it has to `look` when it is shown.

    Signals:
        changed(): there is another diff, or none any more.
    """

    changed = Signal()

    def __init__(self, controller: RunController, selection: Selection, seen_by: QWidget) -> None:
        super().__init__(seen_by)
        self._seen_by = seen_by
        self._controller = controller
        self._selection = selection
        self.runs: tuple[RunLog, RunLog] | None = None
        self.diff: AnswerDiff | None = None
        self.untold = ""
        """Whose answer nobody knows: "A", "B" or "A and B"; then there is no diff."""

        self._known: object = None
        self.errand = NewestErrand("evprof-answers", self)
        self.errand.done.connect(self._take)
        selection.runs_changed.connect(self.look)
        controller.session_replaced.connect(self.look)
        controller.figures_due.connect(self._note)

    def _note(self, run_ids: set[int]) -> None:
        if run_ids.intersection(self._selection.runs):
            self.look()

    def look(self, *_: object) -> None:
        """Compares what is there now."""
        if not self._seen_by.isVisible():
            return
        a, b = columns_of(self._controller.runs, self._selection.runs)
        self.runs = None if a is None or b is None or a.run is b.run else (a.run, b.run)
        known: object = self.runs and tuple(
            (id(run), len(run.tokens), run.info.status, run.info.text) for run in self.runs
        )
        if self._is_too_long_yet():
            known = self.runs and [id(run) for run in self.runs]
        if known == self._known:
            return
        self._known = known
        self.diff = None
        self.untold = "" if self.runs is None else _untold(self.runs)
        self.errand.forget()
        told = None if self.untold else self.runs
        if told is not None and not self._is_long():
            self.diff = _diff_of(told)
        elif told is not None and not self._is_too_long_yet():
            self.errand.ask(partial(_diff_of, told))
        self.changed.emit()

    def _take(self, diff: AnswerDiff | None) -> None:
        self.diff = diff
        self.changed.emit()

    def _is_long(self) -> bool:
        return sum(len(run.tokens) for run in self.runs or ()) > MOST_AT_ONCE

    def _is_too_long_yet(self) -> bool:
        """Whether long answers still grow: they would be compared anew all the time."""
        return any(not run.info.is_over for run in self.runs or ()) and self._is_long()


def _untold(runs: tuple[RunLog, RunLog]) -> str:
    from evprof.metrics.comparison.answers import is_answer_told

    return " and ".join(letter for letter, run in zip("AB", runs, strict=True) if not is_answer_told(run))


def _diff_of(runs: tuple[RunLog, RunLog]) -> AnswerDiff:
    from evprof.metrics.comparison.answers import diff_of

    return diff_of(*runs)
