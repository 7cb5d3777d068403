"""Every key and gesture of the window on one page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QGridLayout, QWidget

from ui.style.theme import GRID
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.label import Label
from ui.widgets.panel_parts import scrolling, section_head

Gesture = tuple[str, str]
"""Keys or gesture, and what it does."""


COLUMNS = 3
"""At most; fewer where the screen is narrow."""

_HEAD_ROWS = 2
"""A group's head and the room above it take this many rows."""


class ShortcutsDialog(QDialog):
    """Groups of gestures, one after another, in columns of about the same height. Does not block the window."""

    def __init__(self, groups: Sequence[tuple[str, Iterable[Gesture]]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keys and mouse")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        listed = [(head, list(gestures)) for head, gestures in groups]
        room = self.screen().availableSize()
        ground = QWidget()
        for count in range(COLUMNS, 0, -1):
            ground = QWidget()
            beside(*(_column(part) for part in divided(listed, count)), on=ground, spacing=4 * GRID)
            if ground.sizeHint().width() + 7 * GRID <= room.width():
                break
        wanted = ground.sizeHint()
        ground.setMinimumHeight(wanted.height())
        stacked((scrolling(ground), 1), on=self, margins=(3 * GRID, 2 * GRID, 2 * GRID, 2 * GRID))
        self.resize(min(wanted.width() + 7 * GRID, room.width()), min(wanted.height() + 5 * GRID, room.height() - 40))


def divided(groups: Sequence[tuple[str, Iterable[Gesture]]], columns: int) -> list[list[tuple[str, list[Gesture]]]]:
    """The groups cut into columns of about as many rows; what goes on in the next column has its head there again."""
    listed = [(head, list(gestures)) for head, gestures in groups]
    most = -(-sum(len(gestures) + _HEAD_ROWS for _, gestures in listed) // columns) + 1
    found: list[list[tuple[str, list[Gesture]]]] = [[]]
    free = most
    for head, gestures in listed:
        rest = gestures
        while rest:
            if free < _HEAD_ROWS + min(3, len(rest)) and len(found) < columns:
                found.append([])
                free = most
            count = len(rest) if len(found) == columns else free - _HEAD_ROWS
            found[-1].append((head, rest[:count]))
            free -= len(rest[:count]) + _HEAD_ROWS
            rest = rest[count:]
    return found


def _column(groups: Sequence[tuple[str, list[Gesture]]]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(2 * GRID)
    grid.setVerticalSpacing(GRID - 2)
    row = 0
    for head, gestures in groups:
        title = section_head(head)
        title.setContentsMargins(0, GRID if row else 0, 0, 0)
        grid.addWidget(title, row, 0, 1, 2)
        for keys, meaning in gestures:
            row += 1
            label = in_role(Label(keys), "dim")
            grid.addWidget(label, row, 0, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
            grid.addWidget(Label(meaning), row, 1, Qt.AlignmentFlag.AlignTop)
        row += 1
    grid.setRowStretch(row, 1)
    return grid
