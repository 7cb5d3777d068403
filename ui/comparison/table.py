"""The table of the comparison window: one column per configuration, with names and heads always visible."""

from __future__ import annotations

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QPoint, QRectF, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QPainter, QPixmap, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from ui.comparison.sheet import ComparisonSheet, SheetRow
from ui.style.theme import ThemeHolder
from ui.widgets.figure_table import paint_swatch
from ui.widgets.label import elided_text

NAME_PX = 152
LEAST_PX, MOST_PX = 224, 288
"""Width of the names, and the least and greatest width of a column."""

HEAD_PX = 82
_SECTION, _LINE, _FIGURE = 32, 24, 40
_PAD = 10.0
_SIGN = {"good": "▲ ", "bad": "▼ "}
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_ANY = QModelIndex | QPersistentModelIndex

SIGNS = "Means of the runs in each head. ▲ better, ▼ worse than the baseline."
"""The legend below the table."""


class _SheetModel(QAbstractTableModel):
    def __init__(self, themes: ThemeHolder, parent: QTableView) -> None:
        super().__init__(parent)
        self._themes = themes
        self._table = parent
        self.sheet = ComparisonSheet()

    def show_sheet(self, sheet: ComparisonSheet) -> None:
        self.beginResetModel()
        self.sheet = sheet
        self.endResetModel()

    def rowCount(self, parent: _ANY = QModelIndex()) -> int:  # noqa: B008 - Qt's own default
        return 0 if parent.isValid() else len(self.sheet.rows)

    def columnCount(self, parent: _ANY = QModelIndex()) -> int:  # noqa: B008 - Qt's own default
        return 0 if parent.isValid() else len(self.sheet.heads)

    def data(self, index: _ANY, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row = self.sheet.rows[index.row()]
        if not row.cells:
            return None
        cell, theme = row.cells[index.column()], self._themes.theme
        figure, change = f"{cell.value}  {cell.count}".rstrip(), f"{_SIGN.get(cell.judgement, '')}{cell.change}"
        values: dict[int, object] = {
            Qt.ItemDataRole.DisplayRole: "\n".join(filter(None, (figure, change))),
            Qt.ItemDataRole.ToolTipRole: cell.tip or cell.value,
            Qt.ItemDataRole.TextAlignmentRole: _RIGHT,
            Qt.ItemDataRole.ForegroundRole: {"good": theme.good, "bad": theme.bad}.get(cell.judgement),
        }
        return values.get(role)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if orientation == Qt.Orientation.Vertical:
            return self._name(self.sheet.rows[section], role)
        head = self.sheet.heads[section]
        if role == Qt.ItemDataRole.DisplayRole:
            room, metrics = 1.7 * self._table.columnWidth(section) - 4 * _PAD, QFontMetricsF(self._table.font())
            title = elided_text(metrics, head.title, Qt.TextElideMode.ElideMiddle, room)
            return f"{title}\n{'baseline · ' * head.is_baseline}{head.session}\n{head.counts}"
        return head.tip if role == Qt.ItemDataRole.ToolTipRole else None

    def _name(self, row: SheetRow, role: int) -> object:
        if role == Qt.ItemDataRole.DisplayRole:
            return f"{row.name}  {row.unit}".rstrip() if row.cells else row.name.upper()
        if role == Qt.ItemDataRole.DecorationRole and row.swatch:
            pixmap = QPixmap(4, 14)
            pixmap.fill(Qt.GlobalColor.transparent)
            painter = QPainter(pixmap)
            paint_swatch(painter, self._themes.theme, row.swatch, QRectF(0, 1, 3, 12))
            painter.end()
            return pixmap
        return row.tip if role == Qt.ItemDataRole.ToolTipRole else None


class ComparisonTable(QTableView):
    """A click on a head, or Enter in a column, makes it the baseline; Delete removes it.

    Signals:
        baseline_chosen(int): a head was clicked, or Enter pressed in its column.
        removed(int): Delete in a column.
        menu_asked(int, QPoint): a right click on a column, and where on the screen.
    """

    baseline_chosen = Signal(int)
    removed = Signal(int)
    menu_asked = Signal(int, QPoint)

    def __init__(self, themes: ThemeHolder) -> None:
        super().__init__()
        self._model = _SheetModel(themes, self)
        self.setModel(self._model)
        self.setAccessibleName("Comparison of configurations")
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setCornerButtonEnabled(False)
        self.setShowGrid(False)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        heads, names = self.horizontalHeader(), self.verticalHeader()
        heads.setFixedHeight(HEAD_PX)
        heads.setSectionsClickable(True)
        heads.setDefaultAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap)
        heads.sectionClicked.connect(self.baseline_chosen)
        for widget in (self, heads):
            widget.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(lambda at: self._offer(self.columnAt(at.x()), self.viewport(), at))
        heads.customContextMenuRequested.connect(lambda at: self._offer(heads.logicalIndexAt(at), heads, at))
        names.setFixedWidth(NAME_PX)
        names.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        names.setMinimumSectionSize(_LINE)
        names.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        themes.changed.connect(lambda *_: self.viewport().update())

    @property
    def sheet(self) -> ComparisonSheet:
        return self._model.sheet

    def show_sheet(self, sheet: ComparisonSheet) -> None:
        """Shows another comparison; the scroll position and the current column stay."""
        bars = self.horizontalScrollBar(), self.verticalScrollBar()
        column, places = self.currentIndex().column(), [bar.value() for bar in bars]
        self._model.show_sheet(sheet)
        for place, row in enumerate(sheet.rows):
            has_change = any(cell.change for cell in row.cells)
            self.setRowHeight(place, _FIGURE if has_change else _LINE if row.cells else _SECTION)
        self._fit_columns()
        if sheet.heads:
            first = next((place for place, row in enumerate(sheet.rows) if row.cells), 0)
            self.setCurrentIndex(self._model.index(first, min(max(0, column), len(sheet.heads) - 1)))
        for bar, place in zip(bars, places, strict=True):
            bar.setValue(place)
        self.setAccessibleDescription(sheet.as_text())

    def _fit_columns(self) -> None:
        count = len(self.sheet.heads)
        width = min(MOST_PX, max(LEAST_PX, self.viewport().width() // max(1, count)))
        for place in range(count):
            self.setColumnWidth(place, width)

    def _offer(self, column: int, widget: QWidget, at: QPoint) -> None:
        if column >= 0:
            self.menu_asked.emit(column, widget.mapToGlobal(at))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        column = self.currentIndex().column()
        if column >= 0 and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.baseline_chosen.emit(column)
        elif column >= 0 and event.key() == Qt.Key.Key_Delete:
            self.removed.emit(column)
        elif event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            event.ignore()  # The window copies the whole comparison with Ctrl+C.
        else:
            super().keyPressEvent(event)
