"""Where the selection is when it is out of sight: an arrow at that side of the timeline, which brings it back."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QPushButton, QWidget

from evprof.view.timescale import time_text
from ui.state.selection import RoundRef, SpanRef, TimeRange, TokenRef
from ui.timeline.scene import GUTTER_PX, TimelineScene
from ui.widgets.elided import elided_text, literal

_NAMES = {SpanRef: "span", RoundRef: "round", TokenRef: "token", TimeRange: "range"}
_MOST_PX = 180


class EdgeArrow(QPushButton):
    """Hidden while the selection is in sight or there is none; a click is for the TimelineView to answer."""

    def __init__(self, scene: TimelineScene, parent: QWidget) -> None:
        super().__init__(parent)
        self.scene = scene
        self._ground = parent
        self.setProperty("role", "chip")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.hide()

    def show_side(self, top: int) -> None:
        """Shows itself at the side where the selection is, `top` px down its parent, or hides."""
        chosen, scale = self.scene.selection.chosen, self.scene.scale
        when = self.scene.range_of(chosen) if self.scene.shown else None
        is_left = when is not None and when.end_ns < scale.start_ns
        is_right = when is not None and when.start_ns > scale.end_ns
        if chosen is None or when is None or not (is_left or is_right):
            self.hide()
            return
        words = f"{self._name()} at {time_text(when.start_ns, scale.ns_per_px)}"
        shown = literal(elided_text(self.fontMetrics(), words, Qt.TextElideMode.ElideRight, _MOST_PX))
        self.setText(f"‹ {shown}" if is_left else f"{shown} ›")
        self.setToolTip("The selection is out of sight: click to go there")
        self.adjustSize()
        right = self._ground.width() - self.width() - 8
        self.move(QPoint(GUTTER_PX + 8 if is_left else right, top))
        self.raise_()
        self.show()

    def _name(self) -> str:
        chosen = self.scene.selection.chosen
        if isinstance(chosen, SpanRef):
            for _, track in self.scene.shown:
                if track.run.run_id == chosen.run_id and chosen.span_id in track.run.spans:
                    return track.run.spans[chosen.span_id].name
        if isinstance(chosen, RoundRef):
            return f"round {chosen.round_index + 1}"
        return _NAMES[type(chosen)] if chosen is not None else ""
