"""The list itself: what is clicked, dragged, ticked and opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QMimeData, QModelIndex, QPoint, QRectF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QDrag, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QApplication, QFrame, QListView, QWidget

from ui.style.theme import GRID, ThemeHolder
from ui.widgets.line_list.drawing import LineDelegate, chip_box
from ui.widgets.line_list.line import LINE, ListLine, PagedLines
from ui.widgets.line_list.model import LineModel


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

    def __init__(self, themes: ThemeHolder, most_lines: int | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
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
        line = self._line_at(point)
        if event.button() == Qt.MouseButton.RightButton:
            return  # asks what can be done with a line, and picks none
        if line is not None and event.button() == Qt.MouseButton.LeftButton:
            if line.chip and self._chip_at(line, point).contains(event.position()):
                self.chip_asked.emit(line.key, event.globalPosition().toPoint())
                return
            if event.modifiers() & Qt.KeyboardModifier.ControlModifier and line.is_checked is None:
                self.joined.emit(line.key)
                return
        if line is not None and line.fold and event.position().x() < 2 * GRID:
            self.fold_asked.emit(line.key, line.fold == "closed")
            return
        if self.mime_of is not None and line is not None and event.button() == Qt.MouseButton.LeftButton:
            self._pressed = point, line.key
            self.setFocus(Qt.FocusReason.MouseFocusReason)
            return
        super().mousePressEvent(event)
        if line is not None and line.is_checked is not None and event.button() == Qt.MouseButton.LeftButton:
            self.ticked.emit(line.key)

    def _chip_at(self, line: ListLine, point: QPoint) -> QRectF:
        return chip_box(self._themes.theme, line, QRectF(self.visualRect(self.indexAt(point))))

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
