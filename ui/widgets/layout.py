"""Parts above one another on a side panel, and the lines between them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget

from ui.style.theme import GRID
from ui.widgets.boxes import in_role, stacked


def side_panel(*parts: QWidget, grows: QWidget | None = None, margin: int = GRID + 4, least_px: int = 0) -> QScrollArea:
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
    area.setMinimumWidth(least_px)
    return area


class _Follower(QObject):
    """Shows and hides a line together with the part below it."""

    def __init__(self, line: QWidget, part: QWidget) -> None:
        super().__init__(part)
        self._line = line

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent):
            self._line.setVisible(event.type() == QEvent.Type.ShowToParent)
        return False


def bring_into_sight(part: QWidget) -> None:
    """Scrolls the area around a part so that it is visible, or as much of it as half the area holds; does nothing
    where a third of the area shows it."""
    area = part.parentWidget()
    while area is not None and not isinstance(area, QScrollArea):
        area = area.parentWidget()
    if area is not None and (ground := area.widget()) is not None:
        height, top = area.viewport().height(), part.mapTo(ground, QPoint()).y()
        seen = area.verticalScrollBar().value() + height - top
        if seen < min(part.height(), height // 3):
            area.ensureVisible(0, top + min(part.height(), height // 2), 0, 0)


def rule() -> QFrame:
    return in_role(QFrame(), "rule")
