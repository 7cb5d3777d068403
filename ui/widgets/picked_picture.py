"""Pictures of parts that can be pointed at: with the mouse, or with the arrow keys and Enter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from PySide6.QtCore import QEvent, QPoint, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import QWidget

from ui.style.theme import ThemeHolder
from ui.widgets.drawn import Drawn


class Place(Protocol):
    """A part: where it is drawn, in the widget's px, and its tool tip."""

    @property
    def box(self) -> QRectF: ...

    @property
    def tip(self) -> str: ...


class PickedPicture(Drawn):
    """Subclasses say what lies where in `places`, and paint the outline of the current part with `paint_current`.

    Signals:
        picked(object): a part was clicked, or taken with Enter.
    """

    picked = Signal(object)

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(themes, parent)
        self._current: int | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def places(self) -> Sequence[Place]:
        raise NotImplementedError

    def place_at(self, point: QPoint) -> int | None:
        found = (number for number, place in enumerate(self.places()) if place.box.contains(point.toPointF()))
        return next(found, None)

    @property
    def current(self) -> Place | None:
        places = self.places()
        return places[self._current] if self._current is not None and self._current < len(places) else None

    def paint_current(self, painter: QPainter) -> None:
        place = self.current
        if place is not None:
            painter.setPen(QPen(self._themes.theme.text, 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(place.box.adjusted(0.5, 0.5, -0.5, -0.5))

    def point_at(self, number: int | None) -> None:
        if number != self._current:
            self._current = number
            place = self.current
            self.setCursor(Qt.CursorShape.ArrowCursor if place is None else Qt.CursorShape.PointingHandCursor)
            self.update()

    def tip_at(self, point: QPoint) -> str:
        number = self.place_at(point)
        return "" if number is None else self.places()[number].tip

    # Qt's own.

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.point_at(self.place_at(event.position().toPoint()))

    def leaveEvent(self, event: QEvent) -> None:
        self.point_at(None)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.point_at(None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        number = self.place_at(event.position().toPoint())
        if number is not None and event.button() == Qt.MouseButton.LeftButton:
            self.picked.emit(self.places()[number])

    def keyPressEvent(self, event: QKeyEvent) -> None:
        count = len(self.places())
        step = {Qt.Key.Key_Right: 1, Qt.Key.Key_Left: -1}.get(Qt.Key(event.key()))
        if step is not None and count:
            before = self._current if self._current is not None else -1 if step > 0 else count
            self.point_at(min(max(before + step, 0), count - 1))
            place = self.current
            self.setAccessibleDescription("" if place is None else place.tip)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and (place := self.current) is not None:
            self.picked.emit(place)
        else:
            event.ignore()
