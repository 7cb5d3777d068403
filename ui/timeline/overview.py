"""The overview of all runs above the axis."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.view.decimate import merged_bars
from evprof.view.labels import is_drafting, stages_in
from evprof.view.lanes import Track
from evprof.view.timescale import Timescale, fitted
from ui.state.selection import TimeRange
from ui.style.theme import SMALL_PX
from ui.timeline.scene import GUTTER_PX, TimelineScene

HEIGHT_PX = 24
_TOP, _BAR_PX = 3.0, 5.0
_EDGE_PX = 5.0
_LEAST_PX = 6.0
"""A window narrower than this is drawn this wide, so that it can be taken hold of."""


class Minimap(QWidget):
    """Drag the window to pan, its edges to zoom; a click beside it goes there; a double-click shows everything.

    Signals:
        moved(object): the TimeRange to look at.
        fit_asked(): everything is to be seen.
    """

    moved = Signal(object)
    fit_asked = Signal()

    def __init__(self, scene: TimelineScene, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scene = scene
        self._drag: tuple[str, float, TimeRange] | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Overview of the runs and the part of them in view")

    def sizeHint(self) -> QSize:
        return QSize(600, HEIGHT_PX)

    @property
    def whole(self) -> Timescale:
        return fitted(self.scene.extent(), max(1.0, float(self.width() - GUTTER_PX)))

    def view_box(self) -> QRectF:
        """Where the view is, in canvas coordinates; within the strip and never too narrow to be taken hold of."""
        scale, view = self.whole, self.scene.scale
        x0 = min(max(scale.x(view.start_ns), 0.0), scale.width_px - _LEAST_PX)
        x1 = max(min(scale.x(view.end_ns), scale.width_px), x0 + _LEAST_PX)
        return QRectF(x0, 1, x1 - x0, self.height() - 3)

    # Painting.

    def paintEvent(self, event: QPaintEvent) -> None:
        """All runs, dimmed outside the view."""
        painter, theme = QPainter(self), self.scene.theme
        painter.fillRect(self.rect(), theme.panel)
        painter.setPen(QPen(theme.line, 1))
        painter.drawLine(QPointF(0, self.height() - 0.5), QPointF(self.width(), self.height() - 0.5))
        painter.drawLine(QPointF(GUTTER_PX - 0.5, 0), QPointF(GUTTER_PX - 0.5, self.height()))
        painter.setFont(theme.font(SMALL_PX))
        painter.setPen(theme.text_dim)
        painter.drawText(QRectF(16, 0, GUTTER_PX - 24, self.height() - 1), Qt.AlignmentFlag.AlignVCenter, "Overview")
        painter.setClipRect(QRectF(GUTTER_PX, 0, self.width() - GUTTER_PX, self.height()))
        painter.translate(GUTTER_PX, 0)
        shown = self.scene.shown
        step = (self.height() - 1 - 2 * _TOP) / max(2, len(shown))
        high = min(_BAR_PX, max(2.0, step - 1.5))
        top = (self.height() - 1 - (len(shown) - 1) * step - high) / 2
        for place, (_, track) in enumerate(shown):
            self._draw_track(painter, track, (top + place * step, high))
        for _, when in self.scene.placed_marks():
            painter.fillRect(QRectF(round(self.whole.x(when.start_ns)), 1, 2, self.height() - 3), theme.warn)
        box, dim = self.view_box(), theme.alpha(theme.window, 0.62)
        painter.fillRect(QRectF(0, 0, box.left(), self.height() - 1), dim)
        painter.fillRect(QRectF(box.right(), 0, self.width() - box.right(), self.height() - 1), dim)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.accent, 1))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 2, 2)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.accent)
        for x in (box.left() + 0.5, box.right() - 0.5):
            painter.drawRoundedRect(QRectF(x - 1.5, box.center().y() - 4, 3, 8), 1.5, 1.5)
        painter.end()

    def _draw_track(self, painter: QPainter, track: Track, band: tuple[float, float]) -> None:
        row = track.stages.rows(track.zero_ns, track.now(self.scene.clock_ns))
        bars = merged_bars(row.starts, row.ends, self.whole)
        for x0, x1, index in zip(bars.x0.tolist(), bars.x1.tolist(), bars.rows.tolist(), strict=True):
            name = track.stages.names[int(row.names[index])]
            drafts = is_drafting(track.run, track.role, name)
            color = self.scene.theme.stage("draft" if drafts else stages_in(name)[-1])
            painter.fillRect(QRectF(x0, band[0], max(1.0, x1 - x0), band[1]), color)

    # The mouse.

    def _part_at(self, x: float) -> str:
        box = self.view_box()
        # Edges reach outwards: a narrow window is still there to be moved.
        reach = min(_EDGE_PX, box.width() / 4)
        if -_EDGE_PX <= x - box.left() <= reach:
            return "left"
        if -reach <= x - box.right() <= _EDGE_PX:
            return "right"
        return "inside" if box.left() < x < box.right() else ""

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Takes hold of the window or of an edge; beside it the window comes to the pointer first."""
        x = event.position().x() - GUTTER_PX
        if event.button() != Qt.MouseButton.LeftButton or x < 0:
            return
        part = self._part_at(x)
        view = TimeRange(self.scene.scale.start_ns, self.scene.scale.end_ns)
        if not part:
            half = (view.end_ns - view.start_ns) // 2
            middle = self.whole.t(x)
            view, part = TimeRange(middle - half, middle + half), "inside"
            self.moved.emit(view)
        self._drag = part, x, view

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        x = event.position().x() - GUTTER_PX
        if self._drag is None:
            part = self._part_at(x)
            shapes = {"inside": Qt.CursorShape.OpenHandCursor, "": Qt.CursorShape.PointingHandCursor}
            self.setCursor(shapes.get(part, Qt.CursorShape.SplitHCursor))
            return
        part, from_x, view = self._drag
        by = round((x - from_x) * self.whole.ns_per_px)
        least = round(_LEAST_PX / 4 * self.whole.ns_per_px)
        match part:
            case "left":
                view = TimeRange(min(view.start_ns + by, view.end_ns - least), view.end_ns)
            case "right":
                view = TimeRange(view.start_ns, max(view.end_ns + by, view.start_ns + least))
            case _:
                view = TimeRange(view.start_ns + by, view.end_ns + by)
        self.moved.emit(view)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._drag = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self._drag = None
        self.fit_asked.emit()
