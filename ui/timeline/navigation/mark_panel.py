"""The marks of the session as a list: gone to with a click, noted, deleted."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QInputDialog, QMenu, QWidget

from evprof.session.marks import LONGEST_NOTE, Mark
from evprof.view.timescale import time_text
from ui.state.mark_book import go_to
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.empty_state import EmptyState
from ui.widgets.line_list.line import ListLine
from ui.widgets.line_list.view import LineList
from ui.widgets.panel_parts import section_head


class MarkPanel(QWidget):
    """Marks in order of run and time; those of deleted runs come back with them."""

    def __init__(self, controller: RunController, selection: Selection, themes: ThemeHolder) -> None:
        super().__init__()
        in_role(self, "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._controller = controller
        self._selection = selection
        self.list = LineList(themes)
        self.list.setAccessibleName("Marks")
        self.empty = EmptyState(
            "No marks yet",
            "M on the timeline marks what is selected, or the moment under the pointer; Shift+M writes a note on it. "
            "Marks are kept in the session.",
            "Mark it",
            does="mark",
        )
        self.empty.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        head = section_head("Marks")
        head.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        stacked(head, self.empty, (self.list, 1), on=self, margins=(0, GRID, 0, 0), spacing=GRID // 2)
        self.list.picked.connect(self._go_to)
        self.list.clicked.connect(lambda _index: self._go_to(self.list.current_key))
        self.list.menu_asked.connect(self._offer)
        delete = QShortcut(QKeySequence(Qt.Key.Key_Delete), self.list, self.delete_current)
        delete.setContext(Qt.ShortcutContext.WidgetShortcut)
        self._shown: list[Mark] | None = None
        controller.marks.changed.connect(self._fill)
        controller.runs_changed.connect(self._fill)
        self._fill()

    def _fill(self, *_: object) -> None:
        marks = [mark for mark in self._controller.marks.marks if mark.run_id in self._controller.runs]
        if marks == self._shown:
            return
        self._shown = marks
        self.list.show_lines([_line(mark) for mark in marks], self.list.current_key)
        self.list.setVisible(bool(marks))
        self.empty.setVisible(not marks)

    def _go_to(self, mark: object) -> None:
        if isinstance(mark, Mark):
            go_to(mark, self._controller.runs, self._selection)

    def delete_current(self) -> None:
        """Deletes the mark that is chosen in the list."""
        if isinstance(mark := self.list.current_key, Mark):
            self._controller.marks.delete(mark)

    def write_note(self, mark: Mark) -> None:
        """Asks for a mark's note."""
        title = f"Note on the mark at {time_text(mark.start_ns)}"
        note, is_given = QInputDialog.getText(self, title, "Note", text=mark.note)
        if is_given:
            self._controller.marks.write_note(mark, note[:LONGEST_NOTE])

    def _offer(self, mark: object, place: QPoint) -> None:
        if not isinstance(mark, Mark):
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for text, work in (
            ("Go to it", self._go_to),
            ("Write a note…", self.write_note),
            ("Delete the mark", self._controller.marks.delete),
        ):
            # Qt hands `checked` to whoever takes an argument.
            menu.addAction(text).triggered.connect(lambda _=False, work=work: work(mark))
        menu.popup(place)


def _line(mark: Mark) -> ListLine:
    length = mark.end_ns - mark.start_ns
    at = time_text(mark.start_ns)
    what = f"run {mark.run_id} · {f'{time_text(length)} long' if length else 'a moment'}"
    return ListLine(mark, mark.note or at, at if mark.note else "", second=what, tip=mark.note or f"{at}, {what}")
