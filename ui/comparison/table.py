"""The table of the comparison window: one column per configuration, with names and heads always visible."""

from __future__ import annotations

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QPoint, QRectF, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QPainter, QPixmap, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QScrollBar,
    QTableView,
    QWidget,
)

from ui.comparison.sheet import BAD, GOOD, ComparisonSheet, FigureCell, SheetRow
from ui.style.theme import ThemeHolder
from ui.widgets.figure_table import paint_swatch
from ui.widgets.label import elided_text

NAME_PX = 152
LEAST_PX, MOST_PX = 224, 288
"""Width of the names, and the least and most of a column: figures far from their names are hard to read."""

HEAD_PX = 82
_SECTION, _LINE, _FIGURE = 32, 24, 40
_PAD = 10.0
_SIGN = {GOOD: "▲ ", BAD: "▼ "}
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_ANY = QModelIndex | QPersistentModelIndex

SIGNS = "▲ better, ▼ worse than the baseline."
"""The meaning of signs and colours, for the line below the table."""


class _SheetModel(QAbstractTableModel):
    """A comparison as rows and columns."""

    def __init__(self, themes: ThemeHolder, parent: QTableView) -> None:
        super().__init__(parent)
        self._themes = themes
        self._table = parent
        self.sheet = ComparisonSheet()

    def show_sheet(self, sheet: ComparisonSheet) -> None:
        """Shows another comparison."""
        self.beginResetModel()
        self.sheet = sheet
        self.endResetModel()

    def rowCount(self, parent: _ANY = QModelIndex()) -> int:  # noqa: B008 - Qt's own default
        return 0 if parent.isValid() else len(self.sheet.rows)

    def columnCount(self, parent: _ANY = QModelIndex()) -> int:  # noqa: B008 - Qt's own default
        return 0 if parent.isValid() else len(self.sheet.heads)

    def cell(self, index: _ANY) -> FigureCell | None:
        """The cell at an index; None in the line of a section."""
        row = self.sheet.rows[index.row()]
        return None if row.is_head else row.cells[index.column()]

    def data(self, index: _ANY, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        cell = self.cell(index)
        if cell is None:
            return None
        theme = self._themes.theme
        color = theme.good if cell.judgement == GOOD else theme.bad
        figure, change = f"{cell.value}  {cell.count}".rstrip(), f"{_SIGN.get(cell.judgement, '')}{cell.change}"
        values: dict[int, object] = {
            Qt.ItemDataRole.DisplayRole: "\n".join(filter(None, (figure, change))),
            Qt.ItemDataRole.ToolTipRole: cell.tip or cell.value,
            Qt.ItemDataRole.TextAlignmentRole: _RIGHT,
            Qt.ItemDataRole.ForegroundRole: color if cell.judgement else None if cell.is_measured else theme.text_dim,
        }
        return values.get(role)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if orientation == Qt.Orientation.Vertical:
            return self._name(self.sheet.rows[section], role)
        head = self.sheet.heads[section]
        if role == Qt.ItemDataRole.ToolTipRole:
            return head.tip
        if role == Qt.ItemDataRole.DisplayRole:
            room = 1.7 * self._table.columnWidth(section) - 4 * _PAD
            metrics = QFontMetricsF(self._table.font())
            title = elided_text(metrics, head.title, Qt.TextElideMode.ElideMiddle, room)
            return f"{title}\n{'baseline · ' * head.is_baseline}{head.session}\n{head.counts}"
        return None

    def _name(self, row: SheetRow, role: int) -> object:
        if role == Qt.ItemDataRole.DisplayRole:
            return row.name.upper() if row.is_head else f"{row.name}  {row.unit}".rstrip()
        if role == Qt.ItemDataRole.ToolTipRole:
            return row.tip
        if role == Qt.ItemDataRole.DecorationRole and row.swatch:
            pixmap = QPixmap(4, 14)
            pixmap.fill(Qt.GlobalColor.transparent)
            painter = QPainter(pixmap)
            paint_swatch(painter, self._themes.theme, row.swatch, QRectF(0, 1, 3, 12))
            painter.end()
            return pixmap
        return None


class ComparisonTable(QTableView):
    """Columns can be dragged to another place, made the baseline by a click, and removed.

    Signals:
        baseline_chosen(int): a head was clicked, or Enter pressed in its column.
        moved(int, int): a column was dragged from one place to another.
        removed(int): Delete in a column.
        menu_asked(int, QPoint): a right click on a column, and where on the screen.
    """

    baseline_chosen = Signal(int)
    moved = Signal(int, int)
    removed = Signal(int)
    menu_asked = Signal(int, QPoint)

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._model = _SheetModel(themes, self)
        self.setModel(self._model)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setAccessibleName("Comparison of configurations")
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(lambda at: self._offer(self.columnAt(at.x()), self.viewport(), at))
        heads, names = self.horizontalHeader(), self.verticalHeader()
        heads.setFixedHeight(HEAD_PX)
        heads.setSectionsMovable(True)
        heads.setSectionsClickable(True)
        heads.setDefaultAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap)
        heads.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        heads.customContextMenuRequested.connect(lambda at: self._offer(heads.logicalIndexAt(at), heads, at))
        heads.sectionClicked.connect(self.baseline_chosen)
        heads.sectionMoved.connect(self._take_move)
        names.setFixedWidth(NAME_PX)
        names.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        names.setMinimumSectionSize(_LINE)
        names.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        themes.changed.connect(lambda *_: self.viewport().update())

    @property
    def sheet(self) -> ComparisonSheet:
        """What is shown."""
        return self._model.sheet

    def show_sheet(self, sheet: ComparisonSheet) -> None:
        """Shows another comparison; the scroll position and the current column stay."""
        column, places = self.currentIndex().column(), [bar.value() for bar in self._bars]
        self._model.show_sheet(sheet)
        for place, row in enumerate(sheet.rows):
            self.setRowHeight(place, _SECTION if row.is_head else _LINE if row.is_setting else _FIGURE)
        self._fit_columns()
        if sheet.heads:
            self.setCurrentIndex(self._model.index(0, min(max(0, column), len(sheet.heads) - 1)))
        for bar, place in zip(self._bars, places, strict=True):
            bar.setValue(place)
        self.setAccessibleDescription(sheet.as_text())

    @property
    def _bars(self) -> tuple[QScrollBar, QScrollBar]:
        return self.horizontalScrollBar(), self.verticalScrollBar()

    def _fit_columns(self) -> None:
        count = max(1, len(self.sheet.heads))
        width = min(MOST_PX, max(LEAST_PX, self.viewport().width() // count))
        self.horizontalHeader().setDefaultSectionSize(width)
        for place in range(len(self.sheet.heads)):
            self.setColumnWidth(place, width)

    def _take_move(self, _: int, before: int, after: int) -> None:
        """Undoes the header's own move: the window shows the columns anew in their order."""
        heads = self.horizontalHeader()
        heads.blockSignals(True)
        heads.moveSection(after, before)
        heads.blockSignals(False)
        self.moved.emit(before, after)

    def _offer(self, column: int, widget: QWidget, at: QPoint) -> None:
        if column >= 0:
            self.menu_asked.emit(column, widget.mapToGlobal(at))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        column = self.currentIndex().column()
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        is_control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        if column < 0:
            super().keyPressEvent(event)
        elif is_control and step and 0 <= column + step < len(self.sheet.heads):
            self.setCurrentIndex(self._model.index(self.currentIndex().row(), column + step))
            self.moved.emit(column, column + step)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.baseline_chosen.emit(column)
        elif event.key() == Qt.Key.Key_Delete:
            self.removed.emit(column)
        elif is_control:
            event.ignore()  # Ctrl+C copies the whole comparison, which the window does
        else:
            super().keyPressEvent(event)
