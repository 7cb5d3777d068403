"""Where the answers of runs A and B differ, followed while they grow, and the marks of it in both texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from evprof.core.run_log import RunLog
from evprof.view.columns import columns_of
from ui.columns.model_pair import ModelPair
from ui.state.run_controller import RunController
from ui.state.selection import Selection

if TYPE_CHECKING:
    from evprof.metrics.comparison.answers import AnswerDiff


MOST_LIVE = 1_000
"""Tokens of both answers together that are compared while they grow. Longer answers are compared when both are over."""


class AnswerComparison(QObject):
    """The diff of the two runs in the columns; None while there are not two.

    It works only while `seen_by` is visible, which calls `look` when it is shown.

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
        self.unknown = ""
        """Whose answer is not known: "A", "B" or "A and B"; then there is no diff."""

        self._known: object = None
        selection.runs_changed.connect(self.look)
        controller.session_replaced.connect(self.look)
        controller.figures_due.connect(self._note)

    def _note(self, run_ids: set[int]) -> None:
        if run_ids.intersection(self._selection.runs):
            self.look()

    def look(self, *_: object) -> None:
        """Compares the present answers."""
        if not self._seen_by.isVisible():
            return
        from evprof.metrics.comparison.answers import diff_of, is_answer_told

        a, b = columns_of(self._controller.runs, self._selection.runs)
        self.runs = None if a is None or b is None or a.run is b.run else (a.run, b.run)
        runs = self.runs or ()
        is_growing = any(not run.info.is_over for run in runs)
        waits = is_growing and sum(len(run.tokens) for run in runs) > MOST_LIVE
        known = [(id(run), None if waits else (len(run.tokens), run.info.status, run.info.text)) for run in runs]
        if known == self._known:
            return
        self._known = known
        self.unknown = " and ".join(letter for letter, run in zip("AB", runs, strict=False) if not is_answer_told(run))
        self.diff = None if self.runs is None or self.unknown or waits else diff_of(*self.runs)
        self.changed.emit()


class PartingMarks:
    """Keeps the marks at the first different words."""

    def __init__(self, controller: RunController, selection: Selection, pair: ModelPair, window: QWidget) -> None:
        self._pair = pair
        self.comparison = AnswerComparison(controller, selection, window)
        self.comparison.changed.connect(self._mark)

    def _mark(self) -> None:
        diff = self.comparison.diff
        words = [None if diff is None or not said else said[0] for said in (diff.parting if diff else ((), ()))]
        for side, (column, word) in enumerate(zip((self._pair.left, self._pair.right), words, strict=True)):
            column.text.mark_parting(None if word is None or word.position < 0 else word.position)
            column.text.mark_differing([] if diff is None else diff.differing(side))
