"""Marks where the answers of A and B differ, in both texts and on the timeline."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from ui.columns.answer_comparison import AnswerComparison
from ui.columns.model_pair import ModelPair
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.timeline.timeline_view import TimelineView


class PartingMarks:
    """Keeps the marks at the first different words."""

    def __init__(
        self, controller: RunController, selection: Selection, pair: ModelPair, timeline: TimelineView, window: QWidget
    ) -> None:
        self._pair = pair
        self._timeline = timeline
        self.comparison = AnswerComparison(controller, selection, window)
        self.comparison.changed.connect(self._mark)

    def _mark(self) -> None:
        diff = self.comparison.diff
        words = [None if diff is None or not said else said[0] for said in (diff.parting if diff else ((), ()))]
        for side, (column, word) in enumerate(zip((self._pair.left, self._pair.right), words, strict=True)):
            column.text.mark_parting(None if word is None or word.position < 0 else word.position)
            column.text.mark_differing([] if diff is None else diff.differing(side))
        self._timeline.mark_partings(*(None if word is None else word.t_ns for word in words))
