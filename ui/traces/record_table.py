"""A table of many records that sorts, filters and copies, and the columns of the trace window's tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QLineEdit, QTableView, QWidget

from evprof.core.texts import plain
from evprof.core.units import bytes_text, count_text, ms_text, percent_text
from ui.style.theme import GRID
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.label import Label

NOTHING = "–"
_SHORT_NS = 99_950


@dataclass(frozen=True)
class Column:
    """One column: its head, what it sorts by (None: last), and its text; texts stand left, numbers right."""

    head: str
    value: Callable[[Any], Any]
    text: Callable[[Any], str]
    tip: str = ""
    is_text: bool = False


def time_of(ns: int | None) -> str:
    """A time for a cell, with three digits for kernels that take a microsecond too."""
    if ns is None:
        return NOTHING
    return "0" if not ns else f"{ns / 1e3:.3g} µs" if ns < _SHORT_NS else ms_text(ns / 1e6)


def share_text(share: float | None) -> str:
    """A share of 0…1 for a cell."""
    return NOTHING if share is None else percent_text(share, 1)


def _count(count: int | None) -> str:
    return NOTHING if count is None else f"{count:,}"


def _ratio(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio:,.2f}"


def _bytes(count: int) -> str:
    return f"−{bytes_text(-count)}" if count < 0 else bytes_text(count) if count else "0"


def _column(head: str, field: str, written: Callable[[Any], str], tip: str = "") -> Column:
    value = attrgetter(field)
    return Column(head, value, lambda record: written(value(record)), tip)


def _text(head: str, field: str) -> Column:
    value = attrgetter(field)
    return Column(head, value, lambda record: str(value(record) or NOTHING), is_text=True)


HOST = (
    _column("calls", "calls", _count),
    _column("host self", "host_self_ns", time_of, "time on the host without the operators inside"),
    _column("host total", "host_total_ns", time_of, "time on the host with the operators inside"),
)
_CORES = "share of its own device time in kernels that use tensor cores"
DEVICE = (
    _column("device self", "device_self_ns", time_of, "time of the kernels that it launched itself"),
    _column("device total", "device_total_ns", time_of, "time of the kernels that it and operators inside launched"),
    _column("tensor cores", "tensor_core_share", share_text, _CORES),
)
OPERATORS = (_text("operator", "name"), *HOST, *DEVICE)
OPERATORS_BY_SHAPES = (_text("operator", "name"), _text("input shapes", "shapes"), *HOST, *DEVICE)
OPERATORS_BY_STACK = (_text("operator", "name"), _text("call stack", "stack"), *HOST, *DEVICE)

_LAUNCHED = (
    _column("calls", "calls", _count),
    _column("total", "total_ns", time_of),
    _column("mean", "mean_ns", time_of),
    _column("least", "min_ns", time_of),
    _column("most", "max_ns", time_of),
    _column("blocks per SM", "blocks_per_sm", _ratio),
    _column("occupancy", "occupancy", share_text, "estimated share of a multiprocessor's warps, by time"),
    _column(
        "tensor cores", "uses_tensor_cores", lambda uses: "yes" if uses else "no", "derived from the kernel's name"
    ),
)
KERNELS = (_text("kernel", "name"), *_LAUNCHED)
KERNELS_BY_LAUNCH = (
    _text("kernel", "name"),
    _text("operator", "operator"),
    _text("grid", "grid"),
    _text("block", "block"),
    _column("registers", "registers", _count),
    _column("shared memory", "shared_memory", _count),
    *_LAUNCHED,
)


def _held_ns(one: Any) -> int | None:
    return None if None in (one.allocated_ns, one.released_ns) else one.released_ns - one.allocated_ns


ALLOCATIONS = (
    _text("operator", "operator"),
    _text("inside of", "within"),
    _column("device", "device", str),
    _column("bytes", "bytes", _bytes),
    _column("allocated at", "allocated_ns", time_of),
    _column("released at", "released_ns", time_of),
    Column("held for", _held_ns, lambda one: time_of(_held_ns(one))),
)
OPERATOR_MEMORY = (
    _text("operator", "name"),
    _column("device", "device", str),
    _column("calls", "calls", _count),
    _column("kept by itself", "self_increase_bytes", _bytes, "allocated less released, without the operators inside"),
    _column("kept in all", "total_increase_bytes", _bytes, "allocated less released, with the operators inside"),
    _column("allocations", "self_allocations", _count, "its own"),
    _column("allocated", "self_allocated_bytes", _bytes, "by itself, whatever was released"),
    _column("allocated in all", "total_allocated_bytes", _bytes, "with the operators inside, whatever was released"),
)


_Index = QModelIndex | QPersistentModelIndex

MOST_WIDTH_PX = 360


class RecordModel(QAbstractTableModel):
    """The records that fit the filter, in the order of one column."""

    def __init__(self, columns: Sequence[Column], parent: QWidget) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.records: list[Any] = []
        self._all: Sequence[Any] = ()
        self._word = ""
        self._order: tuple[int, Qt.SortOrder] | None = None

    def show_records(self, records: Sequence[Any]) -> None:
        """Shows others, in the order in which they come until a head is clicked."""
        self._all = records
        self._fill()

    def filter(self, word: str) -> None:
        self._word = word.strip().casefold()
        self._fill()

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Qt's hook: a head was clicked; -1 is the order in which they came."""
        self._order = (column, order) if column >= 0 else None
        self._fill()

    def _fill(self) -> None:
        texts = [column.text for column in self.columns if column.is_text]
        found = [
            record
            for record in self._all
            if not self._word or any(self._word in text(record).casefold() for text in texts)
        ]
        if self._order is not None:
            column, order = self._order
            value = self.columns[column].value
            known = [record for record in found if value(record) is not None]
            known.sort(key=value, reverse=order == Qt.SortOrder.DescendingOrder)
            found = known + [record for record in found if value(record) is None]
        self.beginResetModel()
        self.records = found
        self.endResetModel()

    def rowCount(self, parent: _Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.records)

    def columnCount(self, parent: _Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.columns)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.head
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain(column.tip or column.head)
        return _alignment(column) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        column = self.columns[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.text(self.records[index.row()])
        if role == Qt.ItemDataRole.ToolTipRole and column.is_text:
            return plain(column.text(self.records[index.row()]))
        return _alignment(column) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def as_text(self, rows: Sequence[int]) -> str:
        lines = [[column.head for column in self.columns]]
        lines += [[column.text(self.records[row]) for column in self.columns] for row in rows]
        return "\n".join("\t".join(line) for line in lines)


def _alignment(column: Column) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignLeft if column.is_text else Qt.AlignmentFlag.AlignRight
    return side | Qt.AlignmentFlag.AlignVCenter


class _View(QTableView):
    def keyPressEvent(self, event: QKeyEvent) -> None:
        model = self.model()
        if event.matches(QKeySequence.StandardKey.Copy) and isinstance(model, RecordModel):
            rows = sorted({index.row() for index in self.selectionModel().selectedRows()})
            QGuiApplication.clipboard().setText(model.as_text(rows or range(model.rowCount())))
        else:
            super().keyPressEvent(event)


class RecordTable(QWidget):
    """A line to filter by, how many there are, and the table."""

    def __init__(
        self, name: str, columns: Sequence[Column], *beside_filter: QWidget, empty: QWidget | None = None
    ) -> None:
        """`beside_filter` stand before the line to filter by; `empty` instead of all this while there is nothing."""
        super().__init__()
        self.model = RecordModel(columns, self)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter")
        self.filter.setAccessibleName(f"Filter {name}")
        self.filter.setClearButtonEnabled(True)
        self.filter.setMaximumWidth(32 * GRID)
        self.filter.textChanged.connect(self._narrow)
        self.count = in_role(Label(), "small")
        self.view = _View()
        self.view.setModel(self.model)
        self.view.setAccessibleName(name)
        self.view.setShowGrid(False)
        self.view.setWordWrap(False)
        self.view.setTabKeyNavigation(False)
        self.view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.view.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.view.setSortingEnabled(True)
        self.view.verticalHeader().hide()
        self.view.verticalHeader().setDefaultSectionSize(3 * GRID)
        head = self.view.horizontalHeader()
        head.setHighlightSections(False)
        head.setSortIndicatorClearable(True)
        head.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.empty = empty
        self._table = QWidget()
        line = beside(*beside_filter, None, self.count, self.filter, spacing=2 * GRID)
        stacked(line, (self.view, 1), on=self._table, spacing=GRID)
        stacked(*([] if empty is None else [empty]), (self._table, 1), on=self)

    def show_records(self, records: Sequence[Any], columns: Sequence[Column] | None = None) -> None:
        """Shows others, perhaps in other columns."""
        if columns is not None and tuple(columns) != self.model.columns:
            self.model.beginResetModel()
            self.model.columns = tuple(columns)
            self.model.endResetModel()
            self.view.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.model.show_records(records)
        if self.empty is not None:
            self.empty.setVisible(not records)
            self._table.setVisible(bool(records))
        self._show_count()
        self._fit()

    def _narrow(self, word: str) -> None:
        self.model.filter(word)
        self._show_count()

    def _show_count(self) -> None:
        self.count.setText(count_text(self.model.rowCount(), "line"))

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
