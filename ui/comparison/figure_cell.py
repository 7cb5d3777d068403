"""One cell of the comparison table: a value, and below it how it stands to the baseline's."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPolygonF

from ui.comparison.sheet import GOOD, FigureCell
from ui.style.theme import GRID, Theme
from ui.widgets.elided import elided_text

PAD = 10.0
TINY_PX = 10.5

RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


def elided(painter: QPainter, text: str, room: float) -> str:
    """What fits of a text in the painter's font."""
    return elided_text(QFontMetricsF(painter.font()), text, Qt.TextElideMode.ElideRight, room)


def on_two_lines(painter: QPainter, text: str, room: float) -> str:
    """What fits on two lines: breaks between words, and shortens the second, which others begin like, in its middle."""
    metrics = QFontMetricsF(painter.font())
    if metrics.horizontalAdvance(text) <= room:
        return text
    words, first = text.split(" "), ""
    while words and metrics.horizontalAdvance(f"{first} {words[0]}".strip()) <= room:
        first = f"{first} {words.pop(0)}".strip()
    rest = " ".join(words).removeprefix("· ")
    if not first:
        return elided_text(metrics, text, Qt.TextElideMode.ElideMiddle, room)
    return f"{first.removesuffix(' ·')}\n{elided_text(metrics, rest, Qt.TextElideMode.ElideMiddle, room)}"


def first_line(box: QRectF) -> QRectF:
    """Where the value of a figure stands, and its name beside it."""
    return QRectF(box.left(), box.top() + 3, box.width(), 18)


def paint_figure(painter: QPainter, theme: Theme, cell: FigureCell, box: QRectF) -> None:
    """Value above, difference below; the ground is the stronger the larger the change."""
    color = theme.good if cell.judgement == GOOD else theme.bad
    if cell.judgement:
        painter.fillRect(box, theme.alpha(color, 0.04 + 0.18 * cell.strength))
    inner = box.adjusted(PAD, 3, -PAD, -3)
    upper = first_line(box).adjusted(PAD, 0, -PAD, 0)
    painter.setFont(theme.font())
    painter.setPen(theme.text if cell.is_measured else theme.text_dim)
    painter.drawText(upper, RIGHT, cell.value)
    used = QFontMetricsF(painter.font()).horizontalAdvance(cell.value)
    painter.setFont(theme.font(TINY_PX))
    metrics = QFontMetricsF(painter.font())
    if cell.count and metrics.horizontalAdvance(cell.count) + used + GRID < inner.width():
        painter.setPen(theme.text_dim)
        painter.drawText(upper, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, cell.count)
    room = inner.width() - (12 if cell.judgement else 0)
    text = next((wording for wording in cell.wordings if metrics.horizontalAdvance(wording) <= room), "")
    if not text:
        return
    lower = QRectF(inner.left(), inner.top() + 18, inner.width(), 15)
    painter.setPen(color if cell.judgement else theme.text_dim)
    painter.drawText(lower, RIGHT, text)
    if cell.judgement:
        left = inner.right() - metrics.horizontalAdvance(text) - 12
        _paint_sign(painter, color, QPointF(left + 4, lower.center().y()), is_good=cell.judgement == GOOD)


def _paint_sign(painter: QPainter, color: QColor, middle: QPointF, *, is_good: bool) -> None:
    """Better points up, worse down: who sees no red and green sees this."""
    tip = -3.0 if is_good else 3.0
    painter.save()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(color)
    painter.drawPolygon(
        QPolygonF([middle + QPointF(-3.5, -tip), middle + QPointF(3.5, -tip), middle + QPointF(0, tip)])
    )
    painter.restore()
