"""Where runs can be dropped: on the columns and on their lanes, one half for A and one half for B."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QDragMoveEvent, QDropEvent
from PySide6.QtWidgets import QWidget

from ui.state.run_controller import RunController
from ui.state.run_following import put_run, runs_dragged
from ui.state.selection import Selection
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.label import Label


class ColumnDrop(QObject):
    """Lets runs be dropped on a widget: A is its left half, or its upper half where it `is_stacked`."""

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
        self._themes = themes
        self._mark = Label(parent=place)
        self._mark.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._mark.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._mark.hide()
        place.setAcceptDrops(True)
        place.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        """Takes drags of runs, and leaves those of files to the window."""
        if isinstance(event, QDropEvent) and event.type() != QEvent.Type.DragLeave:
            dragged = runs_dragged(event.mimeData())
            if not dragged:
                self._mark.hide()
                return False
            side = self._side(event)
            if isinstance(event, QDragMoveEvent):
                self._show_mark(side)
            else:
                self._mark.hide()
                of_cell = self._selection.of_cells
                put_run(self._selection, self._controller.runs, dragged, side, of_cell=of_cell)
            event.acceptProposedAction()
            return True
        if event.type() == QEvent.Type.DragLeave:
            self._mark.hide()
        return False

    def _side(self, event: QDropEvent) -> int:
        position, size = event.position(), self._place.size()
        is_second = position.y() >= size.height() / 2 if self._is_stacked else position.x() >= size.width() / 2
        return int(is_second)

    def _show_mark(self, side: int) -> None:
        half, theme = self._place.rect(), self._themes.theme
        if self._is_stacked:
            half.setHeight(half.height() // 2)
            half.moveTop(side * half.height())
        else:
            half.setWidth(half.width() // 2)
            half.moveLeft(side * half.width())
        ground, accent = theme.alpha(theme.accent, 0.2).name(theme.accent.NameFormat.HexArgb), theme.accent.name()
        self._mark.setStyleSheet(f"background: {ground}; border: 2px dashed {accent}; border-radius: 4px")
        self._mark.setText(f"Show as {'AB'[side]}")
        self._mark.setGeometry(half.adjusted(GRID, GRID, -GRID, -GRID))
        self._mark.raise_()
        self._mark.show()
