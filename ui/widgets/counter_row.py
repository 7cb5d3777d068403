"""A row of counters in fixed places, so that growing figures never push each other about."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.style.theme import SMALL_PX, ThemeHolder
from ui.widgets.drawn import Drawn
from ui.widgets.elided import elided_text

LINE_PX = 20

LEAST_PX = 78
"""Narrower, a figure would be cut."""

_GAP_PX, _LEAST_GAP_PX, _NAME_GAP_PX = 8, 3, 5
"""Between two counters; what of it is left where a name needs the room; between a figure and its name."""


class CounterRow(Drawn):
    """Figures beside their names, one quarter of the width each (for four); on two lines where that is too little."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(themes, parent)
        self._entries: list[tuple[str, str]] = []
        self._is_laid_out = False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    @property
    def entries(self) -> list[tuple[str, str]]:
        """Name and figure of each counter."""
        return list(self._entries)

    def sizeHint(self) -> QSize:
        return QSize(240, LINE_PX * self._lines())

    def places(self) -> list[QRectF]:
        """Where each counter stands."""
        in_line = -(-len(self._entries) // self._lines())
        width = self.width() / max(in_line, 1)
        return [
            QRectF(place % in_line * width, place // in_line * LINE_PX, width - _GAP_PX, LINE_PX)
            for place in range(len(self._entries))
        ]

    def names(self) -> list[str]:
        """The names as they are drawn, shortened where there is no room."""
        theme = self._themes.theme
        figures, names = QFontMetricsF(theme.font(weight=500)), QFontMetricsF(theme.font(SMALL_PX))
        spare = _GAP_PX - _LEAST_GAP_PX - _NAME_GAP_PX
        return [
            elided_text(
                names, name, Qt.TextElideMode.ElideRight, box.width() + spare - figures.horizontalAdvance(figure)
            )
            for (name, figure), box in zip(self._entries, self.places(), strict=True)
        ]

    def _lines(self) -> int:
        # What was not laid out yet has Qt's own width, which means nothing.
        is_narrow = self._is_laid_out and self.width() < LEAST_PX * len(self._entries)
        return 2 if is_narrow and len(self._entries) > 1 else 1

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._is_laid_out = True
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def set_entries(self, entries: list[tuple[str, str]]) -> None:
        """Shows (name, figure) pairs."""
        if entries != self._entries:
            has_more = len(entries) != len(self._entries)
            self._entries = entries
            if has_more:
                self.updateGeometry()
            self.setAccessibleName(", ".join(f"{name} {figure}" for name, figure in entries))
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        if not self._entries:
            return
        painter = QPainter(self)
        theme = self._themes.theme
        figure_font, name_font = theme.font(weight=500), theme.font(SMALL_PX)
        for (_, figure), label, box in zip(self._entries, self.names(), self.places(), strict=True):
            painter.setFont(figure_font)
            painter.setPen(theme.text)
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, figure)
            shift = QFontMetricsF(figure_font).horizontalAdvance(figure) + _NAME_GAP_PX
            painter.setFont(name_font)
            painter.setPen(theme.text_dim)
            painter.drawText(box.adjusted(shift, 0, _GAP_PX, 0), Qt.AlignmentFlag.AlignVCenter, label)
