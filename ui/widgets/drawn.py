"""Widgets that draw themselves: in the theme's colours, with a tool tip for each place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from PySide6.QtCore import QEvent, QPoint, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from evprof.core.texts import plain
from ui.style.theme import ThemeHolder


def show_tip(event: QEvent, widget: QWidget, tip_at: Callable[[QPoint], str]) -> bool:
    """Shows what `tip_at` says of the place that a tool tip is asked for, "" hides it; False for any other event."""
    if event.type() != QEvent.Type.ToolTip or not isinstance(event, QHelpEvent):
        return False
    QToolTip.showText(event.globalPos(), plain(tip_at(event.pos())), widget)
    return True


class Drawn(QWidget):
    """Is drawn again when the theme changes."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        themes.changed.connect(self._redraw)

    def tip_at(self, _point: QPoint) -> str:
        """What the tool tip says of a place; "" says nothing."""
        return ""

    def event(self, event: QEvent) -> bool:
        return show_tip(event, self, self.tip_at) or super().event(event)

    def _redraw(self, *_: object) -> None:
        self.update()


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


def asks_for_escape(event: QEvent) -> bool:
    """Whether Qt asks with this event who wants Esc; it is taken, and comes as an ordinary key press next."""
    if event.type() != QEvent.Type.ShortcutOverride or not is_escape(event):
        return False
    event.accept()
    return True


def is_escape(event: QEvent) -> bool:
    return isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
