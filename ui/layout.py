"""How the window is divided: left panel, two columns above the timeline, right panel; no wiring here."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QSplitter, QVBoxLayout, QWidget

from ui.theme import GRID

LEFT_PX, RIGHT_PX = 208, 304
"""First widths of the side panels in logical px."""


def side_panel(*parts: QWidget, grows: QWidget | None = None, margin: int = GRID + 4) -> QScrollArea:
    """Parts above one another on panel ground; scrolls downwards, never sideways. `grows` takes the room left."""
    ground = QWidget()
    ground.setProperty("role", "panel")
    ground.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    column = QVBoxLayout(ground)
    column.setContentsMargins(margin, GRID if margin else 0, margin, GRID)
    column.setSpacing(2 * GRID if margin else GRID)
    for place, part in enumerate(parts):
        if place:
            column.addWidget(rule())
        column.addWidget(part, 1 if part is grows else 0)
    if grows is None:
        column.addStretch(1)
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
    area.setWidget(ground)
    return area


def rule() -> QFrame:
    """A thin line."""
    line = QFrame()
    line.setProperty("role", "rule")
    return line


class Body(QSplitter):
    """The three panels side by side and the two rows in the middle."""

    def __init__(self, left: QWidget, upper: QWidget, lower: QWidget, right: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.rows = QSplitter(Qt.Orientation.Vertical)
        self.rows.addWidget(upper)
        self.rows.addWidget(lower)
        self.rows.setChildrenCollapsible(False)
        self.rows.setStretchFactor(0, 9)
        self.rows.setStretchFactor(1, 11)
        self.left, self.right = left, right
        left.setMinimumWidth(168)
        right.setMinimumWidth(248)
        for part in (left, self.rows, right):
            self.addWidget(part)
        for splitter in (self, self.rows):
            splitter.setHandleWidth(1)
        self.setStretchFactor(0, 0)
        self.setStretchFactor(1, 1)
        self.setStretchFactor(2, 0)
        self.setCollapsible(1, False)
        self.setSizes([LEFT_PX, 1000, RIGHT_PX])
        self.rows.setSizes([450, 500])

    def toggle(self, panel: QWidget) -> None:
        """Shows or hides a side panel."""
        panel.setVisible(panel.isHidden())
