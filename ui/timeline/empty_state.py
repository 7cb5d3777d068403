"""What the timeline says while it shows no run: what it will show, what fills it, one button."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QPushButton, QWidget

from evprof.core.records import STAGES
from ui.style.theme import GRID, SMALL_PX
from ui.timeline.scene import GUTTER_PX, TimelineScene
from ui.widgets.boxes import beside, in_role, put_parts, stacked
from ui.widgets.elided import elided_text, literal
from ui.widgets.label import Label

_NAME_PX = 320
"""Longer names of samples are shortened."""

_WORDS_PX = 560
"""A line of the words is no longer."""

_SHARES = (
    ("Event model", (0.03, 0.05, 0.07, 0.12, 0.38)),
    ("Video model", (0.09, 0.07, 0.15, 0.30, 0.34)),
)


_NONE_YET = (
    "Nothing has been measured yet",
    "A run is drawn here while it happens: the five stages of both models on one time axis, draft tokens accepted and "
    "rejected, time per token, KV cache and memory.",
)
_NONE_CHOSEN = "No run is shown", "Choose one in the list of runs, or measure another."


class EmptyTimeline(QWidget):
    """A faint picture of what a run will look like, with words over it.

    Signals:
        run_requested(): the button was pressed.
    """

    run_requested = Signal()

    def __init__(self, scene: TimelineScene, parent: QWidget) -> None:
        super().__init__(parent)
        self.scene = scene
        self.title, self.words = in_role(Label(), "title"), in_role(Label(), "dim")
        self.tell(has_runs=False)
        self.button = in_role(QPushButton("Run"), "primary")
        self.button.setCursor(Qt.CursorShape.PointingHandCursor)
        self.button.clicked.connect(self.run_requested)
        hint = in_role(Label("or drop recordings, videos or a folder with both onto the window"), "small")
        for label in (self.words, hint):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            label.setWordWrap(True)
            label.setMaximumWidth(_WORDS_PX)
        column = stacked(on=self, margins=(GUTTER_PX + GRID, 0, GRID, GRID), spacing=GRID)
        column.addStretch(3)
        for widget in (self.title, self.words, self.button, hint):
            # Words that are broken into lines need room to be given, or they take the least.
            row = beside((widget, 1)) if widget in (self.words, hint) else beside(None, widget, None)
            column.addLayout(row)
            put_parts(row)
            if widget is self.words:
                column.addSpacing(GRID)
        column.addStretch(2)

    def tell(self, *, has_runs: bool) -> None:
        """Says why nothing is shown: `has_runs`: the session has runs, of which none is chosen."""
        title, words = _NONE_CHOSEN if has_runs else _NONE_YET
        self.title.setText(title)
        self.words.setText(words)

    def offer(self, name: str) -> None:
        shown = elided_text(self.button.fontMetrics(), name, Qt.TextElideMode.ElideMiddle, _NAME_PX)
        self.button.setText(f"Run {literal(shown)}")

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self.scene.theme
        painter.fillRect(self.rect(), theme.panel)
        painter.setPen(QPen(theme.line, 1))
        painter.drawLine(QPointF(GUTTER_PX - 0.5, 0), QPointF(GUTTER_PX - 0.5, self.height()))
        width = self.width() - GUTTER_PX - 4 * GRID
        for row, (name, shares) in enumerate(_SHARES):
            top = 10 + row * 40
            painter.setFont(theme.font(SMALL_PX))
            painter.setPen(theme.text_dim)
            painter.drawText(QRectF(12, top, GUTTER_PX - 20, 22), Qt.AlignmentFlag.AlignVCenter, name)
            painter.setPen(Qt.PenStyle.NoPen)
            x = GUTTER_PX + 2 * GRID
            for stage, share in zip(STAGES, shares, strict=True):
                painter.setBrush(theme.alpha(theme.stage(stage), 0.22))
                painter.drawRoundedRect(QRectF(x, top, width * share - 2, 22), 3, 3)
                x += round(width * share)
        painter.end()
