"""A window that fits its screen: on a small one, or at a large scale, its usual size would not."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize
from PySide6.QtWidgets import QStyle, QWidget


def fit_to_screen(window: QWidget, available: QRect) -> None:
    """Makes the window, and the least size it can be given, no larger than `available`, and moves it inside."""
    window.setMinimumSize(window.minimumSize().boundedTo(available.size()))
    window.resize(window.size().boundedTo(available.size()))
    place = window.geometry()
    place.moveLeft(max(available.left(), min(place.left(), available.right() + 1 - place.width())))
    place.moveTop(max(available.top(), min(place.top(), available.bottom() + 1 - place.height())))
    window.setGeometry(place)


def room_on_screen(window: QWidget) -> QRect:
    """What the window's screen has for it, without the bar that a desktop puts above it."""
    bar = window.style().pixelMetric(QStyle.PixelMetric.PM_TitleBarHeight)
    room = window.screen().availableGeometry().adjusted(0, bar, 0, 0)
    return QRect(room.topLeft(), room.size().expandedTo(QSize(1, 1)))


def resize_in_room(dialog: QWidget, width: int, height: int) -> None:
    """Gives a window beside the main one its usual size, or what there is room for: on its screen, or where the main
    window is larger than that, over that one."""
    window, room = dialog.parentWidget(), room_on_screen(dialog).size()
    if window is not None:
        room = room.expandedTo(window.window().size())
    dialog.resize(QSize(width, height).boundedTo(room))
