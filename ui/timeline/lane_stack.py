"""The lanes above one another and everything the mouse does to them: hover, click, drag, wheel."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QMouseEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QWidget

from ui.timeline.lane import Lane
from ui.timeline.overlay import HoverCard, Overlay
from ui.timeline.scene import GUTTER_PX, Hit, TimelineScene
from ui.widgets.boxes import stacked

DRAG_BEGINS_PX = 4.0
WHEEL_STEP = 1.0016
"""Zoom factor per eighth of a degree of the wheel: a notch (120) zooms by 21 %."""


class LaneStack(QWidget):
    """Turns the mouse into wishes; the TimelineView carries them out.

    Signals:
        zoomed(float, float): factor and the position (canvas px) that stays.
        panned(float): by how many px to the right the view moves.
        pointer_moved(object): moment under the pointer in ns, or None.
        range_dragged(object): (start_ns, end_ns) while the mouse is dragged.
        clicked(object): the Hit that was clicked, or None.
        double_clicked(object): the Hit that was double-clicked, or None.
        resized(): the drawing area has another width.
    """

    zoomed = Signal(float, float)
    panned = Signal(float)
    pointer_moved = Signal(object)
    range_dragged = Signal(object)
    clicked = Signal(object)
    double_clicked = Signal(object)
    resized = Signal()

    def __init__(self, scene: TimelineScene, lanes: list[Lane], card_parent: QWidget) -> None:
        super().__init__()
        self.scene = scene
        self.lanes = lanes
        self.setMouseTracking(True)
        stacked(*((lane, lane.lane_height_px if lane.grows else 0) for lane in lanes), on=self, spacing=0)
        self.overlay = Overlay(scene, self)
        self.card = HoverCard(scene, card_parent)
        self._pressed_at: QPointF | None = None
        self._panning = False
        self._is_dragging = False

    def lane_at(self, pos: QPointF) -> Lane | None:
        """The lane under a position."""
        return next((lane for lane in self.lanes if lane.isVisible() and lane.geometry().contains(pos.toPoint())), None)

    def hit_at(self, pos: QPointF) -> tuple[Lane | None, Hit | None]:
        """The lane at a position and what lies there."""
        lane = self.lane_at(pos)
        if lane is None or pos.x() < GUTTER_PX:
            return lane, None
        return lane, lane.hit(lane.canvas_pos(pos - QPointF(lane.pos())))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The overlay always covers everything."""
        self.overlay.setGeometry(self.rect())
        self.overlay.raise_()
        self.resized.emit()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Hover, range drag, or pan with the middle button."""
        pos = event.position()
        if self._panning and self._pressed_at is not None:
            self.panned.emit(self._pressed_at.x() - pos.x())
            self._pressed_at = pos
            return
        if self._pressed_at is not None:
            if self._is_dragging or abs(pos.x() - self._pressed_at.x()) > DRAG_BEGINS_PX:
                self._is_dragging = True
                self._hover(None, None, pos)
                ends = (self.scene.scale.t(x - GUTTER_PX) for x in (self._pressed_at.x(), pos.x()))
                self.range_dragged.emit(tuple(sorted(ends)))
            return
        self.point_at(pos)

    def point_at(self, pos: QPointF) -> None:
        """Shows what lies under the pointer."""
        lane, hit = self.hit_at(pos)
        self._hover(lane, hit, pos)
        inside = pos.x() >= GUTTER_PX
        self.overlay.set_pointer(pos.x() - GUTTER_PX if inside else None)
        self.pointer_moved.emit(self.scene.scale.t(pos.x() - GUTTER_PX) if inside else None)

    def _hover(self, lane: Lane | None, hit: Hit | None, pos: QPointF) -> None:
        for other in self.lanes:
            wanted = hit if other is lane else None
            before = other.hovered
            other.hovered = wanted
            if (before and (before.span, before.token)) != (wanted and (wanted.span, wanted.token)):
                other.update()
        self.card.show_hit(hit, self.mapTo(self.card.ground, pos.toPoint()))

    def leaveEvent(self, event: QEvent) -> None:
        """Nothing is pointed at any more."""
        self.overlay.set_pointer(None)
        self._hover(None, None, QPointF())
        self.pointer_moved.emit(None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begins a click, a drag or a pan."""
        if event.position().x() < GUTTER_PX:
            return
        self._panning = event.button() == Qt.MouseButton.MiddleButton
        if self._panning or event.button() == Qt.MouseButton.LeftButton:
            self._pressed_at = event.position()
            self._is_dragging = False

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A press without a drag is a click."""
        if self._pressed_at is not None and not self._is_dragging and not self._panning:
            self.clicked.emit(self.hit_at(event.position())[1])
        self._pressed_at, self._is_dragging, self._panning = None, False, False

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Zooms to what is there."""
        if event.button() == Qt.MouseButton.LeftButton and event.position().x() >= GUTTER_PX:
            self.double_clicked.emit(self.hit_at(event.position())[1])

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Wheel and Ctrl+wheel zoom at the pointer, Shift+wheel and sideways wheels pan; over the names: scroll."""
        if event.position().x() < GUTTER_PX:
            event.ignore()
            return
        steps = event.angleDelta()
        fine = event.pixelDelta()
        sideways = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if sideways or abs(steps.x()) > abs(steps.y()):
            by = -(steps.x() or steps.y()) if fine.isNull() else -(fine.x() or fine.y())
            self.panned.emit(float(by))
        elif steps.y():
            self.zoomed.emit(WHEEL_STEP ** steps.y(), event.position().x() - GUTTER_PX)
        self.point_at(event.position())
        event.accept()
