"""Marks on the time axis: set, annotate, go to and delete; the panel that lists them."""

from __future__ import annotations

from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QInputDialog, QMenu, QWidget

from evprof.session.facts import LONGEST_NOTE, Mark
from evprof.view.timescale import time_text
from ui.state.run_controller import MarkBook, RunController, go_to
from ui.state.selection import Selection, TimeRange
from ui.style.theme import GRID, ThemeHolder
from ui.timeline.scene import TimelineScene
from ui.widgets.boxes import in_role, stacked
from ui.widgets.line_list import LineList, ListLine
from ui.widgets.panel_parts import EmptyState, section_head


def ask_note(book: MarkBook, mark: Mark, parent: QWidget) -> None:
    title = f"Note on the mark at {time_text(mark.start_ns)}"
    note, is_given = QInputDialog.getText(parent, title, "Note", text=mark.note)
    if is_given:
        book.write_note(mark, note[:LONGEST_NOTE])


class Marking(QObject):
    """What keys, flags and menus do to marks."""

    def __init__(self, scene: TimelineScene, controller: RunController, selection: Selection, ground: QWidget) -> None:
        super().__init__(ground)
        self._scene = scene
        self._controller = controller
        self._selection = selection
        self._ground = ground

    @property
    def book(self) -> MarkBook:
        return self._controller.marks

    def _place(self) -> Mark | None:
        """What is selected, else the pointer's moment; None where neither is on show."""
        chosen = self._selection.chosen
        when = self._scene.range_of(chosen)
        shown = [track.run.run_id for _, track in self._scene.shown]
        if not shown:
            return None
        if when is not None and chosen is not None and not isinstance(chosen, TimeRange):
            return self._mark_of(chosen.run_id, when)
        if when is None and self._scene.pointer_px is not None:
            t_ns = self._scene.scale.t(self._scene.pointer_px)
            when = TimeRange(t_ns, t_ns)
        return None if when is None else self._mark_of(shown[-1], when)

    def _new_place(self) -> Mark | None:
        """Where a new mark goes: what is selected or pointed at, else the middle of the view. Without a run it says
        what a mark needs."""
        shown = [track.run.run_id for _, track in self._scene.shown]
        if not shown:
            self.book.refused.emit("A mark belongs to a run: run a sample or choose a run first.")
            return None
        scale = self._scene.scale
        middle = (scale.start_ns + scale.end_ns) // 2
        return self._place() or self._mark_of(shown[-1], TimeRange(middle, middle))

    def _mark_of(self, run_id: int, when: TimeRange) -> Mark:
        """A stretch of the axis in the run's own time."""
        shift = self._scene.shift_of(run_id)
        return Mark(run_id, when.start_ns - shift, when.end_ns - shift)

    def mark(self) -> None:
        """Marks what is selected, the moment under the pointer, or the middle of the view."""
        place = self._new_place()
        if place is not None and any(_same(place, mark) for mark in self.book.marks):
            self.book.refused.emit("This place is marked already: Shift+M writes a note on it.")
        elif place is not None:
            self.book.add(place)

    def mark_at(self, t_ns: int, run_id: int | None = None) -> None:
        """Marks a moment of a run; None: of the one whose answer is shown."""
        shown = [track.run.run_id for _, track in self._scene.shown]
        if shown:
            self.book.add(self._mark_of(shown[-1] if run_id is None else run_id, TimeRange(t_ns, t_ns)))

    def write(self) -> None:
        """Writes a note on what is selected or pointed at or in the middle, which is marked first, if need be."""
        place = self._new_place()
        if place is None:
            return
        self.book.add(place)
        found = next((mark for mark in self.book.marks if _same(mark, place)), None)
        if found is not None:
            self.note(found)

    def note(self, mark: Mark) -> None:
        ask_note(self.book, mark, self._ground)

    def go_to(self, mark: Mark) -> None:
        go_to(mark, self._controller.runs, self._selection)

    def step(self, by: int) -> None:
        """Goes to the mark after (`by` 1) or before (-1) the middle of the view."""
        placed = sorted(self._scene.placed_marks(), key=lambda entry: entry[1])
        chosen = self._selection.time_range
        at = chosen.start_ns if chosen else (self._scene.scale.start_ns + self._scene.scale.end_ns) // 2
        ahead = [mark for mark, when in placed if (when.start_ns - at) * by > 0]
        if ahead:
            self.go_to(ahead[0 if by > 0 else -1])

    def delete(self) -> None:
        """Deletes the mark of what is selected, or the one nearest to the range or the pointer within a few px,
        whichever run it belongs to."""
        place, chosen = self._place(), self._selection.chosen
        if place is None:
            return
        at_ns = place.start_ns + self._scene.shift_of(place.run_id)
        is_of_run = chosen is not None and not isinstance(chosen, TimeRange)
        near = [
            (abs(when.start_ns - at_ns), mark.run_id != place.run_id, mark)
            for mark, when in self._scene.placed_marks()
            if mark.run_id == place.run_id or not is_of_run
        ]
        distance, _, found = min(near, key=lambda entry: entry[:2], default=(0, False, None))
        if found is not None and distance <= 8 * self._scene.scale.ns_per_px:
            self.book.delete(found)


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
        if isinstance(mark := self.list.current_key, Mark):
            self._controller.marks.delete(mark)

    def write_note(self, mark: Mark) -> None:
        ask_note(self._controller.marks, mark, self)

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
