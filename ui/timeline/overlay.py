"""What lies over all lanes: selected range, marks, pointer line, and the card with exact figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QWidget

from evprof.core.texts import one_line
from ui.state.selection import TimeRange
from ui.style.theme import GRID
from ui.timeline.lane import Lane
from ui.timeline.scene import GUTTER_PX, Hit, TimelineScene
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.figure_table import paint_swatch
from ui.widgets.label import Label


class Overlay(QWidget):
    """Lets the mouse through. Only the strips that changed are repainted."""

    def __init__(self, scene: TimelineScene, lanes: Sequence[Lane], parent: QWidget) -> None:
        super().__init__(parent)
        self.scene = scene
        self._lanes = lanes
        self._strip: TimeRange | None = None
        self.drop_y: int | None = None
        """Where a lane that is dragged would go."""

        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)

    def set_pointer(self, x_px: float | None) -> None:
        before, self.scene.pointer_px = self.scene.pointer_px, x_px
        if x_px != before:
            for x in (before, x_px):
                if x is not None:
                    self.update(QRect(GUTTER_PX + int(x) - 1, 0, 3, self.height()))

    def show_range(self) -> None:
        """Repaints the parts that the selected range covered or covers now."""
        for chosen in (self._strip, self.scene.marked_range):
            if chosen is not None:
                left, right = (self.scene.scale.x(t_ns) for t_ns in chosen)
                left, right = max(-2.0, left - 6), min(float(self.width()), right + 6)
                if right > left:
                    self.update(QRect(GUTTER_PX + int(left), 0, int(right - left) + 3, self.height()))
        self._strip = self.scene.marked_range

    def paintEvent(self, event: QPaintEvent) -> None:
        """The range's ground and edges, marks, levels and the pointer's line."""
        painter = QPainter(self)
        theme = self.scene.theme
        if self.drop_y is not None:
            painter.fillRect(QRectF(0, self.drop_y - 1, self.width(), 2), theme.accent)
        painter.setClipRect(QRectF(event.rect()).intersected(QRectF(GUTTER_PX, 0, self.width(), self.height())))
        painter.translate(GUTTER_PX, 0)
        self._paint_grounds(painter)
        self._paint_range(painter)
        self._paint_marks(painter)
        self._paint_levels(painter)
        if self.scene.pointer_px is not None:
            painter.fillRect(QRectF(int(self.scene.pointer_px), 0, 1, self.height()), theme.alpha(theme.text_dim, 0.55))
        painter.end()

    def _paint_grounds(self, painter: QPainter) -> None:
        theme, x = self.scene.theme, self.scene.scale.x
        chosen = [] if self.scene.marked_range is None else [(self.scene.marked_range, theme.alpha(theme.accent, 0.13))]
        marked = [(when, theme.alpha(theme.warn, 0.06)) for _, when in self.scene.placed_marks()]
        for (start, end), color in (*chosen, *marked):
            painter.fillRect(QRectF(x(start), 0, x(end) - x(start), self.height()), color)

    def _paint_range(self, painter: QPainter) -> None:
        for t_ns in self.scene.marked_range or ():
            painter.fillRect(QRectF(round(self.scene.scale.x(t_ns)), 0, 1, self.height()), self.scene.theme.accent)

    def _paint_marks(self, painter: QPainter) -> None:
        theme = self.scene.theme
        painter.setPen(QPen(theme.alpha(theme.warn, 0.8), 1, Qt.PenStyle.DashLine))
        for x in {round(self.scene.scale.x(t_ns)) for _, when in self.scene.placed_marks() for t_ns in when}:
            painter.drawLine(QPointF(x + 0.5, 0), QPointF(x + 0.5, self.height()))

    def _paint_levels(self, painter: QPainter) -> None:
        """A dot on each line of levels where what is selected ends: what it left behind."""
        when, theme = self.scene.range_of(self.scene.selection.chosen), self.scene.theme
        if when is None:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.panel, 1.5))
        x = self.scene.scale.x(when.end_ns)
        for lane in self._lanes:
            if lane.isHidden() or lane.is_folded:
                continue
            for y, color in lane.levels_at(when.end_ns):
                painter.setBrush(color)
                painter.drawEllipse(QPointF(x, lane.y() + y), 3.5, 3.5)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


class HoverCard(QFrame):
    """A small card of exact figures beside the pointer; a child of the timeline, never a window of its own."""

    def __init__(self, scene: TimelineScene, parent: QWidget) -> None:
        super().__init__(parent)
        self.scene = scene
        self.ground = parent
        self.hit: Hit | None = None
        in_role(self, "card").setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._title, self._note = in_role(Label(), "title"), in_role(Label(), "warn")
        self._names, self._values = in_role(Label(), "dim"), Label()
        self._values.setAlignment(Qt.AlignmentFlag.AlignRight)
        facts = beside(self._names, None, self._values, spacing=2 * GRID)
        stacked(self._title, facts, self._note, on=self, margins=(GRID + 6, GRID, GRID, GRID), spacing=4)
        self.hide()

    def show_hit(self, hit: Hit | None, at: QPoint) -> None:
        self.hit = None if hit is None else _safe(hit)
        if self.hit is None:
            self.hide()
            return
        self._title.setText(self.hit.title)
        self._names.setText("\n".join(name for name, _ in self.hit.facts))
        self._values.setText("\n".join(value for _, value in self.hit.facts))
        self._note.setText(self.hit.note)
        self._note.setVisible(bool(self.hit.note))
        self.adjustSize()
        room = self.ground.rect()
        x = at.x() + 14 if at.x() + 14 + self.width() < room.right() - 4 else at.x() - 14 - self.width()
        self.move(max(4, x), max(4, min(at.y() + 14, room.bottom() - self.height() - 4)))
        self.raise_()
        self.show()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The colour of what is described, as a mark beside the title."""
        super().paintEvent(event)
        if self.hit is not None:
            mark, painter = QRectF(GRID, self._title.y() + 2, 3, self._title.height() - 4), QPainter(self)
            if self.hit.swatch:
                paint_swatch(painter, self.scene.theme, self.hit.swatch, mark)
            else:
                painter.fillRect(mark, self.hit.color)


_MOST = 200
"""Characters of a line of the card; what is longer fits on no screen."""


def _safe(hit: Hit) -> Hit:
    """What a session says, with nothing hidden and nothing endless in it."""
    facts = [(one_line(name, _MOST), one_line(value, _MOST)) for name, value in hit.facts]
    return replace(hit, title=one_line(hit.title, _MOST), facts=facts, note=one_line(hit.note, _MOST))
