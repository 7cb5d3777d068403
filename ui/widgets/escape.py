"""Esc for a widget that lies over its window, whose own action of that key would come first."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent


def asks_for_escape(event: QEvent) -> bool:
    """Whether Qt asks with this event who wants Esc; it is taken, and comes as an ordinary key press next."""
    if event.type() != QEvent.Type.ShortcutOverride or not is_escape(event):
        return False
    event.accept()
    return True


def is_escape(event: QEvent) -> bool:
    return isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape
