"""How a line is drawn, and what of it has room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QObject, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from ui.style.icons import pixmap
from ui.style.theme import GRID, SMALL_PX, Theme, ThemeHolder
from ui.widgets.elided import elided_text
from ui.widgets.line_list.line import LINE, SECOND_LINE, ListLine
from ui.widgets.line_list.model import ListIndex

_ASIDE = 5
"""What is left free between the letters in the margin and what stands beside them."""


class LineDelegate(QStyledItemDelegate):
    """Draws lines. `is_uniform`: each is as high as two."""

    def __init__(self, themes: ThemeHolder, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.is_uniform = False

    def sizeHint(self, option: QStyleOptionViewItem, index: ListIndex) -> QSize:
        if self.is_uniform:
            return QSize(80, LINE + SECOND_LINE)
        line: ListLine | None = index.data(Qt.ItemDataRole.UserRole)
        return QSize(80, line.height if line is not None else LINE)

    def paint(self, painter: QPainter, option: Any, index: ListIndex) -> None:
        line: ListLine | None = index.data(Qt.ItemDataRole.UserRole)
        if line is None:
            return
        theme = self._themes.theme
        box = QRectF(option.rect)
        ground = theme.panel
        if option.state & QStyle.StateFlag.State_Selected or line.column:
            ground = theme.selection
        elif option.state & QStyle.StateFlag.State_MouseOver:
            ground = theme.raised
        if ground is not theme.panel:
            painter.fillRect(box, ground)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        inner = box.adjusted(2 * GRID + (GRID if line.is_inner else 0), 0, -GRID - 4, 0)
        if line.fold:
            self._paint_fold(painter, box, line.fold == "open")
        if line.is_checked is not None:
            self._paint_box(painter, QRectF(inner.left(), inner.top() + LINE / 2 - 6, 12, 12), line.is_checked)
            inner.setLeft(inner.left() + 20)
        aside = self._paint_column(painter, line, box, ground) + _ASIDE if line.column else 0.0
        first, below = _rooms(line, inner, aside)
        known = {"good": theme.good, "bad": theme.bad, "warn": theme.warn}
        color = theme.readable(known.get(line.role, theme.text_dim), ground)
        accent, dim = theme.readable(theme.accent, ground), theme.readable(theme.text_dim, ground)
        figure = figure_shown(theme, line, first.width())
        self._write_end(painter, first, figure, accent if line.is_live else color)
        painter.setFont(theme.font())
        painter.setPen(theme.text)
        name = elided_text(painter.fontMetrics(), line.name, _cut_of(line), max(0.0, first.width() - GRID / 2))
        painter.drawText(first, Qt.AlignmentFlag.AlignVCenter, name)
        if line.has_second:
            self._write_end(painter, below, line.chip or line.spread, accent if line.chip else dim)
            self._paint_second(painter, line, below, color if line.second_has_role else dim, dim)

    def _write_end(self, painter: QPainter, room: QRectF, text: str, color: QColor) -> None:
        """A small text at the end of a room, which loses that width."""
        if text:
            painter.setFont(self._themes.theme.font(SMALL_PX))
            painter.setPen(color)
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
            room.setRight(room.right() - painter.fontMetrics().horizontalAdvance(text) - GRID / 2)

    def _paint_column(self, painter: QPainter, line: ListLine, box: QRectF, ground: QColor) -> float:
        """The letters of the columns that show the run, in the margin or below the arrow there. Returns their end."""
        theme = self._themes.theme
        painter.setFont(theme.font(SMALL_PX - 1))
        painter.setPen(theme.readable(theme.accent, ground))
        is_low = bool(line.fold) and line.has_second
        width = painter.fontMetrics().horizontalAdvance(line.column)
        left = max(box.left() + GRID - width / 2, box.left() + GRID / 2)  # two letters would touch the edge
        top, height = (box.top() + LINE - 4, SECOND_LINE) if is_low else (box.top(), LINE)
        painter.drawText(QRectF(left, top, width + 1, height), Qt.AlignmentFlag.AlignVCenter, line.column)
        return left + width

    def _paint_fold(self, painter: QPainter, box: QRectF, is_open: bool) -> None:
        """A small arrow in the margin: down while the line is open."""
        middle = QPointF(box.left() + GRID, box.top() + LINE / 2)
        corners = [(-3.0, -1.5), (3.0, -1.5), (0.0, 2.5)] if is_open else [(-1.5, -3.0), (2.5, 0.0), (-1.5, 3.0)]
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._themes.theme.text_dim)
        painter.drawPolygon(QPolygonF([middle + QPointF(x, y) for x, y in corners]))

    def _paint_box(self, painter: QPainter, box: QRectF, is_checked: bool) -> None:
        theme = self._themes.theme
        painter.setPen(QPen(theme.accent if is_checked else theme.text_dim, 1))
        painter.setBrush(theme.accent if is_checked else theme.window)
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
        if is_checked:
            painter.setPen(QPen(theme.ink(theme.accent), 1.6))
            painter.drawPolyline(
                QPolygonF([box.center() + QPointF(x, y) for x, y in ((-3, 0), (-1, 2.5), (3.2, -2.5))])
            )

    def _paint_second(self, painter: QPainter, line: ListLine, below: QRectF, color: QColor, dim: QColor) -> None:
        """Icons and badges, then the words."""
        theme = self._themes.theme
        left, middle = below.left(), below.center().y()
        for name in line.icons:
            painter.drawPixmap(QPointF(left, middle - 6), pixmap(name, dim, painter.device().devicePixelRatioF(), 12))
            left += 16
        left += GRID / 2 if line.icons else 0
        shown, more = badges_shown(theme, line.badges, below.right() - left)
        painter.setFont(theme.font(SMALL_PX - 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for badge in shown:
            outline = QRectF(left, middle - 7, _badge_width(theme, badge), 14)
            painter.setPen(QPen(theme.alpha(dim, 0.6), 1))
            painter.drawRoundedRect(outline.adjusted(0.5, 0.5, -0.5, -0.5), 7, 7)
            painter.setPen(dim)
            painter.drawText(outline, Qt.AlignmentFlag.AlignCenter, badge)
            left = outline.right() + GRID / 2
        painter.setFont(theme.font(SMALL_PX))
        painter.setPen(color)
        words = " ".join(filter(None, (more, line.second)))
        text = elided_text(painter.fontMetrics(), words, _cut_of(line), below.right() - left)
        room = QRectF(left, below.top(), below.right() - left, below.height())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, text)


def _cut_of(line: ListLine) -> Qt.TextElideMode:
    return Qt.TextElideMode.ElideMiddle if line.tells_by_end else Qt.TextElideMode.ElideRight


def _rooms(line: ListLine, inner: QRectF, aside: float) -> tuple[QRectF, QRectF]:
    """Places of a line's first and second row; the one beside the letters in the margin begins at `aside` at least."""
    first = QRectF(inner.left(), inner.top(), inner.width(), LINE)
    below = QRectF(inner.left(), inner.top() + LINE - 4, inner.width(), SECOND_LINE)
    beside = below if line.fold and line.has_second else first
    # A badge's outline needs more room than a letter.
    room = _ASIDE if beside is below and line.badges and aside else 0
    beside.setLeft(max(beside.left(), aside + room))
    return first, below


