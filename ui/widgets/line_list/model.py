"""The lines as Qt's list asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from evprof.core.safe_text import plain
from ui.widgets.line_list.line import ListLine, PagedLines

ListIndex = QModelIndex | QPersistentModelIndex


class LineModel(QAbstractListModel):
    """Holds the lines; changes in place where only contents changed, so that nothing flickers or scrolls."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lines: Sequence[ListLine] = []
        self._keys: list[Any] = []

    def rowCount(self, _parent: ListIndex | None = None) -> int:
        return len(self.lines)

    def data(self, index: ListIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not 0 <= index.row() < len(self.lines):
            return None
        line = self.lines[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return line.name
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return plain(line.words)
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain(line.tip or line.name)
        if role == Qt.ItemDataRole.UserRole:
            return line
        return None

    def row_of(self, key: object) -> int | None:
        return self._keys.index(key) if key is not None and key in self._keys else None

    def show(self, lines: Sequence[ListLine]) -> None:
        fresh = lines if isinstance(lines, PagedLines) else list(lines)
        keys = fresh.keys if isinstance(fresh, PagedLines) else [line.key for line in fresh]
        is_same, self._keys = keys == self._keys, keys
        if not is_same:
            self.beginResetModel()
            self.lines = fresh
            self.endResetModel()
            return
        before, self.lines = self.lines, fresh
        if isinstance(fresh, PagedLines):
            if keys:  # only what is in sight is made and drawn
                self.dataChanged.emit(self.index(0), self.index(len(keys) - 1))
            return
        for row, (old, new) in enumerate(zip(before, fresh, strict=True)):
            if old is not new and old != new:
                self.dataChanged.emit(self.index(row), self.index(row))
