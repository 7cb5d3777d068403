"""Marks where the answers of A and B part and what each says otherwise: in both texts and on the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from ui.columns.answer_comparison import AnswerComparison
from ui.columns.model_pair import ModelPair
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.timeline.timeline_view import TimelineView

if TYPE_CHECKING:
    from evprof.metrics.comparison.answers import SaidWord


class PartingMarks:
    """Keeps the marks where the first different words are."""

    def __init__(
        self, controller: RunController, selection: Selection, pair: ModelPair, timeline: TimelineView, window: QWidget
    ) -> None:
        self._pair = pair
        self._timeline = timeline
        self.comparison = AnswerComparison(controller, selection, window)
        self.comparison.changed.connect(self._mark)

    def _mark(self) -> None:
        diff = self.comparison.diff
        words = (None, None) if diff is None else (_first(diff.parting[0]), _first(diff.parting[1]))
        for side, (column, word) in enumerate(zip((self._pair.left, self._pair.right), words, strict=True)):
            column.text.mark_parting(None if word is None or word.position < 0 else word.position)
            column.text.mark_differing([] if diff is None else diff.differing(side))
        self._timeline.mark_partings(*(None if word is None else word.t_ns for word in words))


def _first(said: tuple[SaidWord, ...]) -> SaidWord | None:
    return said[0] if said else None
