"""Horizontal bars of stacked parts, in groups on one scale: bytes of caches by origin, times of frames by stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QSizePolicy, QWidget

from evprof.view.decimate import nice_ceiling
from ui.state.selection import Chosen
from ui.style.theme import GRID, SMALL_PX, ThemeHolder
from ui.widgets.boxes import beside, side_panel
from ui.widgets.drawn import Drawn
from ui.widgets.label import elided_text

_TITLE, _GAP, _AXIS, _NAMES = 22.0, 10.0, 22.0, 52.0
_LEAST_ROW, _MOST_ROW, _NAMED_ROW = 2.0, 40.0, 14.0
_MARKS = 5
_NARROW = 600
"""Below this width in px, tables are below the picture."""

PLAIN, FAINT, HATCHED, DOTTED = "plain", "faint", "hatched", "dotted"
"""How a part is drawn: held, shared by several frames, gone, and empty."""


@dataclass(frozen=True)
class BarPart:
    """A part with its value; `color` is the name of a stage, `chosen` what a click selects."""

    value: float
    color: str
    tip: str
    chosen: Chosen | None = None
    style: str = PLAIN


@dataclass(frozen=True)
class Bar:
    """A row of parts. `mark` is a value that a line points at."""

    name: str
    parts: tuple[BarPart, ...]
    mark: float | None = None

    @property
    def whole(self) -> float:
        return sum(part.value for part in self.parts)


@dataclass(frozen=True)
class BarGroup:
    """The bars of one model, with a title and a text at the end of it."""

    title: str
    text: str
    bars: tuple[Bar, ...]


class StackedBars(Drawn):
    """← and → go from part to part, Enter selects as a click does.

    Signals:
        picked(object): what a part selects.
    """

    picked = Signal(object)

    def __init__(self, themes: ThemeHolder, axis_text: Callable[[float], str]) -> None:
        super().__init__(themes)
        self._axis_text = axis_text
        self._current: int | None = None
        self.groups: tuple[BarGroup, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(160, 88)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def sizeHint(self) -> QSize:
        return QSize(560, 260)

    def show_groups(self, groups: Sequence[BarGroup]) -> None:
        if tuple(groups) != self.groups:
            self.groups = tuple(groups)
            self.setAccessibleDescription("; ".join(f"{group.title}: {group.text}" for group in groups))
            self.update()

    @property
    def _most(self) -> float:
        return max((bar.whole for group in self.groups for bar in group.bars), default=0.0) or 1.0

    @property
    def _row_px(self) -> float:
        count = sum(len(group.bars) for group in self.groups)
        room = self.height() - _AXIS - len(self.groups) * (_TITLE + _GAP)
        return min(_MOST_ROW, max(_LEAST_ROW, room / max(1, count)))

    @property
    def _px_per_value(self) -> float:
        return (self.width() - _NAMES - 2) / self._most

    def rows(self) -> list[tuple[float, BarGroup | Bar]]:
        """Every title and bar with its top, in px."""
        rows: list[tuple[float, BarGroup | Bar]] = []
        top = 0.0
        for group in self.groups:
            rows.append((top, group))
            top += _TITLE
            for bar in group.bars:
                rows.append((top, bar))
                top += self._row_px
            top += _GAP
        return rows

    def boxes(self) -> list[tuple[QRectF, BarPart]]:
        """Every part with its place."""
        boxes = []
        for top, bar in self.rows():
            left = _NAMES
            for part in bar.parts if isinstance(bar, Bar) else ():
                box = QRectF(left, top, part.value * self._px_per_value, max(1.0, self._row_px - 2))
                boxes.append((box, part))
                left = box.right()
        return boxes

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter, theme, row_px = QPainter(self), self._themes.theme, self._row_px
        for top, row in self.rows():
            if isinstance(row, BarGroup):
                room = QRectF(2, top, self.width() - 4, _TITLE - 4)
                painter.setPen(theme.text)
                painter.setFont(theme.font(weight=600))
                title = elided_text(painter.fontMetrics(), row.title, Qt.TextElideMode.ElideRight, room.width())
                painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, title)
                room.setLeft(room.left() + theme.text_width(title, weight=600) + 2 * GRID)
                painter.setPen(theme.text_dim)
                painter.setFont(theme.font(SMALL_PX))
                text = elided_text(painter.fontMetrics(), row.text, Qt.TextElideMode.ElideRight, max(0.0, room.width()))
                painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, text)
            elif row_px >= _NAMED_ROW:
                painter.setPen(theme.text_dim)
                painter.setFont(theme.font(SMALL_PX))
                painter.drawText(QRectF(2, top, _NAMES - 6, row_px - 2), Qt.AlignmentFlag.AlignVCenter, row.name)
        boxes = self.boxes()
        for box, part in boxes:
            self._paint_part(painter, box, part)
        painter.setPen(QPen(theme.text, 2))
        for top, row in self.rows():
            if isinstance(row, Bar) and row.mark is not None:
                x = _NAMES + row.mark * self._px_per_value
                painter.drawLine(QPointF(x, top - 3), QPointF(x, top + row_px + 1))
        if self._current is not None and self._current < len(boxes):
            painter.setPen(QPen(theme.text, 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(boxes[self._current][0].adjusted(0.5, 0.5, -0.5, -0.5))
        if boxes:
            self._paint_axis(painter, boxes[-1][0].bottom() + 4)

    def _paint_part(self, painter: QPainter, box: QRectF, part: BarPart) -> None:
        theme = self._themes.theme
        color = theme.text_dim if part.style == DOTTED else theme.stage(part.color)
        painter.setPen(QPen(theme.panel, 1) if box.width() >= 4 else Qt.PenStyle.NoPen)
        painter.setBrush(theme.alpha(color, 0.55) if part.style == FAINT else color)
        if part.style in (HATCHED, DOTTED):
            painter.setPen(QPen(color, 1, Qt.PenStyle.DotLine if part.style == DOTTED else Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.BDiagPattern if part.style == HATCHED else Qt.BrushStyle.NoBrush)
        painter.drawRect(box)

    def _paint_axis(self, painter: QPainter, top: float) -> None:
        theme, step = self._themes.theme, nice_ceiling(self._most / _MARKS)
        painter.setFont(theme.font(SMALL_PX))
        for mark in range(_MARKS + 1):
            text, x = self._axis_text(mark * step), _NAMES + mark * step * self._px_per_value
            width = theme.text_width(text, SMALL_PX)
            if x + width / 2 > self.width():
                break
            painter.setPen(QPen(theme.line, 1))
            painter.drawLine(QPointF(x, top), QPointF(x, top + 4))
            painter.setPen(theme.text_dim)
            painter.drawText(QPointF(x - width / 2, top + 16), text)

    def _at(self, point: QPoint) -> int | None:
        numbers = (number for number, (box, _) in enumerate(self.boxes()) if box.contains(point.toPointF()))
        return next(numbers, None)

    def _point_at(self, number: int | None) -> None:
        if number != self._current:
            self._current = number
            self.setCursor(Qt.CursorShape.ArrowCursor if number is None else Qt.CursorShape.PointingHandCursor)
            self.update()

    def _pick(self, number: int | None) -> None:
        boxes = self.boxes()
        if number is not None and number < len(boxes) and (chosen := boxes[number][1].chosen) is not None:
            self.picked.emit(chosen)

    def tip_at(self, point: QPoint) -> str:
        number = self._at(point)
        return "" if number is None else self.boxes()[number][1].tip

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point_at(self._at(event.position().toPoint()))

    def leaveEvent(self, event: QEvent) -> None:
        self._point_at(None)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._point_at(None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._pick(self._at(event.position().toPoint()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        boxes = self.boxes()
        step = {Qt.Key.Key_Right: 1, Qt.Key.Key_Left: -1}.get(Qt.Key(event.key()))
        if step is not None and boxes:
            before = self._current if self._current is not None else -1 if step > 0 else len(boxes)
            self._point_at(min(max(before + step, 0), len(boxes) - 1))
            self.setAccessibleDescription(boxes[self._current or 0][1].tip)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._pick(self._current)
        else:
            event.ignore()


class WithSide(QWidget):
    """A picture with tables beside it, which scroll; below it where there is little room."""

    def __init__(self, left: QWidget, *parts: QWidget) -> None:
        super().__init__()
        left.setMinimumWidth(160)
        self._row = beside((left, 3), (side_panel(*parts, margin=2, least_px=192), 2), on=self, spacing=2 * GRID)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        ways = QBoxLayout.Direction
        self._row.setDirection(ways.LeftToRight if self.width() >= _NARROW else ways.TopToBottom)
