"""Where runs can be dropped: on the columns, the left half for A and the right half for B, and on their lanes."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRect, Qt
from PySide6.QtGui import QDragMoveEvent, QDropEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from ui.state.run_controller import RunController
from ui.state.run_drag import put_run, runs_dragged
from ui.state.selection import Selection
from ui.style.theme import GRID, RADIUS, ThemeHolder


class ColumnDrop(QObject):
    """Lets runs be dropped on a widget whose left half is column A and whose right half is column B, or whose upper and
    lower halves are where `is_stacked`."""

    def __init__(
        self,
        place: QWidget,
        controller: RunController,
        selection: Selection,
        themes: ThemeHolder,
        *,
        is_stacked: bool = False,
    ) -> None:
        super().__init__(place)
        self._place = place
        self._is_stacked = is_stacked
        self._controller = controller
        self._selection = selection
        self._mark = _DropMark(themes, place, is_stacked=is_stacked)
        place.setAcceptDrops(True)
        place.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        """Qt's hook; keeps what concerns runs, and lets files through to the window."""
        match event.type():
            case QEvent.Type.DragEnter | QEvent.Type.DragMove if isinstance(event, QDragMoveEvent):
                if not runs_dragged(event.mimeData()):
                    return False
                self._mark.show_side(self._side(event))
                event.acceptProposedAction()
                return True
            case QEvent.Type.DragLeave:
                self._mark.hide()
            case QEvent.Type.Drop if isinstance(event, QDropEvent):
                self._mark.hide()
                found = runs_dragged(event.mimeData())
                if found:
                    of_cell = self._selection.of_cells
                    put_run(self._selection, self._controller.runs, found, self._side(event), of_cell=of_cell)
                    event.acceptProposedAction()
                    return True
        return False

    def _side(self, event: QDropEvent) -> int:
        if self._is_stacked:
            return int(event.position().y() >= self._place.height() / 2)
        return int(event.position().x() >= self._place.width() / 2)


class _DropMark(QWidget):
    """The half of the columns that a run would go to."""

    def __init__(self, themes: ThemeHolder, parent: QWidget, *, is_stacked: bool) -> None:
        super().__init__(parent)
        self._themes = themes
        self._is_stacked = is_stacked
        self._columns = parent
        self._side = 0
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def show_side(self, side: int) -> None:
        """Marks A (0) or B (1)."""
        self._side = side
        whole = self._columns.rect()
        if self._is_stacked:
            half = QRect(0, side * whole.height() // 2, whole.width(), whole.height() // 2)
        else:
            half = QRect(side * whole.width() // 2, 0, whole.width() // 2, whole.height())
        self.setGeometry(half.adjusted(GRID, GRID, -GRID, -GRID))
        self.raise_()
        self.show()
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme = self._themes.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.accent, 2, Qt.PenStyle.DashLine))
        painter.setBrush(theme.alpha(theme.accent, 0.1))
        painter.drawRoundedRect(self.rect().adjusted(1, 1, -1, -1), RADIUS, RADIUS)
        label = QRect(0, 0, 14 * GRID, 4 * GRID)
        label.moveCenter(self.rect().center())
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.accent)
        painter.drawRoundedRect(label, 2 * GRID, 2 * GRID)
        painter.setPen(theme.ink(theme.accent))
        painter.setFont(theme.font())
        painter.drawText(label, Qt.AlignmentFlag.AlignCenter, f"Show as {'AB'[self._side]}")
