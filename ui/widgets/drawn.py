"""Widgets that draw themselves: in the theme's colours, with a tool tip for each place."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent, QKeyEvent
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


def asks_for_escape(event: QEvent) -> bool:
    """Whether Qt asks with this event who wants Esc; it is taken, and comes as an ordinary key press next."""
    if event.type() != QEvent.Type.ShortcutOverride or not is_escape(event):
        return False
    event.accept()
    return True


def is_escape(event: QEvent) -> bool:
    return isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
