"""A list of lines: a name left, a word or figure right, optionally a second line below; the parts of the left dock."""

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
    QPointF,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QDrag,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from evprof.core.safe_text import plain
from ui.style.icons import pixmap
from ui.style.theme import GRID, SMALL_PX, Theme, ThemeHolder
from ui.widgets.elided import elided_text

LINE = 28
SECOND_LINE = 16
_ASIDE = 5
"""What is left free between the letters in the margin and what stands beside them."""

_Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class ListLine:
    """One line. `key` is what a click reports; `icons` stand before `second`, on a line of their own below.

    `role` colours the figure, and the second line too where `second_has_role`. A line with a `fold` ("open" or
    "closed") has others below it, which are `is_inner`. `is_checked` None: it has no box to tick.
    `tells_by_end`: others begin alike, so what is too long is cut in the middle. `badges` are outlined words on the
    second line, as many as have room; `chip` is a word at its end that can be clicked. `spread` stands there where
    there is no chip, else behind the figure, if the name leaves it room. `column`: the letters of the columns that
    show it.
    """

    key: Any
    name: str
    figure: str = ""
    role: str = ""
    second: str = ""
    tip: str = ""
    icons: tuple[str, ...] = ()
    is_live: bool = False
    second_has_role: bool = False
    fold: str = ""
    is_inner: bool = False
    is_checked: bool | None = None
    tells_by_end: bool = False
    badges: tuple[str, ...] = ()
    column: str = ""
    chip: str = ""
    spread: str = ""

    @property
    def has_second(self) -> bool:
        """Whether it takes two lines."""
        return bool(self.second or self.icons or self.chip or self.spread or self.badges)

    @property
    def words(self) -> str:
        """All it says, for those who hear it."""
        column = f"column {' and '.join(self.column)}" if self.column else ""
        return ", ".join(
            filter(None, (self.name, self.figure, self.spread, *self.badges, self.second, self.chip, column))
        )

    @property
    def height(self) -> int:
        """Height in px."""
        return LINE + (SECOND_LINE if self.has_second else 0)


class PagedLines(Sequence[ListLine]):
    """Lines that are made when they are looked at, for lists of any length; all are as high as two lines."""

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


