"""Marks on the time axis: set and annotate them; the panel that lists them."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QInputDialog, QWidget

from evprof.session.facts import LONGEST_NOTE, Mark
from evprof.view.timescale import time_text
from ui.state.run_controller import MarkBook, RunController, go_to
from ui.state.selection import Selection, TimeRange
from ui.style.theme import GRID, ThemeHolder
from ui.timeline.scene import TimelineScene
from ui.widgets.boxes import in_role, stacked
from ui.widgets.choice_box import ChoiceMenu
from ui.widgets.line_list import LineList, ListLine
from ui.widgets.panel_parts import EmptyState, section_head


def ask_note(book: MarkBook, mark: Mark, parent: QWidget) -> None:
    title = f"Note on the mark at {time_text(mark.start_ns)}"
    note, is_given = QInputDialog.getText(parent, title, "Note", text=mark.note)
    if is_given:
        book.write_note(mark, note[:LONGEST_NOTE])


class Marking:
    def __init__(self, scene: TimelineScene, controller: RunController, selection: Selection, ground: QWidget) -> None:
        self._scene = scene
        self._controller = controller
        self._selection = selection
        self._ground = ground
        self.book = controller.marks

    def _place(self) -> Mark | None:
        """The selection, or the pointer's moment, or the middle of the view, in the time of its run."""
        chosen, scale = self._selection.chosen, self._scene.scale
        when, pointer_px = self._scene.range_of(chosen), self._scene.pointer_px
        shown = [track.run.run_id for _, track in self._scene.shown]
        if not shown:
            self.book.refused.emit("A mark belongs to a run: run a sample or choose a run first.")
            return None
        run_id = shown[-1] if when is None or chosen is None or isinstance(chosen, TimeRange) else chosen.run_id
        if when is None:
            t_ns = scale.t(scale.width_px / 2 if pointer_px is None else pointer_px)
            when = TimeRange(t_ns, t_ns)
        return self._mark_of(run_id, when)

    def _mark_of(self, run_id: int, when: TimeRange) -> Mark:
        shift = self._scene.shift_of(run_id)
        return Mark(run_id, when.start_ns - shift, when.end_ns - shift)

    def mark(self) -> None:
        """Marks the selection, the moment under the pointer, or the middle of the view."""
        if (place := self._place()) is not None:
            self.book.add(place)

    def mark_at(self, t_ns: int, run_id: int | None = None) -> None:
        """Marks a moment of a run; None: of the last shown one."""
        shown = [track.run.run_id for _, track in self._scene.shown]
        if shown:
            self.book.add(self._mark_of(shown[-1] if run_id is None else run_id, TimeRange(t_ns, t_ns)))

    def write(self) -> None:
        """Sets a mark as `mark` does, and asks for a note on it."""
        if (place := self._place()) is not None:
            self.book.add(place)
            if (mark := next((mark for mark in self.book.marks if _same(mark, place)), None)) is not None:
                self.note(mark)

    def note(self, mark: Mark) -> None:
        ask_note(self.book, mark, self._ground)

    def go_to(self, mark: Mark) -> None:
        go_to(mark, self._controller.runs, self._selection)


def _same(mark: Mark, other: Mark) -> bool:
    return (mark.run_id, mark.start_ns, mark.end_ns) == (other.run_id, other.start_ns, other.end_ns)


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
        self.list.menu_asked.connect(self._offer)
        self.list.deleted.connect(controller.marks.delete)
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

    def _go_to(self, mark: Mark) -> None:
        go_to(mark, self._controller.runs, self._selection)

    def _offer(self, mark: Mark | None, place: QPoint) -> None:
        if mark is None:
            return
        menu = ChoiceMenu(self)
        menu.addAction("Go to it", partial(self._go_to, mark))
        menu.addAction("Write a note…", partial(ask_note, self._controller.marks, mark, self))
        menu.addAction("Delete the mark", partial(self._controller.marks.delete, mark))
        menu.popup(place)


def _line(mark: Mark) -> ListLine:
    length = mark.end_ns - mark.start_ns
    at = time_text(mark.start_ns)
    what = f"run {mark.run_id} · {f'{time_text(length)} long' if length else 'a moment'}"
    return ListLine(mark, mark.note or at, at if mark.note else "", second=what, tip=mark.note or f"{at}, {what}")
