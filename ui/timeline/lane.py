"""A lane of the timeline: a name in the gutter and a picture along the shared time axis."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.view.lanes import News
from ui.style.theme import SMALL_PX
from ui.timeline.scene import GUTTER_PX, Hit, TimelineScene
from ui.widgets.elided import elided_text


class Lane(QWidget):
    """Base of all lanes. Subclasses draw with `paint_canvas` in coordinates that begin right of the gutter."""

    lane_height_px = 48
    """Height, or least height where the lane `grows`."""

    grows = False
    """Whether the lane takes a share of the room that is left."""

    def __init__(self, scene: TimelineScene, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scene = scene
        self.hovered: Hit | None = None
        self._written: object = None
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        vertical = QSizePolicy.Policy.Expanding if self.grows else QSizePolicy.Policy.Fixed
        self.setSizePolicy(QSizePolicy.Policy.Expanding, vertical)
        self.setMinimumHeight(self.lane_height_px)

    def sizeHint(self) -> QSize:
        """A lane is as high as it asks for and as wide as it may be."""
        return QSize(600, self.lane_height_px)

    # What subclasses answer.

    def names(self) -> tuple[str, str]:
        """Name and second line in the gutter."""
        raise NotImplementedError

    def wants(self, column: int, news: News) -> bool:
        """Whether news of a column's track change this lane's picture."""
        raise NotImplementedError

    def is_wanted(self) -> bool:
        """Whether there is anything this lane could ever show for the tracks at hand."""
        return True

    def paint_canvas(self, painter: QPainter, clip: QRectF) -> None:
        """Draws what lies in `clip` (canvas coordinates)."""
        raise NotImplementedError

    def hit(self, pos: QPointF) -> Hit | None:
        """What lies at `pos` (canvas coordinates)."""
        raise NotImplementedError

    def scale_marks(self) -> Sequence[tuple[float, str]]:
        """Heights and texts of the value axis, written at the gutter's right edge."""
        return ()

    # What all share.

    def show_news(self) -> None:
        """Repaints the picture, and the gutter only when other words stand there."""
        written = (self.names(), tuple(self.scale_marks()))
        if written == self._written:
            self.update(QRect(GUTTER_PX, 0, self.width() - GUTTER_PX, self.height()))
        else:
            self._written = written
            self.update()

    @property
    def canvas_width(self) -> float:
        """Width of the drawing area."""
        return max(1.0, self.width() - GUTTER_PX)

    def canvas_pos(self, pos: QPointF) -> QPointF:
        """Widget to canvas coordinates."""
        return QPointF(pos.x() - GUTTER_PX, pos.y())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paints the part of the lane that Qt asks for."""
        painter = QPainter(self)
        theme = self.scene.theme
        painter.fillRect(event.rect(), theme.panel)
        painter.setPen(QPen(theme.line, 1))
        bottom = self.height() - 0.5
        painter.drawLine(QPointF(0, bottom), QPointF(self.width(), bottom))
        if event.rect().left() < GUTTER_PX:
            self._paint_gutter(painter)
        clip = QRectF(event.rect()).translated(-GUTTER_PX, 0).intersected(QRectF(0, 0, self.canvas_width, bottom))
        if not clip.isEmpty():
            painter.setClipRect(QRectF(event.rect()).intersected(QRectF(GUTTER_PX, 0, self.canvas_width, bottom)))
            painter.translate(GUTTER_PX, 0)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            self._paint_grid(painter, clip)
            self.paint_canvas(painter, clip)
        painter.end()

    def _paint_grid(self, painter: QPainter, clip: QRectF) -> None:
        color = self.scene.theme.alpha(self.scene.theme.line, 0.55)
        painter.setPen(QPen(color, 1))
        for t_ns, _ in self.scene.scale.ticks():
            x = round(self.scene.scale.x(t_ns)) + 0.5
            if clip.left() <= x <= clip.right():
                painter.drawLine(QPointF(x, 0), QPointF(x, self.height()))

    def _paint_gutter(self, painter: QPainter) -> None:
        theme = self.scene.theme
        painter.setPen(QPen(theme.line, 1))
        painter.drawLine(QPointF(GUTTER_PX - 0.5, 0), QPointF(GUTTER_PX - 0.5, self.height()))
        name, second = self.names()
        marks = self.scale_marks()
        small = theme.font(10.5)
        painter.setFont(small)
        painter.setPen(theme.text_dim)
        taken: list[QRectF] = []
        for y, text in marks:
            width = QFontMetricsF(small).horizontalAdvance(text)
            top = min(max(y - 7.0, 1.0), self.height() - 16.0)
            room = QRectF(GUTTER_PX - 8 - width, top, width, 14)
            painter.drawText(room, Qt.AlignmentFlag.AlignCenter, text)
            taken.append(room)
        lines = ((name, 7.0, theme.font(weight=500), theme.text), (second, 24.0, theme.font(SMALL_PX), theme.text_dim))
        for text, top, font, color in lines:
            room = QRectF(12, top, GUTTER_PX - 20, 17)
            for mark in taken:
                if mark.intersects(room):
                    room.setRight(mark.left() - 6)
            painter.setFont(font)
            painter.setPen(color)
            self._write(painter, room, text)

    @staticmethod
    def _write(painter: QPainter, room: QRectF, text: str) -> None:
        shown = elided_text(QFontMetricsF(painter.font()), text, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)

    def paint_hint(self, painter: QPainter, text: str) -> None:
        """A dim sentence where there is nothing to draw yet."""
        painter.setFont(self.scene.theme.font(SMALL_PX))
        painter.setPen(self.scene.theme.text_dim)
        painter.drawText(
            QRectF(12, 0, self.canvas_width - 24, self.height()),
            Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft,
            text,
        )


def blended(color: QColor, other: QColor, share: float) -> QColor:
    """`color` with `share` of `other` mixed in, opaque."""
    return QColor.fromRgbF(
        color.redF() + (other.redF() - color.redF()) * share,
        color.greenF() + (other.greenF() - color.greenF()) * share,
        color.blueF() + (other.blueF() - color.blueF()) * share,
    )
