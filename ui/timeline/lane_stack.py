"""The lanes above one another and everything the mouse does to them: hover, click, drag, wheel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from PySide6.QtCore import QEvent, QPointF, QSettings, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QMouseEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from ui.state.selection import TimeRange
from ui.timeline.lane import FOLD_PX, FOLDED_PX, Lane
from ui.timeline.overlay import HoverCard, Overlay
from ui.timeline.scene import GUTTER_PX, Hit, TimelineScene, snapped
from ui.widgets.boxes import stacked

DRAG_BEGINS_PX = 4.0
EDGE_PX = 4.0
"""How near the pointer has to be to the edge of a range to take hold of it."""

LANES_KEY = "timeline/lanes"
"""The setting that keeps how lanes are arranged."""

WHEEL_STEP = 1.0016
"""Zoom factor per eighth of a degree of the wheel: a notch (120) zooms by 21 %."""


_MOST = 100


@dataclass
class LaneOrder:
    """Lanes by their keys; lanes nobody moved stand where they stand at first.

    `folded` says of a lane whether a person collapsed it (True) or opened it (False); of the others the lane decides.
    """

    order: list[str] = field(default_factory=list)
    folded: dict[str, bool] = field(default_factory=dict)

    def arranged(self, keys: Sequence[str]) -> list[str]:
        """The same keys; a key that is not known follows the one it followed at first."""
        found = [key for key in self.order if key in keys]
        for place, key in enumerate(keys):
            if key not in found:
                before = next((other for other in reversed(keys[:place]) if other in found), None)
                found.insert(0 if before is None else found.index(before) + 1, key)
        return found

    def move(self, key: str, before: str | None, keys: Sequence[str]) -> None:
        """Puts a lane before another one, or last."""
        found = [other for other in self.arranged(keys) if other != key]
        found.insert(found.index(before) if before in found else len(found), key)
        self.order = found

    def is_folded(self, key: str, is_empty: bool) -> bool:
        """Whether a lane is collapsed: as the person said, else where it has nothing to show."""
        return self.folded.get(key, is_empty)

    def reset(self) -> None:
        self.order, self.folded = [], {}

    def to_text(self) -> str:
        return json.dumps({"order": self.order, "folded": self.folded})

    @classmethod
    def from_text(cls, text: str) -> LaneOrder:
        """The inverse; what is nothing of the kind is nobody's order."""
        try:
            values: Any = json.loads(text)
        except ValueError:
            return cls()
        if not isinstance(values, dict):
            return cls()
        folded = values.get("folded")
        entries = folded.items() if isinstance(folded, dict) else ()
        return cls(
            _names(values.get("order")),
            {key: value for key, value in entries if isinstance(value, bool)},
        )


