"""How the window is divided: left panel, two columns above the timeline, right panel; no wiring here."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QSplitter, QWidget

from ui.style.theme import GRID
from ui.widgets.boxes import in_role, stacked

LEFT_PX, RIGHT_PX = 208, 304
"""First widths of the side panels in logical px."""


def side_panel(*parts: QWidget, grows: QWidget | None = None, margin: int = GRID + 4) -> QScrollArea:
    """Parts above one another on panel ground; scrolls downwards, never sideways. `grows` takes the room left."""
    ground = in_role(QWidget(), "panel")
    ground.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    column = stacked(
        on=ground, margins=(margin, GRID if margin else 0, margin, GRID), spacing=2 * GRID if margin else GRID
    )
    for place, part in enumerate(parts):
        if place:
            line = rule()
            line.setVisible(not part.isHidden())
            part.installEventFilter(_Follower(line, part))
            column.addWidget(line)
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


class _Follower(QObject):
    """Shows and hides a line together with the part below it."""

    def __init__(self, line: QWidget, part: QWidget) -> None:
        super().__init__(part)
        self._line = line

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Qt's hook; never keeps an event from its receiver."""
        if event.type() in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent):
            self._line.setVisible(event.type() == QEvent.Type.ShowToParent)
        return False


def rule() -> QFrame:
    """A thin line."""
    return in_role(QFrame(), "rule")


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
        left.setMinimumWidth(176)
        right.setMinimumWidth(300)
        for part in (left, self.rows, right):
            self.addWidget(part)
        for splitter in (self, self.rows):
            splitter.setHandleWidth(1)
        self.setStretchFactor(0, 0)
        self.setStretchFactor(1, 1)
        self.setStretchFactor(2, 0)
        self.setCollapsible(1, False)

    def divide(self) -> None:
        """The first division: side panels at their own width, text and timeline share the rest."""
        narrow = self.width() < 1400
        left, right = (LEFT_PX - 32, RIGHT_PX) if narrow else (LEFT_PX, RIGHT_PX)
        self.setSizes([left, max(1, self.width() - left - right), right])
        upper = round(self.height() * (0.47 if self.height() > 800 else 0.45))
        self.rows.setSizes([upper, self.height() - upper])

    def toggle(self, panel: QWidget) -> None:
        """Shows or hides a side panel."""
        panel.setVisible(panel.isHidden())
