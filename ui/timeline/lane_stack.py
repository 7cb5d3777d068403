"""The lanes above one another, what lies over all of them, and what mouse and keys do to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSettings, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QWidget

from evprof.core.texts import one_line
from ui.state.selection import TimeRange
from ui.style.theme import GRID
from ui.timeline.lane import Lane
from ui.timeline.scene import GUTTER_PX, Hit, TimelineScene
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.figure_table import paint_swatch
from ui.widgets.label import Label

DRAG_BEGINS_PX = 4.0

FOLDED_KEY = "timeline/folded"
"""The setting with the keys of the lanes that are collapsed."""

WHEEL_STEP = 1.0016
"""Zoom factor per eighth of a degree of the wheel: a notch (120) zooms by 21 %."""

KEY_ZOOM, KEY_PAN = 1.2, 0.1
"""Zoom factor, and share of the view to pan by, of one press of a key."""

_STEPS = {
    **dict.fromkeys((Qt.Key.Key_Up, Qt.Key.Key_W), (KEY_ZOOM, 0.0)),
    **dict.fromkeys((Qt.Key.Key_Down, Qt.Key.Key_S), (1 / KEY_ZOOM, 0.0)),
    **dict.fromkeys((Qt.Key.Key_Left, Qt.Key.Key_A), (1.0, -KEY_PAN)),
    **dict.fromkeys((Qt.Key.Key_Right, Qt.Key.Key_D), (1.0, KEY_PAN)),
}
"""Zoom factor and share of the view to pan by."""

_LONGEST_TEXT = 200
"""Most characters of a line of the card."""


class Overlay(QWidget):
    """The selected range, marks and the pointer's line, over all lanes. The mouse passes through it."""

    def __init__(self, scene: TimelineScene, parent: QWidget) -> None:
        super().__init__(parent)
        self.scene = scene
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)

    def set_pointer(self, x_px: float | None) -> None:
        """Moves the pointer's line, and repaints the two strips that changed."""
        before, self.scene.pointer_px = self.scene.pointer_px, x_px
        if x_px != before:
            for x in (before, x_px):
                if x is not None:
                    self.update(QRect(GUTTER_PX + int(x) - 1, 0, 3, self.height()))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, scene, theme = QPainter(self), self.scene, self.scene.theme
        painter.setClipRect(QRectF(event.rect()).intersected(QRectF(GUTTER_PX, 0, self.width(), self.height())))
        painter.translate(GUTTER_PX, 0)
        ranges = [(when, theme.warn, 0.06) for _, when in scene.placed_marks()]
        if scene.marked_range is not None:
            ranges.append((scene.marked_range, theme.accent, 0.13))
        for when, color, opacity in ranges:
            x0, x1 = scene.scale.x(when.start_ns), scene.scale.x(when.end_ns)
            painter.fillRect(QRectF(x0, 0, x1 - x0, self.height()), theme.alpha(color, opacity))
            for x in (x0, x1):
                painter.fillRect(QRectF(round(x), 0, 1, self.height()), theme.alpha(color, 0.8))
        if scene.pointer_px is not None:
            painter.fillRect(QRectF(int(scene.pointer_px), 0, 1, self.height()), theme.alpha(theme.text_dim, 0.55))
        painter.end()


class HoverCard(QFrame):
    """A small card of exact figures beside the pointer; a child of the timeline, not a window of its own."""

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
        super().paintEvent(event)
        if self.hit is not None:
            mark, painter = QRectF(GRID, self._title.y() + 2, 3, self._title.height() - 4), QPainter(self)
            if self.hit.swatch:
                paint_swatch(painter, self.scene.theme, self.hit.swatch, mark)
            else:
                painter.fillRect(mark, self.hit.color)


def _safe(hit: Hit) -> Hit:
    """Texts of a session without control characters and cut to a length that fits on a screen."""
    facts = [(one_line(name, _LONGEST_TEXT), one_line(value, _LONGEST_TEXT)) for name, value in hit.facts]
    return replace(hit, title=one_line(hit.title, _LONGEST_TEXT), facts=facts, note=one_line(hit.note, _LONGEST_TEXT))


class _Press(NamedTuple):
    """A mouse button that is held, and where it was pressed."""

    at: QPointF
    button: Qt.MouseButton
    is_dragging: bool = False


