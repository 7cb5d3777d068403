"""Every key and gesture of the window on one page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QGridLayout, QWidget

from ui.style.theme import GRID
from ui.widgets.boxes import in_role
from ui.widgets.label import Label
from ui.widgets.panel_parts import section_head

Gesture = tuple[str, str]
"""Keys or gesture, and what it does."""


class ShortcutsDialog(QDialog):
    """Groups of gestures in two columns of about the same height. Does not block the window."""

    def __init__(self, groups: Sequence[tuple[str, Iterable[Gesture]]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keys and mouse")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        grid = QGridLayout(self)
        grid.setContentsMargins(3 * GRID, 2 * GRID, 3 * GRID, 3 * GRID)
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(GRID)
        listed = [(head, list(gestures)) for head, gestures in groups]
        whole = sum(len(gestures) + 2 for _, gestures in listed)
        column, row = 0, 0
        for head, gestures in listed:
            if column == 0 and row >= whole / 2:
                column, row = 3, 0
            grid.addWidget(section_head(head), row, column, 1, 2)
            for offset, (keys, meaning) in enumerate(gestures, start=1):
                label = in_role(Label(keys), "dim")
                grid.addWidget(label, row + offset, column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
                grid.addWidget(Label(meaning), row + offset, column + 1, Qt.AlignmentFlag.AlignTop)
            row += len(gestures) + 2
        grid.setColumnMinimumWidth(2, 2 * GRID)
        grid.setRowStretch(1000, 1)
