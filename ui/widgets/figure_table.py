"""A table of figures: names on the left, numbers right-aligned in their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QGradient,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QLinearGradient,
    QPainter,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QHeaderView,
    QSizePolicy,
    QStyledItemDelegate,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from evprof.core.texts import one_line, plain
from evprof.view.labels import stages_in
from ui.style.theme import Theme, ThemeHolder
from ui.widgets.boxes import in_role

STRIPE_PX = 12.0
"""Width of one stripe along the bar."""

_EDGE = 0.35
"""Half the px over which one stripe turns into the next: a hard edge at 45° looks torn."""


def is_striped(name: str) -> bool:
    """Whether an interval of that name covers several stages."""
    return len(stages_in(name)) > 1


def stage_brush(theme: Theme, name: str, box: QRectF, opacity: float = 1.0) -> QBrush:
    """What fills `box` for an interval of that name: one colour, or stripes at 45° that begin at its left edge."""
    names = stages_in(name) or (name,)
    colors = [theme.alpha(theme.stage(part), opacity) if opacity < 1 else theme.stage(part) for part in names]
    if len(colors) == 1:
        return QBrush(colors[0])
    # Narrow bars show every colour once.
    width = min(STRIPE_PX, max(1.0, box.width() / len(colors)))
    return QBrush(_stripes(colors, box.topLeft(), width))


def _stripes(colors: list[QColor], origin: QPointF, width: float) -> QLinearGradient:
    period = width * len(colors)
    # Along the normal of 45° stripes one period is shorter than along the bar.
    step = period / 2
    gradient = QLinearGradient(origin, origin + QPointF(step, step))
    gradient.setSpread(QGradient.Spread.RepeatSpread)
    soft = _EDGE / (period / sqrt(2))
    for place, color in enumerate(colors):
        gradient.setColorAt(min(1.0, place / len(colors) + soft), color)
        gradient.setColorAt(max(0.0, (place + 1) / len(colors) - soft), color)
    return gradient


def paint_swatch(painter: QPainter, theme: Theme, name: str, box: QRectF) -> None:
    """A stage's mark beside a name: one colour, or those of all stages it covers, one above the other."""
    names = stages_in(name) or (name,)
    height = box.height() / len(names)
    for place, part in enumerate(names):
        painter.fillRect(QRectF(box.left(), box.top() + place * height, box.width(), height), theme.stage(part))


def paint_label_ground(painter: QPainter, theme: Theme, box: QRectF) -> None:
    """A plate under words on stripes, where neither dark nor light ink would be read everywhere."""
    painter.save()
    painter.setPen(QColor(0, 0, 0, 0))
    painter.setBrush(theme.alpha(theme.panel, 0.88))
    painter.drawRoundedRect(box, 3, 3)
    painter.restore()


ROW = 24
"""Height in px of a row whose name fits on one line."""

_LEAST_COLUMN, _MOST_HEAD, _GAP = 40, 64, 2
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_ROW_ROLE = Qt.ItemDataRole.UserRole


@dataclass(frozen=True)
class TableRow:
    """A name, its unit, and one cell per column. `roles` colour cells: "", "good", "bad", "warn", "dim", "accent".

    `swatch` names the stages whose colours mark the row. A `bar` below the row is as long as this share of it, 0 to 1.
    """

    name: str
    cells: tuple[str, ...]
    unit: str = ""
    roles: tuple[str, ...] = ()
    tip: str = ""
    swatch: str = ""
    bar: float | None = None


class _RowDelegate(QStyledItemDelegate):
    """Draws the swatch and the bar of a row in addition to its text."""

    def __init__(self, themes: ThemeHolder, parent: QWidget) -> None:
        super().__init__(parent)
        self._themes = themes

    def paint(self, painter: QPainter, option: Any, index: QModelIndex | QPersistentModelIndex) -> None:
        theme, row = self._themes.theme, index.model().index(index.row(), 0).data(_ROW_ROLE)
        super().paint(painter, option, index)
        if not isinstance(row, TableRow):
            return
        box, table = QRectF(option.rect), self.parent()
        if row.swatch and index.column() == 0:
            paint_swatch(painter, theme, row.swatch, QRectF(box.left(), box.center().y() - 4, 3, 8))
        if row.bar is not None and isinstance(table, FigureTable):
            end = max(1.0, row.bar * table.viewport().width())
            line = QRectF(box.left(), box.bottom() - 2, box.width(), 2)
            painter.fillRect(line, theme.line)
            line.setRight(max(line.left(), min(line.right(), end)))
            painter.fillRect(line, theme.accent if "accent" in row.roles else theme.text_dim)


