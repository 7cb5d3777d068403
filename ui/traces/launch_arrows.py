"""Arrows from the chosen call to the kernels it launched, or from the chosen kernel back to its call."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QPointF, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QWidget

from ui.timeline.scene import GUTTER_PX
from ui.traces.slice_lane import SliceLane

MOST_ARROWS = 64
_HEAD_PX = 4.0


class LaunchArrows(QWidget):
    """Lies over the lanes and lets the mouse through."""

    def __init__(self, ground: QWidget) -> None:
        super().__init__(ground)
        self.lanes: Sequence[SliceLane] = ()
        self.chosen: int | None = None
        self.is_on_device = False
        self.partners: Sequence[int] = ()
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        ground.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """As large as the lanes."""
        ground = self.parentWidget()
        if event.type() == QEvent.Type.Resize and watched is ground and ground is not None:
            self.setGeometry(ground.rect())
            self.raise_()
        return super().eventFilter(watched, event)

    def show_of(
        self, chosen: int | None, partners: Sequence[int], lanes: Sequence[SliceLane], *, is_on_device: bool
    ) -> None:
        """Draws others, or none."""
        self.chosen, self.partners, self.lanes = chosen, partners[:MOST_ARROWS], lanes
        self.is_on_device = is_on_device
        self.raise_()
        self.update()

    def _edge(self, slice_place: int, *, is_end: bool) -> QPointF | None:
        for lane in self.lanes:
            box = None if lane.isHidden() else lane.box_of(slice_place)
            if box is not None:
                x = box.left() + (0 if is_end else min(box.width(), 6.0) / 2)
                return QPointF(x, box.center().y() + lane.y())
        return None

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self.chosen is None or not self.lanes:
            return
        painter = QPainter(self)
        theme = self.lanes[0].scene.theme
        painter.setClipRect(self.rect().adjusted(GUTTER_PX, 0, 0, 0))
        painter.translate(GUTTER_PX, 0)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        on_device = self.is_on_device
        for partner in self.partners:
            call, kernel = (partner, self.chosen) if on_device else (self.chosen, partner)
            start, end = self._edge(call, is_end=False), self._edge(kernel, is_end=True)
            if start is None or end is None:
                continue
            path = QPainterPath(start)
            middle = (start.y() + end.y()) / 2
            path.cubicTo(QPointF(start.x(), middle), QPointF(end.x(), middle), end)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(theme.text, 1.2))
            painter.drawPath(path)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.text)
            up = _HEAD_PX if end.y() > start.y() else -_HEAD_PX
            tips = (end, end + QPointF(-_HEAD_PX, -up * 1.4), end + QPointF(_HEAD_PX, -up * 1.4))
            painter.drawPolygon(QPolygonF(list(tips)))
