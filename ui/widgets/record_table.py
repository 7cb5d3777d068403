"""A table of many records that sorts, filters and copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QLineEdit, QTableView, QTableWidget, QWidget

from evprof.core.texts import plain
from evprof.core.units import count_text
from evprof.metrics.traces.tables import Column
from ui.style.theme import GRID
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.label import Label

_Index = QModelIndex | QPersistentModelIndex

MOST_WIDTH_PX = 360


class RecordModel(QAbstractTableModel):
    """The records that fit the filter, in the order of one column."""

    def __init__(self, columns: Sequence[Column], parent: QWidget) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.records: Sequence[Any] = []
        self._all: Sequence[Any] = ()
        self._word = ""
        self._order: tuple[int, Qt.SortOrder] | None = None

    def show_records(self, records: Sequence[Any], columns: Sequence[Column]) -> None:
        self._all = records
        self._fill(columns)

    def filter(self, word: str) -> None:
        self._word = word.strip().casefold()
        self._fill(self.columns)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Qt's hook: a head was clicked; -1 is the order in which they came."""
        self._order = (column, order) if column >= 0 else None
        self._fill(self.columns)

    def _fill(self, columns: Sequence[Column]) -> None:
        found = self.matching(columns)
        if self._order is not None and self._order[0] < len(columns):
            place, order = self._order
            found = self.ordered(found, columns[place], is_down=order == Qt.SortOrder.DescendingOrder)
        self.beginResetModel()
        self.records, self.columns = found, tuple(columns)
        self.endResetModel()

    def matching(self, columns: Sequence[Column]) -> Any:
        """The records in which a text holds the filter's word."""
        texts = [column.text for column in columns if column.is_text]
        return [one for one in self._all if any(self._word in text(one).casefold() for text in texts)]

    def ordered(self, records: Any, column: Column, *, is_down: bool) -> Any:
        """Records in the order of a column, unknown values last."""
        value = column.value
        unknown = [record for record in records if value(record) is None]
        known = [record for record in records if value(record) is not None]
        known.sort(key=value, reverse=is_down)
        return known + unknown

    def rowCount(self, parent: _Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.records)

    def columnCount(self, parent: _Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.columns)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        column = self.columns[section] if orientation == Qt.Orientation.Horizontal else None
        return None if column is None else _shown(role, column, column.head, column.tip or column.head)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        column = self.columns[index.column()]
        text = column.text(self.records[index.row()])
        return _shown(role, column, text, text if column.is_text else None)

    def as_text(self, rows: Sequence[int]) -> str:
        lines = [[column.head for column in self.columns]]
        lines += [[column.text(self.records[row]) for column in self.columns] for row in rows]
        return "\n".join("\t".join(line) for line in lines)


def _shown(role: int, column: Column, text: str, tip: str | None) -> Any:
    if role == Qt.ItemDataRole.DisplayRole:
        return text
    if role == Qt.ItemDataRole.ToolTipRole:
        return None if tip is None else plain(tip)
    side = Qt.AlignmentFlag.AlignLeft if column.is_text else Qt.AlignmentFlag.AlignRight
    return side | Qt.AlignmentFlag.AlignVCenter if role == Qt.ItemDataRole.TextAlignmentRole else None


class _View(QTableView):
    def keyPressEvent(self, event: QKeyEvent) -> None:
        model = self.model()
        if event.matches(QKeySequence.StandardKey.Copy) and isinstance(model, RecordModel):
            rows = sorted({index.row() for index in self.selectionModel().selectedRows()})
            QGuiApplication.clipboard().setText(model.as_text(rows or range(model.rowCount())))
        else:
            super().keyPressEvent(event)


def without_grid(view: QTableView) -> None:
    """Lines alone: no grid, no heads of rows; Tab leaves the table."""
    view.setShowGrid(False)
    view.setWordWrap(False)
    view.setTabKeyNavigation(False)
    view.verticalHeader().hide()
    view.verticalHeader().setDefaultSectionSize(3 * GRID)
    view.horizontalHeader().setHighlightSections(False)


def text_table(name: str, heads: Sequence[str], wide: Sequence[int]) -> QTableWidget:
    """An empty table to look at, of which the `wide` columns share the room that is left."""
    table = QTableWidget(0, len(heads))
    table.setHorizontalHeaderLabels(list(heads))
    table.setAccessibleName(name)
    table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
    table.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
    without_grid(table)
    table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    for column in wide:
        table.horizontalHeader().setSectionResizeMode(column, QHeaderView.ResizeMode.Stretch)
    return table


def hide_columns(view: QTableView, least_px: Mapping[int, int]) -> None:
    """Hides each column in a table that is narrower than its entry."""
    for column, least in least_px.items():
        view.setColumnHidden(column, view.width() < least)


class RecordTable(QWidget):
    """A line to filter by, the number of records, and the table."""

    def __init__(
        self,
        name: str,
        columns: Sequence[Column],
        *beside_filter: QWidget,
        empty: QWidget | None = None,
        model: type[RecordModel] = RecordModel,
    ) -> None:
        """`beside_filter` are before the line to filter by; `empty` replaces all this while there is nothing."""
        super().__init__()
        self.model = model(columns, self)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter")
        self.filter.setAccessibleName(f"Filter {name}")
        self.filter.setClearButtonEnabled(True)
        self.filter.setMaximumWidth(32 * GRID)
        self.filter.textChanged.connect(self.model.filter)
        self.count = in_role(Label(), "small")
        self.model.modelReset.connect(lambda: self.count.setText(count_text(self.model.rowCount(), "line")))
        self.view = _View()
        self.view.setModel(self.model)
        self.view.setAccessibleName(name)
        without_grid(self.view)
        self.view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.view.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.view.setSortingEnabled(True)
        head = self.view.horizontalHeader()
        head.setSortIndicatorClearable(True)
        head.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.empty = empty
        self.table = QWidget()
        line = beside(*beside_filter, None, self.count, self.filter, spacing=2 * GRID)
        stacked(line, (self.view, 1), on=self.table, spacing=GRID)
        stacked(*([] if empty is None else [empty]), (self.table, 1), on=self)

    def show_records(self, records: Sequence[Any], columns: Sequence[Column] | None = None) -> None:
        if columns is not None and tuple(columns) != self.model.columns:
            self.view.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.model.show_records(records, self.model.columns if columns is None else columns)
        if self.empty is not None:
            self.empty.setVisible(not len(records))
            self.table.setVisible(bool(len(records)))
        self._fit()

    def _fit(self) -> None:
        """Columns as wide as their first lines need; the first text takes the rest."""
        head = self.view.horizontalHeader()
        head.setResizeContentsPrecision(50)
        head.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        head.setMaximumSectionSize(MOST_WIDTH_PX)
        self.view.resizeColumnsToContents()
        head.setMaximumSectionSize(-1)
        texts = [at for at, column in enumerate(self.model.columns) if column.is_text]
        if texts:
            head.setSectionResizeMode(texts[0], QHeaderView.ResizeMode.Stretch)
