"""Widgets above and beside one another, and widgets in a role of the style sheet."""

from __future__ import annotations

from typing import TypeVar
from weakref import WeakKeyDictionary

from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLayout, QVBoxLayout, QWidget

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
