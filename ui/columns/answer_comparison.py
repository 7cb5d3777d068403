"""Marks the words in which the answers of runs A and B differ, in both texts, while the answers grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from evprof.view.columns import columns_of
from ui.columns.model_pair import ModelPair
from ui.state.run_controller import RunController
from ui.state.selection import Selection

if TYPE_CHECKING:
    from evprof.metrics.comparison.answers import AnswerDiff


MOST_LIVE = 1_000
"""Tokens of both answers together that are compared while they grow. Longer answers are compared when both are over."""


class AnswerComparison:
    """Compares the two runs in the columns while `window` is visible; `window` calls `look` when it is shown."""

    def __init__(self, controller: RunController, selection: Selection, pair: ModelPair, window: QWidget) -> None:
        self._controller = controller
        self._selection = selection
        self._pair = pair
        self._window = window
        self._known: object = None
        self.diff: AnswerDiff | None = None
        selection.runs_changed.connect(self.look)
        controller.session_replaced.connect(self.look)
        controller.figures_due.connect(self._note)

    def _note(self, run_ids: set[int]) -> None:
        if run_ids.intersection(self._selection.runs):
            self.look()

    def look(self, *_: object) -> None:
        """Compares the present answers; answers that are not known have no differences."""
        if not self._window.isVisible():
            return
        from evprof.metrics.comparison.answers import diff_of, is_answer_told

        a, b = columns_of(self._controller.runs, self._selection.runs)
        runs = () if a is None or b is None or a.run is b.run else (a.run, b.run)
        is_growing = any(not run.info.is_over for run in runs)
        waits = is_growing and sum(len(run.tokens) for run in runs) > MOST_LIVE
        known = [(id(run), None if waits else (len(run.tokens), run.info.status, run.info.text)) for run in runs]
        if known == self._known:
            return
        self._known = known
        is_known = bool(runs) and all(map(is_answer_told, runs)) and not waits
        self.diff = diff_of(*runs) if is_known else None
        for side, column in enumerate((self._pair.left, self._pair.right)):
            column.text.mark_differing([] if self.diff is None else self.diff.differing(side))
