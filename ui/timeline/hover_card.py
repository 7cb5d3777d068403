"""The card with exact figures beside the pointer."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from evprof.core.safe_text import one_line
from ui.style.theme import BASE_PX, SMALL_PX
from ui.timeline.scene import Hit, TimelineScene
from ui.widgets.stage_fill import paint_swatch


class HoverCard(QWidget):
    """A small card of exact figures beside the pointer; a child of the timeline, never a window of its own."""

    _PAD, _LINE, _GAP = 10, 18, 16

    def __init__(self, scene: TimelineScene, parent: QWidget) -> None:
        super().__init__(parent)
        self.scene = scene
        self.ground = parent
        self.hit: Hit | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def show_hit(self, hit: Hit | None, at: QPoint) -> None:
        """Shows what lies at `at` (parent's coordinates), or hides."""
        self.hit = None if hit is None else _safe(hit)
        if self.hit is None:
            self.hide()
            return
        self.resize(*self._measure(self.hit))
        room = self.ground.rect()
        x = at.x() + 14 if at.x() + 14 + self.width() < room.right() - 4 else at.x() - 14 - self.width()
        y = min(at.y() + 14, room.bottom() - self.height() - 4)
        self.move(max(4, x), max(4, y))
        self.raise_()
        self.show()
        self.update()

    def _measure(self, hit: Hit) -> tuple[int, int]:
        title = QFontMetricsF(self.scene.theme.font(BASE_PX, 600))
        text = QFontMetricsF(self.scene.theme.font(SMALL_PX + 0.5))
        left = max((text.horizontalAdvance(name) for name, _ in hit.facts), default=0)
        right = max((text.horizontalAdvance(value) for _, value in hit.facts), default=0)
        width = max(title.horizontalAdvance(hit.title) + 14, left + self._GAP + right, text.horizontalAdvance(hit.note))
        lines = 1 + len(hit.facts) + bool(hit.note)
        return int(width) + 2 * self._PAD + 2, lines * self._LINE + 2 * self._PAD - 2

    def paintEvent(self, event: QPaintEvent) -> None:
        """Title with its colour, facts with right-aligned figures, a note."""
        if self.hit is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self.scene.theme
        painter.setPen(QPen(theme.alpha(theme.text_dim, 0.45), 1))
        painter.setBrush(theme.raised)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
        room = QRectF(self._PAD, self._PAD - 2, self.width() - 2 * self._PAD, self._LINE)
        mark = QRectF(room.left(), room.top() + 3, 3, self._LINE - 6)
        if self.hit.swatch:
            paint_swatch(painter, theme, self.hit.swatch, mark)
        else:
            painter.fillRect(mark, self.hit.color)
        painter.setFont(theme.font(BASE_PX, 600))
        painter.setPen(theme.text)
        painter.drawText(room.adjusted(10, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self.hit.title)
        painter.setFont(theme.font(SMALL_PX + 0.5))
        for name, value in self.hit.facts:
            room.translate(0, self._LINE)
            painter.setPen(theme.text_dim)
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, name)
            painter.setPen(theme.text)
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, value)
        if self.hit.note:
            room.translate(0, self._LINE)
            painter.setPen(theme.warn)
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.hit.note)
        painter.end()


_MOST = 200
"""Characters of a line of the card; what is longer fits on no screen."""


def _safe(hit: Hit) -> Hit:
    """What a session says, with nothing hidden and nothing endless in it."""
    facts = [(one_line(name, _MOST), one_line(value, _MOST)) for name, value in hit.facts]
    return replace(hit, title=one_line(hit.title, _MOST), facts=facts, note=one_line(hit.note, _MOST))
