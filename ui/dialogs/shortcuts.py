"""Every key and gesture of the window on one page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QGridLayout, QLabel, QWidget

from ui.theme import GRID
from ui.views.panel_parts import section_head

COLUMNS = 2

Gesture = tuple[str, str]
"""Keys or gesture, and what it does."""


class ShortcutsDialog(QDialog):
    """Groups of gestures in two columns. Does not block the window."""

    def __init__(self, groups: Sequence[tuple[str, Iterable[Gesture]]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keys and mouse")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        grid = QGridLayout(self)
        grid.setContentsMargins(3 * GRID, 2 * GRID, 3 * GRID, 3 * GRID)
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(GRID)
        for place, (head, gestures) in enumerate(groups):
            column = 3 * (place % COLUMNS)
            row = 100 * (place // COLUMNS)
            grid.addWidget(section_head(head), row, column, 1, 2)
            for offset, (keys, meaning) in enumerate(gestures, start=1):
                label = QLabel(keys)
                label.setProperty("role", "dim")
                grid.addWidget(label, row + offset, column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
                grid.addWidget(QLabel(meaning), row + offset, column + 1, Qt.AlignmentFlag.AlignTop)
            grid.setColumnMinimumWidth(column + 2, GRID)
        grid.setRowStretch(1000, 1)
