"""Widgets above and beside one another, and widgets in a role of the style sheet."""

from __future__ import annotations

from typing import TypeVar

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
    """The same with parts beside each other."""
    return _filled(QHBoxLayout(on) if on is not None else QHBoxLayout(), parts, margins, spacing)


def _filled(box: _Box, parts: tuple[Part, ...], margins: Margins, spacing: int | None) -> _Box:
    box.setContentsMargins(*margins)
    if spacing is not None:
        box.setSpacing(spacing)
    for part in parts:
        inner, share = part if isinstance(part, tuple) else (part, 0)
        if inner is None:
            box.addStretch(1)
        elif isinstance(inner, int):
            box.addSpacing(inner)
        elif isinstance(inner, QLayout):
            box.addLayout(inner, share)
        else:
            box.addWidget(inner, share)
    return box


def in_role(widget: _Widget, role: str) -> _Widget:
    """The widget with a role that the style sheet knows."""
    widget.setProperty("role", role)
    return widget
