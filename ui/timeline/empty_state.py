"""The part of the timeline that is visible while no run is shown: a sentence and the button that runs the sample."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from ui.style.theme import GRID
from ui.timeline.scene import GUTTER_PX
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.label import elided_text, literal
from ui.widgets.panel_parts import EmptyState

_NAME_PX = 320
"""Longer names of samples are shortened."""

_NONE_YET = (
    "Nothing has been measured yet",
    "A run is drawn here while it happens: the five stages of both models on one time axis, draft tokens accepted and "
    "rejected, time per token, KV cache and memory. Drop recordings, videos or a folder with both onto the window.",
)
_NONE_CHOSEN = "No run is shown", "Choose one in the list of runs, or measure another."


class EmptyTimeline(QWidget):
    """Signals:
    run_requested(): the button was pressed.
    """

    run_requested = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.state = EmptyState(*_NONE_YET)
        self.button = in_role(QPushButton("Run"), "primary")
        self.button.setCursor(Qt.CursorShape.PointingHandCursor)
        self.button.clicked.connect(self.run_requested)
        line = beside(self.button, None)
        stacked(self.state, line, None, on=self, margins=(GUTTER_PX + GRID, 4 * GRID, GRID, GRID), spacing=GRID)

    def tell(self, *, has_runs: bool) -> None:
        """`has_runs`: the session has runs, of which none is chosen."""
        self.state.say(*(_NONE_CHOSEN if has_runs else _NONE_YET))

    def offer(self, name: str) -> None:
        shown = elided_text(self.button.fontMetrics(), name, Qt.TextElideMode.ElideMiddle, _NAME_PX)
        self.button.setText(f"Run {literal(shown)}")
