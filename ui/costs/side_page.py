"""A picture, and what stands right of it: tables above one another that scroll where they are too high."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QScrollArea, QWidget

from ui.style.theme import GRID
from ui.widgets.boxes import Part, beside, in_role, stacked
from ui.widgets.panel_parts import scrolling

SIDE_PX = 360
"""Width of a side in logical px, as long as it leaves the picture as much."""

LEAST_PX = 160, 192
"""Of picture and side in the narrowest window."""


def side_page(*parts: Part) -> QScrollArea:
    """Parts on panel ground."""
    ground = in_role(QWidget(), "panel")
    ground.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    stacked(*parts, None, on=ground, margins=(2, 0, GRID, 0), spacing=GRID // 2)
    return scrolling(ground)


class PictureAndSide(QWidget):
    """Both beside one another; where there is little room, each has half of it."""

    def __init__(self, picture: QWidget, side: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._side = side
        picture.setMinimumWidth(LEAST_PX[0])
        beside((picture, 3), (side, 2), on=self, spacing=2 * GRID)

    def minimumSizeHint(self) -> QSize:
        """What the layout holds now is no least width."""
        return QSize(sum(LEAST_PX) + 2 * GRID, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Gives the side its width."""
        self._side.setMinimumWidth(max(LEAST_PX[1], min(SIDE_PX, self.width() // 2 - GRID)))
        super().resizeEvent(event)
