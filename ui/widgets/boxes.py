"""Widgets above and beside one another, and widgets in a role of the style sheet."""

from __future__ import annotations

from typing import TypeVar
from weakref import WeakKeyDictionary

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QLayout, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from ui.style.theme import GRID

Part = QWidget | QLayout | int | tuple[QWidget | QLayout, int] | None
"""A widget or a box, in a pair with its share of the room that is left; a gap in logical px; None: all that room."""

Margins = tuple[int, int, int, int]
"""Left, top, right, bottom in logical px."""

_Box = TypeVar("_Box", bound=QBoxLayout)
_Widget = TypeVar("_Widget", bound=QWidget)


def stacked(
    *parts: Part, on: QWidget | None = None, margins: Margins = (0, 0, 0, 0), spacing: int | None = None
) -> QVBoxLayout:
    """Parts above one another, as the layout of `on` where that is given; `spacing` None is the style's."""
    return _filled(QVBoxLayout(on) if on is not None else QVBoxLayout(), parts, margins, spacing)


def beside(
    *parts: Part, on: QWidget | None = None, margins: Margins = (0, 0, 0, 0), spacing: int | None = None
) -> QHBoxLayout:
    return _filled(QHBoxLayout(on) if on is not None else QHBoxLayout(), parts, margins, spacing)


_waiting: WeakKeyDictionary[QLayout, tuple[Part, ...]] = WeakKeyDictionary()
"""Parts of boxes that lie in no widget yet."""


def _filled(box: _Box, parts: tuple[Part, ...], margins: Margins, spacing: int | None) -> _Box:
    box.setContentsMargins(*margins)
    if spacing is not None:
        box.setSpacing(spacing)
    _waiting[box] = parts
    if box.parentWidget() is not None:
        put_parts(box)
    return box


def put_parts(box: QLayout) -> None:
    """Puts the parts into a box that has come to lie in a widget; called for those that another layout took in.

    A box that is full when it is put into another has PySide6 (6.10) make an object of each of its places, and those
    crashed when they were collected after Qt had deleted the places with their widget.
    """
    if not isinstance(box, QBoxLayout):
        return
    for place, part in enumerate(_waiting.pop(box, ())):
        inner, share = part if isinstance(part, tuple) else (part, 0)
        if inner is None:
            box.insertStretch(place, 1)
        elif isinstance(inner, int):
            box.insertSpacing(place, inner)
        elif isinstance(inner, QLayout):
            box.insertLayout(place, inner, share)
            put_parts(inner)
        else:
            box.insertWidget(place, inner, share)


def in_role(widget: _Widget, role: str) -> _Widget:
    widget.setProperty("role", role)
    return widget


def side_panel(*parts: QWidget, grows: QWidget | None = None, margin: int = GRID + 4, least_px: int = 0) -> QScrollArea:
    """Parts above one another on panel ground; scrolls downwards, never sideways. `grows` takes the room left."""
    ground = in_role(QWidget(), "panel")
    ground.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    column = stacked(
        on=ground, margins=(margin, GRID if margin else 0, margin, GRID), spacing=2 * GRID if margin else GRID
    )
    for place, part in enumerate(parts):
        if place:
            line = rule()
            line.setVisible(not part.isHidden())
            part.installEventFilter(_Follower(line, part))
            column.addWidget(line)
        column.addWidget(part, 1 if part is grows else 0)
    if grows is None:
        column.addStretch(1)
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
    area.setWidget(ground)
    area.setMinimumWidth(least_px)
    return area


class _Follower(QObject):
    """Shows and hides a line together with the part below it."""

    def __init__(self, line: QWidget, part: QWidget) -> None:
        super().__init__(part)
        self._line = line

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent):
            self._line.setVisible(event.type() == QEvent.Type.ShowToParent)
        return False


def bring_into_sight(part: QWidget) -> None:
    """Scrolls the area around a part so that it is visible, or as much of it as half the area holds; does nothing
    where a third of the area shows it."""
    area = part.parentWidget()
    while area is not None and not isinstance(area, QScrollArea):
        area = area.parentWidget()
    if area is not None and (ground := area.widget()) is not None:
        height, top = area.viewport().height(), part.mapTo(ground, QPoint()).y()
        seen = area.verticalScrollBar().value() + height - top
        if seen < min(part.height(), height // 3):
            area.ensureVisible(0, top + min(part.height(), height // 2), 0, 0)


def rule() -> QFrame:
    return in_role(QFrame(), "rule")
