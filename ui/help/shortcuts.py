"""Every key and gesture of the window in one list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from ui.style.screen_fit import resize_in_room
from ui.style.theme import GRID
from ui.widgets.boxes import stacked

Gesture = tuple[str, str]
"""Keys or gesture, and what it does."""


class ShortcutsDialog(QDialog):
    """Groups of gestures, which can be collapsed. Does not block the window."""

    def __init__(self, groups: Sequence[tuple[str, Iterable[Gesture]]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keys and mouse")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.list = QTreeWidget()
        self.list.setAccessibleName("Keys and mouse")
        self.list.setColumnCount(2)
        self.list.setHeaderHidden(True)
        self.list.header().setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        for head, gestures in groups:
            group = QTreeWidgetItem(self.list, [head])
            group.setFirstColumnSpanned(True)
            for keys, meaning in gestures:
                QTreeWidgetItem(group, [keys, meaning]).setToolTip(1, meaning)
        self.list.expandAll()
        stacked((self.list, 1), on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID))
        resize_in_room(self, 760, 720)