class _Lines(QAbstractListModel):
    """Holds the lines; changes in place where only contents changed, so that nothing flickers or scrolls."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lines: Sequence[ListLine] = []
        self._keys: list[Any] = []

    def rowCount(self, _parent: _Index | None = None) -> int:
        return len(self.lines)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
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
        """Where the line of a key stands."""
        return self._keys.index(key) if key is not None and key in self._keys else None

    def show(self, lines: Sequence[ListLine]) -> None:
        """Replaces the lines."""
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


class _LineDelegate(QStyledItemDelegate):
    def __init__(self, themes: ThemeHolder, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.is_uniform = False

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        if self.is_uniform:
            return QSize(80, LINE + SECOND_LINE)
        line: ListLine | None = index.data(Qt.ItemDataRole.UserRole)
        return QSize(80, line.height if line is not None else LINE)

    def paint(self, painter: QPainter, option: Any, index: _Index) -> None:
        line: ListLine | None = index.data(Qt.ItemDataRole.UserRole)
        if line is None:
            return
        theme = self._themes.theme
        box = QRectF(option.rect)
        ground = theme.panel
        if option.state & QStyle.StateFlag.State_Selected or line.column:
            ground = theme.selection
        elif option.state & QStyle.StateFlag.State_MouseOver:
            ground = theme.raised
        if ground is not theme.panel:
            painter.fillRect(box, ground)
        inner = box.adjusted(2 * GRID, 0, -GRID - 4, 0)
        if line.fold:
            self._paint_fold(painter, box, line.fold == "open")
        if line.is_inner:
            inner.setLeft(inner.left() + GRID)
        if line.is_checked is not None:
            self._paint_box(painter, QRectF(inner.left(), inner.top() + LINE / 2 - 6, 12, 12), line.is_checked)
            inner.setLeft(inner.left() + 20)
        aside = self._paint_column(painter, line, box, ground) + _ASIDE if line.column else 0.0
        first, below = _rooms(line, inner, aside)
        painter.setFont(theme.font(SMALL_PX))
        color = {"good": theme.good, "bad": theme.bad, "warn": theme.warn}.get(line.role, theme.text_dim)
        color, dim = theme.readable(color, ground), theme.readable(theme.text_dim, ground)
        painter.setPen(theme.readable(theme.accent, ground) if line.is_live else color)
        figure = figure_shown(theme, line, first.width())
        painter.drawText(first, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, figure)
        right = first.right() - (painter.fontMetrics().horizontalAdvance(figure) + GRID if figure else 0)
        painter.setFont(theme.font())
        painter.setPen(theme.text)
        room = max(0, int(right - first.left() - GRID / 2))
        name = elided_text(painter.fontMetrics(), line.name, _cut_of(line), room)
        painter.drawText(first, Qt.AlignmentFlag.AlignVCenter, name)
        if line.has_second:
            if line.chip:
                chip = chip_box(theme, line, box)
                painter.setFont(theme.font(SMALL_PX))
                painter.setPen(theme.readable(theme.accent, ground))
                painter.drawText(chip, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, line.chip)
                below.setRight(chip.left() - GRID / 2)
            elif line.spread:
                painter.setFont(theme.font(SMALL_PX))
                painter.setPen(dim)
                painter.drawText(below, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, line.spread)
                below.setRight(below.right() - painter.fontMetrics().horizontalAdvance(line.spread) - GRID / 2)
            self._paint_second(painter, line, below, color if line.second_has_role else dim, dim)

    def _paint_column(self, painter: QPainter, line: ListLine, box: QRectF, ground: QColor) -> float:
        """The letters of the columns that show the run, in the margin; below the arrow of a line that opens. Where they
        end."""
        theme = self._themes.theme
        painter.setFont(theme.font(SMALL_PX - 1))
        painter.setPen(theme.readable(theme.accent, ground))
        top = box.top() + (LINE - 4 if line.fold and line.has_second else 0)
        place = QRectF(box.left(), top, 2 * GRID, SECOND_LINE if line.fold and line.has_second else LINE)
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, line.column)
        return place.center().x() + painter.fontMetrics().horizontalAdvance(line.column) / 2

    def _paint_badge(self, painter: QPainter, badge: str, left: float, middle: float, color: QColor) -> float:
        """A word in a thin outline; where it ends."""
        theme = self._themes.theme
        place = QRectF(left, middle - 7, _badge_width(theme, badge), 14)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(theme.font(SMALL_PX - 1))
        painter.setPen(QPen(theme.alpha(color, 0.6), 1))
        painter.drawRoundedRect(place.adjusted(0.5, 0.5, -0.5, -0.5), 7, 7)
        painter.setPen(color)
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, badge)
        painter.restore()
        return place.right()

    def _paint_fold(self, painter: QPainter, box: QRectF, is_open: bool) -> None:
        """A small arrow in the margin: down while the lines below belong to it."""
        middle = QPointF(box.left() + GRID, box.top() + LINE / 2)
        corners = [(-3.0, -1.5), (3.0, -1.5), (0.0, 2.5)] if is_open else [(-1.5, -3.0), (2.5, 0.0), (-1.5, 3.0)]
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._themes.theme.text_dim)
        painter.drawPolygon(QPolygonF([middle + QPointF(x, y) for x, y in corners]))
        painter.restore()

    def _paint_box(self, painter: QPainter, box: QRectF, is_checked: bool) -> None:
        theme = self._themes.theme
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.accent if is_checked else theme.text_dim, 1))
        painter.setBrush(theme.accent if is_checked else theme.window)
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
        if is_checked:
            painter.setPen(QPen(theme.ink(theme.accent), 1.6))
            middle = box.center()
            painter.drawPolyline(QPolygonF([middle + QPointF(x, y) for x, y in ((-3, 0), (-1, 2.5), (3.2, -2.5))]))
        painter.restore()

    def _paint_second(self, painter: QPainter, line: ListLine, below: QRectF, color: QColor, dim: QColor) -> None:
        """Icons and badges, then the words."""
        theme = self._themes.theme
        ratio = painter.device().devicePixelRatioF()
        left = below.left()
        for name in line.icons:
            painter.drawPixmap(QPointF(left, below.center().y() - 6), pixmap(name, dim, ratio, 12))
            left += 16
        if line.icons:
            left += GRID / 2
        shown, more = badges_shown(theme, line.badges, below.right() - left)
        for badge in shown:
            left = self._paint_badge(painter, badge, left, below.center().y(), dim) + GRID / 2
        painter.setFont(theme.font(SMALL_PX))
        painter.setPen(color)
        place = QRectF(left, below.top(), below.right() - left, below.height())
        words = " ".join(filter(None, (more, line.second)))
        text = elided_text(painter.fontMetrics(), words, _cut_of(line), int(place.width()))
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, text)


def _cut_of(line: ListLine) -> Qt.TextElideMode:
    # Cells of a suite, and what is listed below a line, often begin alike, as numbered files do.
    return Qt.TextElideMode.ElideMiddle if line.tells_by_end else Qt.TextElideMode.ElideRight


def _rooms(line: ListLine, inner: QRectF, aside: float) -> tuple[QRectF, QRectF]:
    """Where a line's first and second row stand; the one beside the letters in the margin begins at `aside`, if need
    be."""
    first = QRectF(inner.left(), inner.top(), inner.width(), LINE)
    below = QRectF(inner.left(), inner.top() + LINE - 4, inner.width(), SECOND_LINE)
    beside = below if line.fold and line.has_second else first
    # A badge's outline needs more room than a letter.
    room = _ASIDE if beside is below and line.badges and aside else 0
    beside.setLeft(max(beside.left(), aside + room))
    return first, below


def figure_shown(theme: Theme, line: ListLine, room: float) -> str:
    """A line's figure; with its spread behind it where a chip has the spread's place and the name does not need it."""
    both = f"{line.figure} {line.spread}"
    used = theme.text_width(line.name) + theme.text_width(both, SMALL_PX) + GRID * 1.5
    return both if line.chip and line.spread and used <= room else line.figure


def badges_shown(theme: Theme, badges: Sequence[str], room: float) -> tuple[tuple[str, ...], str]:
    """Those badges that have room beside one another, and `+1` for what is left out."""
    widths = [_badge_width(theme, badge) for badge in badges]
    for count in range(len(badges), 0, -1):
        more = f"+{len(badges) - count}" if count < len(badges) else ""
        used = sum(widths[:count]) + (count - 1) * GRID / 2
        if used + (GRID / 2 + theme.text_width(more, SMALL_PX) if more else 0) <= room:
            return tuple(badges[:count]), more
    return (), f"+{len(badges)}" if badges else ""


def _badge_width(theme: Theme, badge: str) -> float:
    return theme.text_width(badge, SMALL_PX - 1) + GRID + 2


def chip_box(theme: Theme, line: ListLine, box: QRectF) -> QRectF:
    """Where the chip of a line in `box` stands: at the end of its second line."""
    width = QFontMetricsF(theme.font(SMALL_PX)).horizontalAdvance(line.chip) + 1
    return QRectF(box.right() - GRID - 4 - width, box.top() + LINE - 4, width, SECOND_LINE)


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
        self._pressed: QPoint | None = None
        self.mime_of: Callable[[object], QMimeData | None] | None = None
        self._lines = _Lines(self)
        self.setModel(self._lines)
        self._delegate = _LineDelegate(themes, self)
        self.setItemDelegate(self._delegate)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.selectionModel().currentChanged.connect(self._tell)
        themes.changed.connect(self._redraw)

    @property
    def lines(self) -> list[ListLine]:
        """What is shown."""
        return list(self._lines.lines)

    @property
    def current_key(self) -> object:
        """The key of the marked line, None without one."""
        line: ListLine | None = self.currentIndex().data(Qt.ItemDataRole.UserRole)
        return None if line is None else line.key

    def show_lines(self, lines: Sequence[ListLine], current: object = None) -> None:
        """Shows lines and marks the one whose key is `current`, without reporting it."""
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
            self._pressed = point
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
        way = (event.position().toPoint() - self._pressed).manhattanLength()
        if way >= QApplication.startDragDistance():
            line, self._pressed = self._line_at(self._pressed), None
            data = self.mime_of(line.key) if line is not None and self.mime_of is not None else None
            if data is not None:
                drag = QDrag(self)
                drag.setMimeData(data)
                drag.exec(Qt.DropAction.CopyAction)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._pressed is None:
            super().mouseReleaseEvent(event)
            return
        index, self._pressed = self.indexAt(self._pressed), None
        if index != self.indexAt(event.position().toPoint()):
            return
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
