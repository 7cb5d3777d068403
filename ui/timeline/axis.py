"""The head of the timeline: ticks, their unit, the selected range, and the chip that follows a live run again."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from evprof.view.timescale import tick_step, tick_unit, time_text
from ui.style.theme import SMALL_PX
from ui.timeline.scene import GUTTER_PX, TimelineScene
from ui.widgets.boxes import beside

HEIGHT_PX = 30
_UNIT_PX = 40


class AxisHead(QWidget):
    """Time ticks over the lanes. `chip` is the button "Follow" (live) or "Fit"; the TimelineView wires it."""

    def __init__(self, scene: TimelineScene) -> None:
        super().__init__()
        self.scene = scene
        self.pointer_ns: int | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        self.chip = QPushButton("Fit", self)
        self.chip.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.chip.setProperty("role", "chip")
        self.chip.setCursor(Qt.CursorShape.PointingHandCursor)
        self.chip.hide()
        beside(None, self.chip, on=self, margins=(0, 0, 8, 0))

    def hold(self, chip: QPushButton) -> None:
        """Takes a chip in beside the unit."""
        chip.setParent(self)
        chip.setGeometry(_UNIT_PX, (HEIGHT_PX - 20) // 2, GUTTER_PX - _UNIT_PX - 8, 20)

    def sizeHint(self) -> QSize:
        """As wide as it may be."""
        return QSize(600, HEIGHT_PX)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Ticks, unit, the range's length, the pointer's moment."""
        painter = QPainter(self)
        theme = self.scene.theme
        painter.fillRect(self.rect(), theme.panel)
        painter.setPen(QPen(theme.line, 1))
        bottom = self.height() - 0.5
        painter.drawLine(QPointF(0, bottom), QPointF(self.width(), bottom))
        painter.drawLine(QPointF(GUTTER_PX - 0.5, 0), QPointF(GUTTER_PX - 0.5, self.height()))
        small = theme.font(SMALL_PX)
        painter.setFont(small)
        painter.setPen(theme.text_dim)
        step = tick_step(self.scene.scale.ns_per_px * 88)
        painter.drawText(QRectF(12, 0, GUTTER_PX - 20, self.height()), Qt.AlignmentFlag.AlignVCenter, tick_unit(step))
        painter.setClipRect(QRectF(GUTTER_PX, 0, self.width() - GUTTER_PX, self.height()))
        painter.translate(GUTTER_PX, 0)
        self._paint_ticks(painter)
        self._paint_range(painter)
        self._paint_pointer(painter)
        painter.end()

    def _paint_ticks(self, painter: QPainter) -> None:
        theme, scale = self.scene.theme, self.scene.scale
        painter.setPen(QPen(theme.line, 1))
        for t_ns in scale.minor_ticks():
            x = round(scale.x(t_ns)) + 0.5
            painter.drawLine(QPointF(x, self.height() - 4), QPointF(x, self.height() - 1))
        for t_ns, text in scale.ticks():
            x = round(scale.x(t_ns)) + 0.5
            painter.setPen(QPen(theme.text_dim, 1))
            painter.drawLine(QPointF(x, self.height() - 7), QPointF(x, self.height() - 1))
            if x + 6 + painter.fontMetrics().horizontalAdvance(text) > self.width() - GUTTER_PX:
                continue
            painter.drawText(
                QRectF(x + 4, 0, 90, self.height() - 3),
                Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft,
                text,
            )

    def _paint_range(self, painter: QPainter) -> None:
        chosen = self.scene.marked_range
        if chosen is None:
            return
        theme, scale = self.scene.theme, self.scene.scale
        x0, x1 = (scale.x(t_ns) for t_ns in chosen)
        painter.fillRect(QRectF(x0, self.height() - 4, max(1.0, x1 - x0), 3), theme.accent)
        text = time_text(chosen[1] - chosen[0], scale.ns_per_px)
        painter.setFont(theme.font(SMALL_PX, 600))
        width = QFontMetricsF(painter.font()).horizontalAdvance(text) + 12
        left = min(max((x0 + x1 - width) / 2, 4.0), self.width() - GUTTER_PX - width - 4)
        self._paint_tag(painter, QRectF(left, 5, width, 18), text)

    def _paint_pointer(self, painter: QPainter) -> None:
        if self.pointer_ns is None or self.scene.marked_range is not None:
            return
        scale = self.scene.scale
        text = time_text(self.pointer_ns, scale.ns_per_px)
        painter.setFont(self.scene.theme.font(SMALL_PX, 500))
        width = QFontMetricsF(painter.font()).horizontalAdvance(text) + 12
        left = min(max(scale.x(self.pointer_ns) - width / 2, 2.0), self.width() - GUTTER_PX - width - 2)
        self._paint_tag(painter, QRectF(left, 5, width, 18), text)

    def _paint_tag(self, painter: QPainter, room: QRectF, text: str) -> None:
        theme = self.scene.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.line, 1))
        painter.setBrush(theme.raised)
        painter.drawRoundedRect(room.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.setPen(theme.text)
        painter.drawText(room, Qt.AlignmentFlag.AlignCenter, text)