class LaneStack(QWidget):
    """Translates mouse and keys into signals.

    Signals:
        zoomed(float, float): factor and the position (canvas px) that stays.
        panned(float): by how many px to the right the view moves.
        pointer_moved(): the pointer is over another moment, or over none.
        range_dragged(object): the TimeRange while the mouse is dragged.
        clicked(object): the Hit that was clicked, or None.
        double_clicked(object): the Hit that was double-clicked, or None.
        menu_asked(object, object, object): the Lane, the Hit or None, and the position on the screen.
        resized(): the drawing area has another width.
    """

    zoomed = Signal(float, float)
    panned = Signal(float)
    pointer_moved = Signal()
    range_dragged = Signal(object)
    clicked = Signal(object)
    double_clicked = Signal(object)
    menu_asked = Signal(object, object, object)
    resized = Signal()

    def __init__(
        self, scene: TimelineScene, lanes: Sequence[Lane], card_parent: QWidget, settings: QSettings | None
    ) -> None:
        """`settings` None: collapsed lanes are not remembered."""
        super().__init__()
        self.scene = scene
        self.lanes: list[Lane] = []
        self._settings = settings
        self._press: _Press | None = None
        self.setMouseTracking(True)
        self._column = stacked(on=self, spacing=0)
        self._column.addStretch(0)
        self.overlay = Overlay(scene, self)
        self.card = HoverCard(scene, card_parent)
        self.add(lanes)

    def add(self, lanes: Sequence[Lane]) -> None:
        folded = "" if self._settings is None else str(self._settings.value(FOLDED_KEY, ""))
        for lane in lanes:
            self._column.insertWidget(len(self.lanes), lane, lane.lane_height_px if lane.grows else 0)
            self.lanes.append(lane)
            if lane.key in folded.split(","):
                lane.fold(True)
        self.overlay.raise_()

    def toggle_fold(self, lane: Lane) -> None:
        lane.fold(not lane.is_folded)
        if self._settings is not None:
            self._settings.setValue(FOLDED_KEY, ",".join(lane.key for lane in self.lanes if lane.is_folded))

    def in_sight(self) -> list[Lane]:
        return [lane for lane in self.lanes if not lane.isHidden()]

    def lane_at(self, pos: QPointF) -> Lane | None:
        return next((lane for lane in self.in_sight() if lane.geometry().contains(pos.toPoint())), None)

    def hit_at(self, pos: QPointF) -> tuple[Lane | None, Hit | None]:
        """The lane at a position and what lies there."""
        lane = self.lane_at(pos)
        if lane is None or pos.x() < GUTTER_PX or lane.is_folded:
            return lane, None
        return lane, lane.hit(pos - QPointF(lane.pos()) - QPointF(GUTTER_PX, 0))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.overlay.setGeometry(self.rect())
        self.overlay.raise_()
        self.resized.emit()

    def take_key(self, event: QKeyEvent) -> bool:
        """Zooms or pans with the arrow keys or W, A, S and D; False for other keys."""
        step = _STEPS.get(Qt.Key(event.key()))
        if step is None or event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            return False
        self.step(*step)
        return True

    def step(self, zoom: float, pan: float) -> None:
        """Zooms around the middle by a factor, and pans by a share of the view."""
        width_px = self.scene.scale.width_px
        if zoom != 1.0:
            self.zoomed.emit(zoom, width_px / 2)
        if pan:
            self.panned.emit(pan * width_px)

    def point_at(self, pos: QPointF) -> None:
        self.card.show_hit(self.hit_at(pos)[1], self.mapTo(self.card.ground, pos.toPoint()))
        self._set_pointer(pos.x() - GUTTER_PX if pos.x() >= GUTTER_PX else None)

    def point_nowhere(self) -> None:
        self.card.show_hit(None, QPoint())
        self._set_pointer(None)

    def _set_pointer(self, x_px: float | None) -> None:
        """Moves the line over all lanes; each lane shows its value there beside its name."""
        self.overlay.set_pointer(x_px)
        for lane in self.lanes:
            lane.refresh_reading()
        self.pointer_moved.emit()

    def leaveEvent(self, event: QEvent) -> None:
        self.point_nowhere()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() in (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton):
            self._press = _Press(event.position(), event.button())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        pos, press = event.position(), self._press
        if press is None:
            self.point_at(pos)
        elif press.at.x() < GUTTER_PX:
            return
        elif press.button == Qt.MouseButton.MiddleButton:
            self.panned.emit(press.at.x() - pos.x())
            self._press = press._replace(at=pos)
        elif press.is_dragging or abs(pos.x() - press.at.x()) > DRAG_BEGINS_PX:
            self._press = press._replace(is_dragging=True)
            self.card.show_hit(None, QPoint())
            ends = sorted(self.scene.scale.t(point.x() - GUTTER_PX) for point in (press.at, pos))
            self.range_dragged.emit(TimeRange(*ends))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        press, self._press = self._press, None
        if press is None or press.is_dragging or press.button != Qt.MouseButton.LeftButton:
            return
        if press.at.x() >= GUTTER_PX:
            self.clicked.emit(self.hit_at(event.position())[1])
        elif (lane := self.lane_at(event.position())) is not None:
            self.toggle_fold(lane)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and event.position().x() >= GUTTER_PX:
            self.double_clicked.emit(self.hit_at(event.position())[1])

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        pos = QPointF(event.pos())
        lane, hit = self.hit_at(pos)
        self.card.show_hit(None, QPoint())
        self._set_pointer(pos.x() - GUTTER_PX if pos.x() >= GUTTER_PX else None)
        self.menu_asked.emit(lane, hit, event.globalPos())

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zooms at the pointer; Shift+wheel and sideways wheels pan. Over the names it scrolls the lanes."""
        if event.position().x() < GUTTER_PX:
            event.ignore()
            return
        steps, fine = event.angleDelta(), event.pixelDelta()
        sideways = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if sideways or abs(steps.x()) > abs(steps.y()):
            by = -(steps.x() or steps.y()) if fine.isNull() else -(fine.x() or fine.y())
            self.panned.emit(float(by))
        elif steps.y():
            self.zoomed.emit(WHEEL_STEP ** steps.y(), event.position().x() - GUTTER_PX)
        self.point_at(event.position())
        event.accept()