def figure_shown(theme: Theme, line: ListLine, room: float) -> str:
    """A line's figure; with its spread behind it where a chip has the spread's place and the name does not need it."""
    both = f"{line.figure} {line.spread}"
    used = theme.text_width(line.name) + theme.text_width(both, SMALL_PX) + GRID * 1.5
    return both if line.chip and line.spread and used <= room else line.figure


def badges_shown(theme: Theme, badges: Sequence[str], room: float) -> tuple[tuple[str, ...], str]:
    """Those badges that have room beside one another, and `+1` for what is left out."""
    widths = [_badge_width(theme, badge) for badge in badges]
    for count in range(len(badges), 0, -1):
        more = f"+{len(badges) - count}" if count < len(badges) else ""
        used = sum(widths[:count]) + (count - 1) * GRID / 2
        if used + (GRID / 2 + theme.text_width(more, SMALL_PX) if more else 0) <= room:
            return tuple(badges[:count]), more
    return (), f"+{len(badges)}" if badges else ""


def _badge_width(theme: Theme, badge: str) -> float:
    return theme.text_width(badge, SMALL_PX - 1) + GRID + 2


def chip_box(theme: Theme, line: ListLine, box: QRectF) -> QRectF:
    """Where the chip of a line in `box` stands: at the end of its second line."""
    width = QFontMetricsF(theme.font(SMALL_PX)).horizontalAdvance(line.chip) + 1
    return QRectF(box.right() - GRID - 4 - width, box.top() + LINE - 4, width, SECOND_LINE)