def _names(value: object) -> list[str]:
    found = [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []
    return list(dict.fromkeys(found))[:_MOST]


class _Does(Enum):
    """What a drag does."""

    RANGE = auto()
    PAN = auto()
    LANE = auto()


@dataclass
class _Press:
    """A mouse button that is held: where it was pressed and what dragging it does; `fixed_ns` is the end that stays."""

    at: QPointF
    does: _Does
    fixed_ns: int = 0
    lane: Lane | None = None
    is_dragging: bool = False


class LaneStack(QWidget):
    """Turns the mouse into wishes; the TimelineView carries them out.

    Signals:
        zoomed(float, float): factor and the position (canvas px) that stays.
        panned(float): by how many px to the right the view moves.
        pointer_moved(): the pointer is over another moment, or over none.
        range_dragged(object): (start_ns, end_ns) while the mouse is dragged.
        clicked(object): the Hit that was clicked, or None.
        double_clicked(object): the Hit that was double-clicked, or None.
        menu_asked(object, object, object): the Lane, the Hit or None, and where on the screen the menu is wanted.
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
        self, scene: TimelineScene, lanes: list[Lane], card_parent: QWidget, settings: QSettings | None
    ) -> None:
        """`settings` None: how lanes are arranged is not remembered."""
        super().__init__()
        self.scene = scene
        self.lanes = lanes
        self._settings = settings
        self.order = LaneOrder.from_text("" if settings is None else str(settings.value(LANES_KEY, "")))
        self._press: _Press | None = None
        self.room_px = 10_000
        """Height that can be seen without scrolling."""

        self.setMouseTracking(True)
        self._column: QBoxLayout = stacked(*lanes, on=self, spacing=0)
        self._column.addStretch(0)
        self.overlay = Overlay(scene, lanes, self)
        self.card = HoverCard(scene, card_parent)
        self.arrange()

    # The lanes.

    def add(self, lanes: list[Lane]) -> None:
        self.lanes += lanes
        for lane in lanes:
            self._column.addWidget(lane)
        self.arrange()
        self.overlay.raise_()

    def arrange(self) -> None:
        """Puts the lanes in the person's order and collapses those that are to be."""
        by_key = {lane.key: lane for lane in self.lanes}
        wanted = [by_key[key] for key in self.order.arranged(list(by_key))]
        for place, lane in enumerate(wanted):
            if self._column.indexOf(lane) != place:
                self._column.insertWidget(place, lane)
        self.fold_lanes()

    def fold_lanes(self) -> None:
        """Collapses lanes the person collapsed; of the others those with nothing to show once no run goes on, and, from
        below, those that give way where not all fit into `room_px`."""
        high_px = sum(FOLDED_PX if self._is_to_fold(lane) else lane.lane_height_px for lane in self.in_sight())
        for lane in reversed(self.lanes):
            is_folded = self._is_to_fold(lane)
            is_late = lane.gives_way and not lane.isHidden() and lane.key not in self.order.folded
            if is_late and not is_folded and high_px > self.room_px:
                high_px -= lane.lane_height_px - FOLDED_PX
                is_folded = True
            lane.fold(is_folded)
            self._column.setStretchFactor(lane, lane.lane_height_px if lane.grows and not lane.is_folded else 0)

    def _is_to_fold(self, lane: Lane) -> bool:
        return self.order.is_folded(lane.key, not self.scene.is_running and lane.is_empty())

    def toggle_fold(self, lane: Lane) -> None:
        self.order.folded[lane.key] = not lane.is_folded
        self._note_order()

    def move_lane(self, lane: Lane, before: Lane | None) -> None:
        self.order.move(lane.key, None if before is None else before.key, [one.key for one in self.lanes])
        self._note_order()

    def reset_lanes(self) -> None:
        self.order.reset()
        self._note_order()

    def _note_order(self) -> None:
        self.arrange()
        if self._settings is not None:
            self._settings.setValue(LANES_KEY, self.order.to_text())

    def in_sight(self) -> list[Lane]:
        return sorted((lane for lane in self.lanes if not lane.isHidden()), key=self._column.indexOf)

    def lane_at(self, pos: QPointF) -> Lane | None:
        return next((lane for lane in self.in_sight() if lane.geometry().contains(pos.toPoint())), None)

    def hit_at(self, pos: QPointF) -> tuple[Lane | None, Hit | None]:
        """The lane at a position and what lies there."""
        lane = self.lane_at(pos)
        if lane is None or pos.x() < GUTTER_PX or lane.is_folded:
            return lane, None
        return lane, lane.hit(lane.canvas_pos(pos - QPointF(lane.pos())))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.overlay.setGeometry(self.rect())
        self.overlay.raise_()
        self.resized.emit()

    # The mouse.

    def moment_at(self, pos: QPointF, modifiers: Qt.KeyboardModifier) -> int:
        """The moment under a position, or the edge beside it unless Alt is held."""
        scene, t_ns = self.scene, self.scene.scale.t(pos.x() - GUTTER_PX)
        if modifiers & Qt.KeyboardModifier.AltModifier:
            return t_ns
        return snapped([track for _, track in scene.shown], t_ns, scene.scale, scene.clock_ns)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        pos, press = event.position(), self._press
        if press is None:
            self.point_at(pos)
            return
        if press.does is _Does.PAN:
            self.panned.emit(press.at.x() - pos.x())
            press.at = pos
            return
        way = pos - press.at
        press.is_dragging |= abs(way.y() if press.does is _Does.LANE else way.x()) > DRAG_BEGINS_PX
        if not press.is_dragging:
            return
        self._hover(None, None, pos)
        if press.does is _Does.LANE:
            self._show_drop(pos)
            return
        ends = sorted((press.fixed_ns, self.moment_at(pos, event.modifiers())))
        self.range_dragged.emit(TimeRange(*ends))

    def point_at(self, pos: QPointF) -> None:
        lane, hit = self.hit_at(pos)
        self._hover(lane, hit, pos)
        inside = pos.x() >= GUTTER_PX
        self.overlay.set_pointer(pos.x() - GUTTER_PX if inside else None)
        shape = Qt.CursorShape.SplitHCursor if self._far_edge(pos) is not None else Qt.CursorShape.ArrowCursor
        if self.cursor().shape() != shape:
            self.setCursor(shape)
        self.pointer_moved.emit()

    def point_again(self) -> None:
        """What lies under a pointer that rests, after the view moved under it."""
        if self.underMouse() and self._press is None and self.card.isVisible():
            self.point_at(QPointF(self.mapFromGlobal(self.cursor().pos())))

    def _far_edge(self, pos: QPointF) -> int | None:
        """The other end of the selected range when the pointer is at one of them."""
        chosen = self.scene.selection.time_range
        if chosen is None or pos.x() < GUTTER_PX:
            return None
        near = [(abs(self.scene.scale.x(end) + GUTTER_PX - pos.x()), far) for end, far in (chosen, chosen[::-1])]
        distance, far = min(near)
        return far if distance <= EDGE_PX else None

    def _hover(self, lane: Lane | None, hit: Hit | None, pos: QPointF) -> None:
        for other in self.lanes:
            wanted = hit if other is lane else None
            before = other.hovered
            other.hovered = wanted
            if (before and (before.span, before.token)) != (wanted and (wanted.span, wanted.token)):
                other.update()
        self.card.show_hit(hit, self.mapTo(self.card.ground, pos.toPoint()))

    def leaveEvent(self, event: QEvent) -> None:
        self.point_nowhere()

    def point_nowhere(self) -> None:
        self.overlay.set_pointer(None)
        self._hover(None, None, QPointF())
        self.pointer_moved.emit()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        pos, is_left = event.position(), event.button() == Qt.MouseButton.LeftButton
        if pos.x() < GUTTER_PX:
            if is_left and (lane := self.lane_at(pos)) is not None:
                self._press = _Press(pos, _Does.LANE, lane=lane)
        elif event.button() == Qt.MouseButton.MiddleButton:
            self._press = _Press(pos, _Does.PAN)
        elif is_left:
            far = self._far_edge(pos)
            self._press = _Press(pos, _Does.RANGE, self.moment_at(pos, event.modifiers()) if far is None else far)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        press, self._press = self._press, None
        if press is None:
            return
        pos = event.position()
        if press.does is _Does.LANE:
            self._drop(press, pos)
        elif press.does is _Does.RANGE and not press.is_dragging and self._far_edge(pos) is None:
            self.clicked.emit(self.hit_at(pos)[1])

    def _show_drop(self, pos: QPointF) -> None:
        self.setCursor(Qt.CursorShape.ClosedHandCursor)
        before = self._lane_below(pos)
        shown = self.in_sight()
        self.overlay.drop_y = before.y() if before is not None else shown[-1].geometry().bottom()
        self.overlay.update()

    def _lane_below(self, pos: QPointF) -> Lane | None:
        """The lane before which a lane dropped at a position goes; None for the last place."""
        return next((lane for lane in self.in_sight() if pos.y() < lane.geometry().center().y()), None)

    def _drop(self, press: _Press, pos: QPointF) -> None:
        self.overlay.drop_y = None
        self.overlay.update()
        self.unsetCursor()
        if press.lane is None:
            return
        if press.is_dragging:
            below = self._lane_below(pos)
            if below is not press.lane:
                self.move_lane(press.lane, below)
        elif pos.x() < FOLD_PX:
            self.toggle_fold(press.lane)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Zooms to what is there; in the gutter: collapses the lane, or opens it."""
        if event.button() != Qt.MouseButton.LeftButton:
            return
        if event.position().x() >= GUTTER_PX:
            self.double_clicked.emit(self.hit_at(event.position())[1])
        elif event.position().x() >= FOLD_PX and (lane := self.lane_at(event.position())) is not None:
            self.toggle_fold(lane)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        pos = QPointF(event.pos())
        lane, hit = self.hit_at(pos)
        self._hover(None, None, pos)
        self.overlay.set_pointer(pos.x() - GUTTER_PX if pos.x() >= GUTTER_PX else None)
        self.menu_asked.emit(lane, hit, event.globalPos())

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