class FigureTable(QTableWidget):
    """As high as its rows; long names wrap. Ctrl+C copies it as tab-separated text.

    Columns only grow, so that live figures do not move them.
    """

    def __init__(self, themes: ThemeHolder, *, least_px: float = 0.0) -> None:
        """`least_px` is the least width of columns, so that tables below one another are in line."""
        super().__init__()
        self._themes = themes
        self._least_px = max(_LEAST_COLUMN, round(least_px))
        self._heads: tuple[str, ...] = ()
        self.rows: list[TableRow] = []
        in_role(self, "figures")
        self._drawing, self._plain = _RowDelegate(themes, self), QStyledItemDelegate(self)
        self.setSelectionMode(QTableWidget.SelectionMode.NoSelection)
        self.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.verticalHeader().hide()
        self.verticalHeader().setMinimumSectionSize(ROW)
        self.horizontalHeader().setSectionsClickable(False)
        self.horizontalHeader().setFixedHeight(ROW)
        self.horizontalHeader().setDefaultAlignment(_RIGHT)
        self.horizontalHeader().setTextElideMode(Qt.TextElideMode.ElideRight)
        self.horizontalHeader().setMinimumSectionSize(0)
        self.horizontalHeader().setDefaultSectionSize(0)
        themes.changed.connect(self._fill)

    def reset_widths(self) -> None:
        """Lets columns shrink again, for other runs and for figures that do not change any more."""
        self.rows = []
        for column in range(1, self.columnCount()):
            self.setColumnWidth(column, 0)

    def show_rows(self, rows: Sequence[TableRow], heads: tuple[str, ...] = ()) -> None:
        """Shows rows; where only figures changed, the other cells and the heights of the rows stay as they are."""
        before, self.rows = self.rows, list(rows)
        if heads != self._heads or [_shape(row) for row in before] != [_shape(row) for row in self.rows]:
            self._heads = heads
            self._fill()
            return
        changed = [place for place, row in enumerate(self.rows) if row != before[place]]
        for place in changed:
            self._fill_row(place)
        if changed:
            self.setAccessibleDescription(self.as_text())
        if any(self._wanted_px(column) > self.columnWidth(column) for column in range(1, self.columnCount())):
            self._fit()

    def as_text(self) -> str:
        lines = [("", *self._heads)] if self._heads else []
        lines += [(f"{row.name} {row.unit}".strip(), *row.cells) for row in self.rows]
        return "\n".join("\t".join(line) for line in lines)

    def sizeHint(self) -> QSize:
        head = ROW if self._heads else 0
        return QSize(240, head + sum(map(self.rowHeight, range(self.rowCount()))))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.as_text())
        else:
            super().keyPressEvent(event)

    def _fill(self, *_: object) -> None:
        count = max((len(row.cells) for row in self.rows), default=len(self._heads))
        self.setRowCount(len(self.rows))
        self.setColumnCount(1 + count)
        self.setHorizontalHeaderLabels(["", *self._heads, *[""] * (count - len(self._heads))])
        self.horizontalHeader().setVisible(bool(self._heads))
        for column, head in enumerate(self._heads, 1):
            if (item := self.horizontalHeaderItem(column)) is not None:
                item.setToolTip(plain(head))
        for place in range(len(self.rows)):
            self._fill_row(place)
        self.setAccessibleDescription(self.as_text())
        self._fit()

    def _fill_row(self, place: int) -> None:
        row = self.rows[place]
        # A name and its unit part at a space of the name only.
        name = row.name + (f",\N{NO-BREAK SPACE}{row.unit}" if row.unit else "")
        roles = ("dim", *row.roles, *[""] * len(row.cells))
        for column, (text, role) in enumerate(zip((name, *row.cells), roles, strict=False)):
            self.setItem(place, column, self._item(row, column, text, role))
        has_drawing = bool(row.swatch) or row.bar is not None
        self.setItemDelegateForRow(place, self._drawing if has_drawing else self._plain)

    def _item(self, row: TableRow, column: int, text: str, role: str) -> QTableWidgetItem:
        theme = self._themes.theme
        colors = {"good": theme.good, "bad": theme.bad, "warn": theme.warn, "dim": theme.text_dim}
        item = QTableWidgetItem(f"{'  ' * bool(row.swatch and not column)}{one_line(text)}")
        item.setForeground(theme.accent if role == "accent" else colors.get(role, theme.text))
        item.setToolTip(plain(row.tip))
        item.setData(_ROW_ROLE, row)
        if column:
            item.setTextAlignment(_RIGHT)
        return item

    def _wanted_px(self, column: int) -> int:
        head = min(self.horizontalHeader().sectionSizeHint(column) + _GAP, _MOST_HEAD)
        return max(self.sizeHintForColumn(column) + _GAP, head)

    def _fit(self) -> None:
        """Gives the columns the width of their figures, the names the rest, and takes the height of the rows."""
        head = self.horizontalHeader()
        head.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        for column in range(1, self.columnCount()):
            self.setColumnWidth(column, max(self.columnWidth(column), self._wanted_px(column), self._least_px))
        figures = sum(map(self.columnWidth, range(1, self.columnCount())))
        self.setColumnWidth(0, max(_LEAST_COLUMN, self.width() - figures))
        self.resizeRowsToContents()
        if (wanted := self.sizeHint().height()) != self.minimumHeight():
            self.setFixedHeight(wanted)


def _shape(row: TableRow) -> tuple[object, ...]:
    """What decides the layout of a table: all of a row but its figures."""
    return row.name, row.unit, row.swatch, len(row.cells), row.bar is None
