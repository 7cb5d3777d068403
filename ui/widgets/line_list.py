"""A list of lines: a name on the left, a word or figure on the right, optionally a second line below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from PySide6.QtCore import (
    QAbstractListModel,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QContextMenuEvent, QDrag, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionButton,
    QStyleOptionViewItem,
    QWidget,
)

from evprof.core.texts import plain
from ui.style.theme import BASE_PX, GRID, SMALL_PX, ThemeHolder
from ui.widgets.label import elided_text

LINE = 28
SECOND_LINE = 16
"""Heights in px."""

ListIndex = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class ListLine:
    """One line. `key` is what a click reports; `badges`, `second`, `figure_below` stand on a line of their own below.

    `role` colours the figure, and the second line too where `second_has_role`. A line with a `fold` ("open" or
    "closed") has others below it, which are `is_inner`. `is_checked` None: it has no check box.
    `tells_by_end`: a name that is too long is cut in the middle. `chip` is a word at the end of the second line that
    can be clicked. `column`: the letters of the columns that show the line.
    """

    key: Any
    name: str
    figure: str = ""
    role: str = ""
    second: str = ""
    tip: str = ""
    is_live: bool = False
    second_has_role: bool = False
    fold: str = ""
    is_inner: bool = False
    is_checked: bool | None = None
    tells_by_end: bool = False
    badges: tuple[str, ...] = ()
    column: str = ""
    chip: str = ""
    figure_below: str = ""

    @property
    def below(self) -> str:
        """The words of the second line."""
        return " · ".join(filter(None, (*self.badges, self.second)))

    @property
    def has_second(self) -> bool:
        return bool(self.below or self.chip or self.figure_below)

    @property
    def words(self) -> str:
        column = f"column {' and '.join(self.column)}" if self.column else ""
        parts = (self.name, self.figure, *self.badges, self.second, self.figure_below, self.chip, column)
        return ", ".join(filter(None, parts))

    @property
    def height(self) -> int:
        return LINE + (SECOND_LINE if self.has_second else 0)


class PagedLines(Sequence[ListLine]):
    """Lines that are made when they are read, for lists of any length; all are as high as two lines."""

    def __init__(self, keys: list[Any], make: Callable[[int], ListLine]) -> None:
        self.keys = keys
        self._make = make

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> ListLine: ...
    @overload
    def __getitem__(self, place: slice) -> list[ListLine]: ...
    def __getitem__(self, place: int | slice) -> ListLine | list[ListLine]:
        if isinstance(place, slice):
            return [self._make(row) for row in range(*place.indices(len(self.keys)))]
        return self._make(place)


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
        return line if role == Qt.ItemDataRole.UserRole else None

    def row_of(self, key: object) -> int | None:
        return self._keys.index(key) if key is not None and key in self._keys else None

    def show(self, lines: Sequence[ListLine]) -> None:
        keys = lines.keys if isinstance(lines, PagedLines) else [line.key for line in lines]
        if keys != self._keys:
            self.beginResetModel()
            self.lines, self._keys = lines, keys
            self.endResetModel()
            return
        self.lines = lines
        if keys:
            self.dataChanged.emit(self.index(0), self.index(len(keys) - 1))


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
        theme, ground = self._themes.theme, self._themes.theme.panel
        if option.state & QStyle.StateFlag.State_Selected or line.column:
            ground = theme.selection
        elif option.state & QStyle.StateFlag.State_MouseOver:
            ground = theme.raised
        painter.fillRect(option.rect, ground)
        role = {"good": theme.good, "bad": theme.bad, "warn": theme.warn}.get(line.role, theme.text_dim)
        color, accent, dim = (theme.readable(one, ground) for one in (role, theme.accent, theme.text_dim))
        box = QRectF(option.rect)
        margin = QRectF(box.left() + GRID / 2, box.top(), 2 * GRID, LINE)
        if line.fold:
            self._write(painter, margin, "▾" if line.fold == "open" else "▸", dim)
        letters = margin.translated(0, LINE - 4) if line.fold and line.has_second else margin
        self._write(painter, letters, line.column, accent)
        # The letters of both columns are wider than the margin.
        start = max(2 * GRID, GRID + theme.text_width(line.column, SMALL_PX)) if line.column else 2 * GRID
        inner = box.adjusted(start + GRID * line.is_inner, 0, -GRID - 4, 0)
        if line.is_checked is not None:
            self._draw_box(painter, inner, line.is_checked, option.widget)
            inner.setLeft(inner.left() + 20)
        cut = Qt.TextElideMode.ElideMiddle if line.tells_by_end else Qt.TextElideMode.ElideRight
        first, below = (QRectF(inner) for _ in range(2))
        first.setHeight(LINE)
        below.setRect(inner.left(), inner.top() + LINE - 4, inner.width(), SECOND_LINE)
        self._write_end(painter, first, line.figure, accent if line.is_live else color)
        self._write(painter, first, line.name, theme.text, cut=cut, size_px=BASE_PX)
        self._write_end(painter, below, line.chip, accent)
        self._write_end(painter, below, line.figure_below, theme.readable(theme.text, ground))
        self._write(painter, below, line.below, color if line.second_has_role else dim, cut=cut)

    def _write(
        self,
        painter: QPainter,
        room: QRectF,
        text: str,
        color: QColor,
        *,
        cut: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
        size_px: float = SMALL_PX,
    ) -> None:
        painter.setFont(self._themes.theme.font(size_px))
        painter.setPen(color)
        shown = elided_text(painter.fontMetrics(), text, cut, max(0.0, room.width()))
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, shown)

    def _write_end(self, painter: QPainter, room: QRectF, text: str, color: QColor) -> None:
        """A small text at the end of a room, which loses that width."""
        width = self._themes.theme.text_width(text, SMALL_PX)
        self._write(painter, QRectF(room.right() - width, room.top(), width + 1, room.height()), text, color)
        room.setRight(room.right() - width - GRID / 2 * bool(text))

    @staticmethod
    def _draw_box(painter: QPainter, inner: QRectF, is_checked: bool, widget: QWidget) -> None:
        option: Any = QStyleOptionButton()
        option.rect = QRectF(inner.left(), inner.top() + LINE / 2 - 7, 14, 14).toRect()
        option.state = QStyle.StateFlag.State_Enabled
        option.state |= QStyle.StateFlag.State_On if is_checked else QStyle.StateFlag.State_Off
        widget.style().drawPrimitive(QStyle.PrimitiveElement.PE_IndicatorItemViewItemCheck, option, painter, widget)


class LineList(QListView):
    """The list; as high as its lines up to `most_lines`, then it scrolls.

    `mime_of` says what is dragged of a line, None where it stays; where it is set, a line is picked when the button is
    let go, so that dragging picks nothing.

    Signals:
        picked(object): the key of a line that was clicked or reached with the keyboard.
        menu_asked(object, QPoint): the key of a line that was right-clicked (None: below all lines), and where on the
            screen. With the keyboard, of the marked line.
        ticked(object): the key of a line with a box, when it was clicked or Space pressed on it.
        fold_asked(object, bool): the key of a line whose lines below it are to be shown (True) or hidden.
        joined(object): the key of a line that was clicked with Ctrl held, to be shown beside the one picked before.
        chip_asked(object, QPoint): the key of a line whose chip was clicked, and where on the screen.
        deleted(object): Delete was pressed on the line of this key.
    """

    picked = Signal(object)
    fold_asked = Signal(object, bool)
    ticked = Signal(object)
    menu_asked = Signal(object, QPoint)
    joined = Signal(object)
    chip_asked = Signal(object, QPoint)
    deleted = Signal(object)

    def __init__(self, themes: ThemeHolder, most_lines: int | None = None) -> None:
        super().__init__()
        self._most_lines = most_lines
        self._is_setting = False
        self._themes = themes
        self._pressed: tuple[QPoint, object] | None = None
        """Where the button went down, and on which line: others may come under the hand before it is let go."""

        self.mime_of: Callable[[object], QMimeData | None] | None = None
        self._lines = LineModel(self)
        self.setModel(self._lines)
        self._delegate = LineDelegate(themes, self)
        self.setItemDelegate(self._delegate)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.selectionModel().currentChanged.connect(self._tell)
        themes.changed.connect(self._redraw)

    @property
    def lines(self) -> list[ListLine]:
        return list(self._lines.lines)

    @property
    def current_key(self) -> object:
        """The key of the marked line, None without one."""
        line: ListLine | None = self.currentIndex().data(Qt.ItemDataRole.UserRole)
        return None if line is None else line.key

    def show_lines(self, lines: Sequence[ListLine], current: object = None) -> None:
        """Shows lines and marks the one whose key is `current`, without reporting it. What is in sight stays there
        when lines come or go, unless another line is marked."""
        is_other = current is not None and current != self.current_key
        first = self._first_in_sight()
        self._is_setting = True
        try:
            is_paged = isinstance(lines, PagedLines)
            if is_paged != self._delegate.is_uniform:
                self._delegate.is_uniform = is_paged
                self.setUniformItemSizes(is_paged)
            self._lines.show(lines)
            row = self._lines.row_of(current)
            if row is None:
                self.clearSelection()
                self.selectionModel().clearCurrentIndex()
            elif self.currentIndex().row() != row:
                self.setCurrentIndex(self._lines.index(row))
        finally:
            self._is_setting = False
        if self._most_lines is not None:
            wanted = sum(line.height for line in lines)
            self.setFixedHeight(min(wanted, LINE * self._most_lines))
        if not is_other:
            self._keep_in_sight(*first)

    def _first_in_sight(self) -> tuple[object, int]:
        """The key of the uppermost line of a list that was scrolled, and where it begins; None at the top."""
        if not self.verticalScrollBar().value():
            return None, 0
        index = self.indexAt(QPoint(self.viewport().width() // 2, 0))
        line: ListLine | None = index.data(Qt.ItemDataRole.UserRole)
        return (None if line is None else line.key), self.visualRect(index).top()

    def _keep_in_sight(self, key: object, top_px: int) -> None:
        bar, row = self.verticalScrollBar(), self._lines.row_of(key)
        if key is None:
            bar.setValue(0)
        elif row is not None:
            bar.setValue(bar.value() + self.visualRect(self._lines.index(row)).top() - top_px)

    def _tell(self, index: QModelIndex, _before: QModelIndex | None = None) -> None:
        if not self._is_setting and index.isValid():
            line: ListLine = index.data(Qt.ItemDataRole.UserRole)
            self.picked.emit(line.key)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        point = event.position().toPoint()
        line, is_again = self._line_at(point), self.indexAt(point) == self.currentIndex()
        if event.button() == Qt.MouseButton.RightButton:
            return  # asks what can be done with a line, and picks none
        if line is None or event.button() != Qt.MouseButton.LeftButton:
            super().mousePressEvent(event)
        elif line.chip and self._chip_at(line, point).contains(event.position()):
            self.chip_asked.emit(line.key, event.globalPosition().toPoint())
        elif event.modifiers() & Qt.KeyboardModifier.ControlModifier and line.is_checked is None:
            self.joined.emit(line.key)
        elif line.fold and point.x() < 2 * GRID:
            self.fold_asked.emit(line.key, line.fold == "closed")
        elif self.mime_of is not None:
            self._pressed = point, line.key
            self.setFocus(Qt.FocusReason.MouseFocusReason)
        else:
            super().mousePressEvent(event)
            if line.is_checked is not None:
                self.ticked.emit(line.key)
            elif is_again:
                self._tell(self.currentIndex())

    def _chip_at(self, line: ListLine, point: QPoint) -> QRectF:
        """Where the chip of the line at `point` stands: at the end of its second line."""
        box, width = QRectF(self.visualRect(self.indexAt(point))), self._themes.theme.text_width(line.chip, SMALL_PX)
        return QRectF(box.right() - GRID - 4 - width, box.top() + LINE - 4, width + 1, SECOND_LINE)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pressed is None:
            super().mouseMoveEvent(event)
            return
        point, key = self._pressed
        if (event.position().toPoint() - point).manhattanLength() >= QApplication.startDragDistance():
            self._pressed = None
            is_there = self._lines.row_of(key) is not None
            data = self.mime_of(key) if is_there and self.mime_of is not None else None
            if data is not None:
                drag = QDrag(self)
                drag.setMimeData(data)
                drag.exec(Qt.DropAction.CopyAction)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._pressed is None:
            super().mouseReleaseEvent(event)
            return
        (point, key), self._pressed = self._pressed, None
        way = (event.position().toPoint() - point).manhattanLength()
        if way >= QApplication.startDragDistance() or (row := self._lines.row_of(key)) is None:
            return
        index = self._lines.index(row)
        if index == self.currentIndex():
            self._tell(index)  # shown beside another one by now, perhaps
        self.setCurrentIndex(index)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        line = self._line_at(event.position().toPoint())
        if line is not None and line.fold:
            self.fold_asked.emit(line.key, line.fold == "closed")
            return
        super().mouseDoubleClickEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        line: ListLine | None = self.currentIndex().data(Qt.ItemDataRole.UserRole)
        wanted = {Qt.Key.Key_Right: "closed", Qt.Key.Key_Left: "open"}.get(Qt.Key(event.key()))
        if line is not None and line.fold and wanted is not None:
            if line.fold == wanted:
                self.fold_asked.emit(line.key, wanted == "closed")
            return
        if line is not None and line.is_checked is not None and event.key() == Qt.Key.Key_Space:
            self.ticked.emit(line.key)
            return
        if event.text().isprintable() and event.text().strip():
            # Qt would look for a line that begins so; letters are the timeline's.
            event.ignore()
            return
        if line is not None and event.key() == Qt.Key.Key_Delete:
            self.deleted.emit(line.key)
            return
        super().keyPressEvent(event)

    def _line_at(self, point: QPoint) -> ListLine | None:
        line: ListLine | None = self.indexAt(point).data(Qt.ItemDataRole.UserRole)
        return line

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        point, place = event.pos(), event.globalPos()
        if event.reason() == QContextMenuEvent.Reason.Keyboard:
            point = self.visualRect(self.currentIndex()).center()
            place = self.viewport().mapToGlobal(point)
        line = self._line_at(point)
        self.menu_asked.emit(None if line is None else line.key, place)

    def _redraw(self) -> None:
        self.viewport().update()
