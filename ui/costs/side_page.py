"""What stands right of a picture: tables above one another that scroll where they are too high."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QWidget

from ui.style.theme import GRID
from ui.widgets.boxes import Part, in_role, stacked
from ui.widgets.panel_parts import scrolling

SIDE_PX = 360
"""Least width of a side in logical px."""


def side_page(*parts: Part, wraps: bool = False) -> QScrollArea:
    """Parts on panel ground. `wraps`: some are sentences, whose height follows from their width."""
    ground = in_role(QWidget(), "panel")
    ground.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    stacked(*parts, None, on=ground, margins=(2, 0, GRID, 0), spacing=GRID // 2)
    area = scrolling(ground)
    if not wraps:
        # Without sentences nobody asks for the height at a width, and the parts would be pressed together.
        ground.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
    area.setMinimumWidth(SIDE_PX)
    return area
