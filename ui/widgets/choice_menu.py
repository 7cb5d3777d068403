"""A menu of things to tick, which stays open until one has ticked what one wants."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QMenu, QWidget


class ChoiceMenu(QMenu):
    """Clicking, or pressing Space on, a line that can be ticked ticks it; everything else is as in any menu."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        action = self.activeAction()
        if not _tick(action):
            super().mouseReleaseEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() != Qt.Key.Key_Space or not _tick(self.activeAction()):
            super().keyPressEvent(event)


def _tick(action: QAction | None) -> bool:
    if action is None or not action.isCheckable() or not action.isEnabled():
        return False
    action.trigger()
    return True
