"""A row of counters in fixed places, so that growing figures never push each other about."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.style.theme import SMALL_PX, ThemeHolder
from ui.widgets.drawn import Drawn
from ui.widgets.elided import elided_text


class CounterRow(Drawn):
    """Figures above their names, one quarter of the width each (for four)."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(themes, parent)
        self._entries: list[tuple[str, str]] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def entries(self) -> list[tuple[str, str]]:
        """Name and figure of each counter."""
        return list(self._entries)

    def sizeHint(self) -> QSize:
        return QSize(240, 20)

    def set_entries(self, entries: list[tuple[str, str]]) -> None:
        """Shows (name, figure) pairs."""
        if entries != self._entries:
            self._entries = entries
            self.setAccessibleName(", ".join(f"{name} {figure}" for name, figure in entries))
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        if not self._entries:
            return
        painter = QPainter(self)
        theme = self._themes.theme
        figure_font, name_font = theme.font(weight=500), theme.font(SMALL_PX)
        width = self.width() / len(self._entries)
        for index, (name, figure) in enumerate(self._entries):
            box = QRectF(index * width, 0, width - 8, self.height())
            painter.setFont(figure_font)
            painter.setPen(theme.text)
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, figure)
            shift = QFontMetricsF(figure_font).horizontalAdvance(figure) + 5
            painter.setFont(name_font)
            painter.setPen(theme.text_dim)
            label = elided_text(QFontMetricsF(name_font), name, Qt.TextElideMode.ElideRight, box.width() - shift)
            painter.drawText(box.adjusted(shift, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, label)
