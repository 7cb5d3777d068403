"""A list to choose from, closed to one line, with an arrow that says so."""

from __future__ import annotations

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QAction, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QComboBox, QMenu, QStyle, QStyleOptionComboBox, QStylePainter, QWidget

from ui.style.icons import pixmap
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.label import elided_text

_ARROW = 12
_AROUND = _ARROW + 3 * GRID
"""What the arrow and the edges take of the width."""


class ChoiceBox(QComboBox):
    """A combo box whose arrow is drawn in the theme's colours: a style sheet can only show a picture file."""

    def __init__(self, themes: ThemeHolder) -> None:
        super().__init__()
        self._themes = themes

    def setEditable(self, editable: bool) -> None:
        super().setEditable(editable)
        words = self.lineEdit()
        if words is not None:
            words.setTextMargins(-2, 0, 0, 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.isEditable():
            super().paintEvent(event)
        else:
            self._paint_box()
        theme = self._themes.theme
        color = theme.text_dim if self.isEnabled() else theme.line
        painter = QPainter(self)
        picture = pixmap("chevron", color, self.devicePixelRatioF(), _ARROW)
        painter.drawPixmap(QPointF(self.width() - _ARROW - GRID + 1, (self.height() - _ARROW) / 2), picture)

    def _paint_box(self) -> None:
        """As Qt does, but for words that are too long: those end in three dots."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        room = self.width() - _AROUND
        option.currentText = elided_text(self.fontMetrics(), option.currentText, Qt.TextElideMode.ElideRight, room)
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)


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
