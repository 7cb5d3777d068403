"""The table of the comparison window: one column per configuration, names and heads always in sight.

Painted as a whole: hundreds of cells as widgets would take a second to lay out.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QTextOption,
)
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from ui.comparison.figure_cell import PAD, RIGHT, TINY_PX, elided, first_line, on_two_lines, paint_figure
from ui.comparison.sheet import ComparisonSheet, ConfigurationHead, SheetRow
from ui.style.theme import GRID, Theme, ThemeHolder
from ui.widgets.drawn import show_tip
from ui.widgets.elided import elided_text
from ui.widgets.stage_fill import paint_swatch

NAME_PX = 152.0
LEAST_PX, MOST_PX = 192.0, 288.0
"""Width of the names, and the least and most of a column: figures far from their names are hard to read."""

HEAD_PX = 78.0
_SECTION, _LINE, _FIGURE = 32.0, 24.0, 40.0
_DRAG_PX = 8


@dataclass(frozen=True)
class _Spot:
    """What lies under a point: a column (None: the names), and a row (None: the heads)."""

    column: int | None
    row: int | None


class ComparisonTable(QAbstractScrollArea):
    """Scrolls inside itself, its names and heads stay.

    Signals:
        baseline_chosen(int): a head was clicked, or Enter pressed on it.
        moved(int, int): a column was dragged from one place to another.
        removed(int): Delete on a column.
        menu_asked(int, QPoint): a right click on a column, and where on the screen.
    """

    baseline_chosen = Signal(int)
    moved = Signal(int, int)
    removed = Signal(int)
    menu_asked = Signal(int, QPoint)

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._sheet = ComparisonSheet()
        self._tops: list[float] = []
        self._current = -1
        self._pressed: tuple[int, QPoint] | None = None
        self._drop: int | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Comparison of configurations")
        self.viewport().setMouseTracking(True)
        for bar in (self.horizontalScrollBar(), self.verticalScrollBar()):
            bar.valueChanged.connect(self._redraw)
        themes.changed.connect(self._redraw)

    @property
    def sheet(self) -> ComparisonSheet:
        """What is shown."""
        return self._sheet

    def show_sheet(self, sheet: ComparisonSheet) -> None:
        """Shows another comparison; the place one has scrolled to stays."""
        self._sheet = sheet
        self._current = min(self._current, len(sheet.heads) - 1)
        self._tops, top = [], 0.0
        for row in sheet.rows:
            self._tops.append(top)
            top += _height(row)
        self._tops.append(top)
        self.setAccessibleDescription(sheet.as_text())
        self._note_extent()
        self.viewport().update()

    # Geometry, in px of the viewport.

    @property
    def column_width(self) -> float:
        """Width of one column: its share of the room within reason."""
        count = max(1, len(self._sheet.heads))
        return min(MOST_PX, max(LEAST_PX, (self.viewport().width() - NAME_PX) / count))

    def column_box(self, index: int) -> QRectF:
        """A column's head."""
        left = NAME_PX + index * self.column_width - self.horizontalScrollBar().value()
        return QRectF(left, 0, self.column_width, HEAD_PX)

    def cell_box(self, row: int, column: int) -> QRectF:
        """A cell."""
        box = self.column_box(column)
        top = HEAD_PX + self._tops[row] - self.verticalScrollBar().value()
        return QRectF(box.left(), top, box.width(), self._tops[row + 1] - self._tops[row])

    def sizeHint(self) -> QSize:
        return QSize(640, 420)

    def minimumSizeHint(self) -> QSize:
        return QSize(int(NAME_PX + LEAST_PX), int(HEAD_PX + 3 * _FIGURE))

    def _note_extent(self) -> None:
        width = NAME_PX + len(self._sheet.heads) * self.column_width
        height = HEAD_PX + (self._tops[-1] if self._tops else 0.0)
        view = self.viewport().size()
        for bar, wanted, room in (
            (self.horizontalScrollBar(), width, view.width()),
            (self.verticalScrollBar(), height, view.height()),
        ):
            bar.setPageStep(room)
            bar.setSingleStep(int(_LINE))
            bar.setRange(0, max(0, round(wanted) - room))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._note_extent()

    # Painting.

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme, view = self._themes.theme, QRectF(self.viewport().rect())
        painter.fillRect(view, theme.panel)
        if not self._sheet.heads:
            return
        visible = range(len(self._sheet.heads))
        columns = [index for index in visible if self.column_box(index).intersects(view)]
        self._paint_grounds(painter, theme, view, columns)
        painter.save()
        painter.setClipRect(view.adjusted(0, HEAD_PX, 0, 0))
        for index in self._visible_rows(view.height()):
            self._paint_row(painter, theme, index, columns)
        painter.restore()
        self._paint_heads(painter, theme, view, columns)

    def _visible_rows(self, height: float) -> range:
        low = self.verticalScrollBar().value()
        rows = [i for i, top in enumerate(self._tops[:-1]) if top < low + height and self._tops[i + 1] > low]
        return range(rows[0], rows[-1] + 1) if rows else range(0)

    def _paint_grounds(self, painter: QPainter, theme: Theme, view: QRectF, columns: list[int]) -> None:
        painter.save()
        painter.setClipRect(view.adjusted(NAME_PX, 0, 0, 0))
        for index in columns:
            box = self.column_box(index)
            if index == self._sheet.baseline:
                painter.fillRect(QRectF(box.left(), 0, box.width(), view.height()), theme.alpha(theme.raised, 0.7))
        painter.restore()

    def _paint_row(self, painter: QPainter, theme: Theme, index: int, columns: list[int]) -> None:
        row = self._sheet.rows[index]
        box = self.cell_box(index, 0)
        name = QRectF(0, box.top(), NAME_PX - GRID, box.height())
        if row.is_head:
            painter.setFont(theme.head_font())
            painter.setPen(theme.text_dim)
            whole = QRectF(PAD, box.top() + 6, self.viewport().width() - PAD, box.height() - 6)
            painter.drawText(whole, Qt.AlignmentFlag.AlignVCenter, row.name)
            return
        end = self.column_box(len(self._sheet.heads) - 1).right()
        painter.fillRect(QRectF(PAD, box.top(), end - PAD, 1), theme.line)
        self._paint_name(painter, theme, row, name)
        painter.save()
        view = QRectF(self.viewport().rect())
        painter.setClipRect(view.adjusted(NAME_PX, HEAD_PX, 0, 0))
        for column in columns:
            cell = self.cell_box(index, column).adjusted(0, 1, 0, 0)
            if row.is_setting:
                painter.setFont(theme.font())
                painter.setPen(theme.text)
                text = elided(painter, row.cells[column].value, cell.width() - 2 * PAD)
                painter.drawText(cell.adjusted(PAD, 0, -PAD, 0), RIGHT, text)
            else:
                paint_figure(painter, theme, row.cells[column], cell)
        painter.restore()

    def _paint_name(self, painter: QPainter, theme: Theme, row: SheetRow, name: QRectF) -> None:
        inner = (name if row.is_setting else first_line(name)).adjusted(PAD, 0, 0, 0)
        if row.swatch:
            paint_swatch(painter, theme, row.swatch, QRectF(inner.left(), inner.center().y() - 6, 3, 12))
            inner.setLeft(inner.left() + GRID)
        painter.setFont(theme.font())
        painter.setPen(theme.text_dim)
        metrics = QFontMetricsF(painter.font())
        text = elided_text(metrics, row.name, Qt.TextElideMode.ElideRight, inner.width())
        painter.drawText(inner, Qt.AlignmentFlag.AlignVCenter, text)
        left = inner.left() + metrics.horizontalAdvance(text) + 5
        painter.setFont(theme.font(TINY_PX))
        if row.unit and left + QFontMetricsF(painter.font()).horizontalAdvance(row.unit) < inner.right():
            painter.setPen(theme.alpha(theme.text_dim, 0.75))
            painter.drawText(
                QRectF(left, inner.top() + 1, inner.right() - left, inner.height()),
                Qt.AlignmentFlag.AlignVCenter,
                row.unit,
            )

    def _paint_heads(self, painter: QPainter, theme: Theme, view: QRectF, columns: list[int]) -> None:
        painter.save()
        painter.setClipRect(QRectF(NAME_PX, 0, view.width() - NAME_PX, HEAD_PX))
        painter.fillRect(QRectF(0, 0, view.width(), HEAD_PX), theme.panel)
        for index in columns:
            self._paint_head(painter, theme, index, self._sheet.heads[index])
        if self._drop is not None:
            edge = self.column_box(0).left() + self._drop * self.column_width
            painter.fillRect(QRectF(edge - 1, 0, 2, HEAD_PX), theme.accent)
        painter.restore()
        painter.fillRect(QRectF(0, HEAD_PX - 1, view.width(), 1), theme.line)
        if self.horizontalScrollBar().value():
            painter.fillRect(QRectF(NAME_PX - 1, 0, 1, view.height()), theme.line)

    def _paint_head(self, painter: QPainter, theme: Theme, index: int, head: ConfigurationHead) -> None:
        box = self.column_box(index)
        if head.is_baseline:
            painter.fillRect(box, theme.alpha(theme.raised, 0.7))
            painter.fillRect(QRectF(box.left(), 0, box.width(), 2), theme.accent)
        if index == self._current and self.hasFocus():
            painter.setPen(QPen(theme.accent, 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(box.adjusted(2.5, 4.5, -2.5, -3.5), 4, 4)
        inner = box.adjusted(PAD, 6, -PAD, -4)
        painter.setFont(theme.font(weight=600))
        painter.setPen(theme.text)
        option = QTextOption(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
        option.setWrapMode(QTextOption.WrapMode.WordWrap)
        painter.drawText(
            QRectF(inner.left(), inner.top(), inner.width(), 34),
            on_two_lines(painter, head.title, inner.width()),
            option,
        )
        painter.setFont(theme.font(TINY_PX))
        painter.setPen(theme.accent if head.is_baseline else theme.text_dim)
        origin = f"baseline · {head.session}" if head.is_baseline else head.session
        for text, top in ((origin, 36.0), (head.counts, 51.0)):
            line = QRectF(inner.left(), inner.top() + top, inner.width(), 15)
            painter.drawText(line, RIGHT, elided(painter, text, inner.width()))
            painter.setPen(theme.text_dim)

    # Mouse and keys.

    def spot_at(self, point: QPoint) -> _Spot:
        """What lies under a point of the viewport."""
        column = None
        if point.x() >= NAME_PX:
            index = int((point.x() - NAME_PX + self.horizontalScrollBar().value()) // self.column_width)
            column = index if 0 <= index < len(self._sheet.heads) else None
        if point.y() < HEAD_PX:
            return _Spot(column, None)
        at = point.y() - HEAD_PX + self.verticalScrollBar().value()
        row = next((i for i, top in enumerate(self._tops[1:]) if at < top), None)
        return _Spot(column, row)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        spot = self.spot_at(event.position().toPoint())
        if event.button() == Qt.MouseButton.LeftButton and spot.column is not None:
            self._current = spot.column
            if event.position().y() < HEAD_PX:
                self._pressed = (spot.column, event.position().toPoint())
            self.viewport().update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        point = event.position().toPoint()
        on_head = point.y() < HEAD_PX and point.x() >= NAME_PX
        self.viewport().setCursor(Qt.CursorShape.PointingHandCursor if on_head else Qt.CursorShape.ArrowCursor)
        if self._pressed is not None and abs(point.x() - self._pressed[1].x()) > _DRAG_PX:
            place = round((point.x() - NAME_PX + self.horizontalScrollBar().value()) / self.column_width)
            self._drop = min(max(0, place), len(self._sheet.heads))
            self.viewport().update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, drop = self._pressed, self._drop
        self._pressed = self._drop = None
        if pressed is None:
            return
        if drop is None:
            self.baseline_chosen.emit(pressed[0])
        else:
            self._move(pressed[0], drop - (drop > pressed[0]))
        self.viewport().update()

    def _move(self, index: int, to: int) -> None:
        if to != index and 0 <= to < len(self._sheet.heads):
            self._current = to
            self.moved.emit(index, to)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if step is not None and self._sheet.heads:
            if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                self._move(self._current, self._current + step)
            else:
                self._current = min(max(0, self._current + step), len(self._sheet.heads) - 1)
                self._show_current()
            self.viewport().update()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and self._current >= 0:
            self.baseline_chosen.emit(self._current)
        elif event.key() == Qt.Key.Key_Delete and self._current >= 0:
            self.removed.emit(self._current)
        else:
            super().keyPressEvent(event)

    def _show_current(self) -> None:
        box, bar = self.column_box(self._current), self.horizontalScrollBar()
        if box.left() < NAME_PX:
            bar.setValue(bar.value() - int(NAME_PX - box.left()))
        elif box.right() > self.viewport().width():
            bar.setValue(bar.value() + int(box.right() - self.viewport().width()) + 1)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        spot = self.spot_at(event.pos())
        if spot.column is not None:
            self.menu_asked.emit(spot.column, event.globalPos())

    def viewportEvent(self, event: QEvent) -> bool:
        return show_tip(event, self.viewport(), self._tip) or super().viewportEvent(event)

    def _tip(self, point: QPoint) -> str:
        spot = self.spot_at(point)
        if spot.row is None:
            return "" if spot.column is None else self._sheet.heads[spot.column].tip
        row = self._sheet.rows[spot.row]
        if spot.column is None or row.is_head:
            return row.tip
        return row.cells[spot.column].tip or row.cells[spot.column].value

    def _redraw(self, *_: object) -> None:
        self.viewport().update()


def _height(row: SheetRow) -> float:
    return _SECTION if row.is_head else _LINE if row.is_setting else _FIGURE


SIGNS = "▲ better, ▼ worse than the baseline; the colour grows with the change, up to a factor of 2."
"""What the signs and colours mean, to be said below the table."""
