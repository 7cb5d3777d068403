"""The runs of this session; a click puts a run, or the pair that ran side by side, into the columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import QMimeData, QPoint, Qt, Signal
from PySide6.QtWidgets import QLineEdit, QMenu, QWidget

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.run.requests import request_again, requests_beside
from evprof.view.columns import pair_for
from ui.runs.run_entries import CELL, OPEN, REPEATS, FoldKey, RunEntries, Slot
from ui.runs.run_remarks import BOTH_IN_TURNS, RunRemarks, baseline_menu
from ui.state.cells import typical_pair, typical_repeat
from ui.state.run_controller import RunController
from ui.state.run_following import dragged, matching, put_run
from ui.state.selection import Selection
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.line_list import LineList, ListLine, PagedLines
from ui.widgets.panel_parts import EmptyState, section_head

MOST_MADE = 500
"""Lines of a longer list are made when they come into sight."""

_NO_RUNS = "No runs yet", "Every run is kept here and saved as it goes. Choose a mode, press Run."
_NO_MATCH = "No such run", "No run holds all of these words; clear the field to see every run."

AGAIN = "Run again with these settings"

MANY_LINES = 8
"""A list as long as this has a field to look for runs in."""


class RunList(QWidget):
    """Newest first. Runs are dragged onto a column, clicked with Ctrl to stand beside the one clicked before, or put
    there by their menu, which also names, notes and deletes them.

    A cell of a suite or an import, and the repeats of one request, are one line that opens to its runs; choosing it
    shows its typical run, and its statistics in the comparison.

    Signals:
        measuring_asked(object): a list of RunRequest whose runs are wanted beside what is shown.
        run_asked(): the current request is to be run.
    """

    measuring_asked = Signal(object)
    run_asked = Signal()

    def __init__(
        self, selection: Selection, controller: RunController, themes: ThemeHolder, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._selection = selection
        self._controller = controller
        self.remarks = RunRemarks(controller, selection, self)
        self._entries = RunEntries()
        self._shown: dict[object, Slot] = {}
        self._opened: set[FoldKey] = set()
        self._activity = ""
        self._picked: object = None
        self.list = LineList(themes)
        self.list.setAccessibleName("Runs in this session")
        self.list.mime_of = self._drag
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter runs")
        self.filter.setAccessibleName("Filter runs")
        self.filter.setToolTip("Words of a run's name, mode, note, settings, sample, model or outcome (Ctrl+Shift+F)")
        self.filter.setClearButtonEnabled(True)
        self.filter.textChanged.connect(self.refresh)
        self.filter.hide()
        self._empty = EmptyState(*_NO_RUNS)
        self._empty.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        head = section_head("Runs in this session")
        head.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        field = stacked(self.filter, margins=(2 * GRID, 0, GRID, 0))
        stacked(head, field, self._empty, (self.list, 1), on=self, margins=(0, GRID, 0, 0), spacing=GRID // 2)
        self.list.picked.connect(self._choose)
        self.list.joined.connect(self._join)
        self.list.menu_asked.connect(self._offer)
        self.list.chip_asked.connect(self._offer_baseline)
        self.list.fold_asked.connect(self._fold)
        self.list.deleted.connect(self._delete)
        selection.runs_changed.connect(self.refresh)
        controller.session_replaced.connect(self._forget)
        self.refresh()

    def refresh(self, *_: object) -> None:
        """Shows what has changed of the runs."""
        runs, wanted = self._controller.runs, self.filter.text()
        slots = self._entries.slots(runs, self._opened, wanted)
        self._shown = {slot.key: slot for slot in slots}
        if len(slots) > MOST_MADE:
            lines: Sequence[ListLine] = PagedLines(list(self._shown), lambda row: self._line(slots[row]))
        else:
            lines = [self._line(slot) for slot in slots]
        self.list.show_lines(lines, self._current(slots))
        outer = sum(not slot.is_inner for slot in slots)
        self.filter.setVisible(bool(wanted) or self.filter.hasFocus() or outer >= MANY_LINES)
        self.list.setVisible(bool(slots))
        self._empty.setVisible(not slots)
        self._empty.say(*(_NO_MATCH if runs else (f"{self._activity} …", "") if self._activity else _NO_RUNS))

    def wait(self, activity: str) -> None:
        """Says what goes on in place of an empty list; "" for nothing."""
        self._activity = activity
        self.refresh()

    def look_for(self) -> None:
        """Brings the field to look for runs in, and writes into it."""
        self.filter.show()
        self.filter.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _current(self, slots: Sequence[Slot]) -> object:
        """The line of what the columns show: a cell's, or a run's where that is listed."""
        shown = {run_id for run_id in self._selection.runs if run_id is not None}
        if not shown:
            return None
        if self._selection.cell:
            return (CELL, self._selection.cell)
        near = [slot for slot in slots if not shown.isdisjoint(slot.run_ids)]
        if any(slot.key == self._picked for slot in near):
            return self._picked
        # A run itself before the line that it lies below.
        return next((slot.key for slot in sorted(near, key=lambda slot: slot.key != slot.run_ids)), None)

    def _line(self, slot: Slot) -> ListLine:
        """The line of a slot, with the letters of the columns that show it; an open group leaves these to its runs."""
        line, shown = slot.make(), zip("AB", self._selection.runs, strict=True)
        column = "".join(letter for letter, run_id in shown if run_id in slot.run_ids) if line.fold != OPEN else ""
        return replace(line, column=column) if column else line

    def _forget(self) -> None:
        self._entries = RunEntries()
        self._opened.clear()
        self.filter.clear()

    def _fold(self, key: object, opens: bool) -> None:
        """Shows the runs of a cell or a request below its line, or puts them away."""
        if isinstance(key, tuple):
            (self._opened.add if opens else self._opened.discard)((str(key[0]), str(key[1])))
            self.refresh()

    # What is shown.

    def _choose(self, key: object) -> None:
        if not isinstance(key, tuple):
            return
        self._picked = key
        runs = self._controller.runs
        if key[0] == CELL:
            self._selection.set_runs(*typical_pair(runs, key[1]), cell=str(key[1]))
            return
        run_id = typical_repeat(runs, self._ids(key)) if key[0] == REPEATS else key[0]
        if run_id in runs:
            a, b = pair_for(runs, run_id)
            self._selection.set_runs(a, b)

    def _join(self, key: object) -> None:
        """Shows a line beside the one that was picked before: that one is A, this one B."""
        runs, before = self._controller.runs, self._ids(self.list.current_key)
        if not before or key == self.list.current_key:
            self._choose(key)
            return
        second = matching(runs, self._of_line(key), before[-1])
        first = matching(runs, self._of_line(self.list.current_key), second)
        cells = [entry for entry in (key, self.list.current_key) if isinstance(entry, tuple) and entry[0] == CELL]
        self._selection.set_runs(first, second, cell=str(cells[0][1]) if len(cells) == 2 else "")

    def put(self, key: object, side: int) -> None:
        """Puts the run of a line into column A (0) or B (1) and leaves the other column as it is."""
        is_alone = self._selection.runs[1 - side] is None
        of_cell = isinstance(key, tuple) and key[0] == CELL and (is_alone or self._selection.of_cells)
        put_run(self._selection, self._controller.runs, self._of_line(key), side, of_cell=of_cell)

    def _of_line(self, key: object) -> Sequence[int]:
        """The runs to show of a line: of many alike a typical one, with its other half."""
        runs = self._controller.runs
        own = self._ids(key)
        if not own or not isinstance(key, tuple) or key[0] not in (CELL, REPEATS):
            return own
        pair = typical_pair(runs, str(key[1])) if key[0] == CELL else pair_for(runs, typical_repeat(runs, own))
        # A file may tell of two models in one row, of which each has a cell of its own.
        return [run_id for run_id in dict.fromkeys(pair) if run_id in own] or own[-1:]

    def _ids(self, key: object) -> tuple[int, ...]:
        """All runs of a line."""
        slot = self._shown.get(key)
        return () if slot is None else slot.run_ids

    def _drag(self, key: object) -> QMimeData | None:
        run_ids = self._of_line(key)
        return dragged(run_ids) if run_ids else None

    # What can be done with runs.

    def deeds(self) -> dict[str, Callable[[], object]]:
        """What actions of the window do with the chosen line, by the action's name."""
        return {
            "run_as_a": lambda: self.put(self.list.current_key, 0),
            "run_as_b": lambda: self.put(self.list.current_key, 1),
            "rename_run": lambda: self.remarks.ask_name(self.current_ids()),
            "note_run": lambda: self.remarks.ask_note(self.current_ids()),
            "delete_run": lambda: self.remarks.delete(self.current_ids()),
            "restore_runs": lambda: self.remarks.restore(list(self._controller.book.deleted)),
            "weigh_run": lambda: self._with_shown(self.offer_baseline),
            "run_alone": lambda: self._with_shown(self.measure_in_turns),
            "filter_runs": self.look_for,
        }

    def _with_shown(self, work: Callable[[RunLog], object]) -> None:
        """Does something with the run of the columns, or of the chosen line, that is weighed against plain ones."""
        shown = [run_id for run_id in self._selection.runs if run_id is not None]
        run = self._drafting(shown) or self._drafting(self.current_ids())
        if run is not None:
            work(run)
        else:
            self.remarks.post("Choose a run that drafts first; others are weighed against nothing.", "info", "", None)

    def current_ids(self) -> tuple[int, ...]:
        """The runs of the chosen line."""
        return self._ids(self.list.current_key)

    def _delete(self, key: object) -> None:
        self.remarks.delete(self._ids(key))

    def _offer(self, key: object, place: QPoint) -> None:
        self.menu_of(key).popup(place)

    def menu_of(self, key: object) -> QMenu:
        """What can be done with a line's runs; without one, with the list."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        run_ids, runs = self._ids(key), self._controller.runs
        if run_ids:
            for side, name in enumerate("AB"):
                menu.addAction(f"Show as {name}").triggered.connect(lambda _=False, side=side: self.put(key, side))
            again = menu.addAction(AGAIN)
            again.setEnabled(isinstance(key, tuple) and key[0] != CELL and self._is_measured(run_ids))
            again.triggered.connect(lambda: self.run_again(key))
            menu.addSeparator()
            menu.addAction("Rename…").triggered.connect(lambda: self.remarks.ask_name(run_ids))
            menu.addAction("Note…").triggered.connect(lambda: self.remarks.ask_note(run_ids))
            deleting = menu.addAction("Delete" if len(run_ids) == 1 else f"Delete {len(run_ids)} runs")
            deleting.setEnabled(any(runs[run_id].info.is_over for run_id in run_ids if run_id in runs))
            deleting.triggered.connect(lambda: self.remarks.delete(run_ids))
            menu.addSeparator()
            if drafting := self._drafting(run_ids):
                menu.addMenu(self._baseline_menu(drafting, "Weigh against", menu))
                menu.addAction(BOTH_IN_TURNS).triggered.connect(lambda: self._measure_in_turns_of(key, drafting))
                menu.addSeparator()
        menu.addAction("Filter runs…").triggered.connect(self.look_for)
        deleted = list(self._controller.book.deleted)
        bringing = menu.addAction("Bring deleted runs back" + (f" ({len(deleted)})" if deleted else ""))
        bringing.setEnabled(bool(deleted))
        bringing.triggered.connect(lambda: self.remarks.restore(deleted))
        return menu

    def _drafting(self, run_ids: Sequence[int]) -> RunLog | None:
        """The run of a line that is weighed against plain ones, if there is one."""
        found = (self._controller.run(run_id) for run_id in reversed(run_ids))
        return next((run for run in found if run is not None and mode_of(run.info.mode).drafts), None)

    def _baseline_menu(self, run: RunLog, title: str = "", parent: QWidget | None = None) -> QMenu:
        from evprof.metrics.configurations.baselines import repeats_of

        runs = self._controller.runs
        measure = None if title else (lambda: self.measure_in_turns(run))
        menu = baseline_menu(repeats_of(run, runs.values()), list(runs.values()), self.remarks, measure, parent or self)
        menu.setTitle(title)
        return menu

    def _offer_baseline(self, key: object, place: QPoint) -> None:
        if (run := self._drafting(self._ids(key))) is not None:
            self.offer_baseline(run, place)

    def offer_baseline(self, run: RunLog, place: QPoint | None = None) -> None:
        """The menu of what a run is weighed against."""
        self._baseline_menu(run).popup(place or self.list.mapToGlobal(QPoint(2 * GRID, 2 * GRID)))

    def _is_measured(self, run_ids: Sequence[int]) -> bool:
        """Whether runs were measured here, so that they can be measured again."""
        found = (self._controller.run(run_id) for run_id in run_ids)
        return all(run is not None and run.info.imported is None for run in found)

    def run_again(self, key: object) -> None:
        """Makes the request of a line current, shows the line, and asks for its run, as often as it was repeated."""
        if (run := self._controller.run(self._ids(key)[-1])) is None:
            return
        members = [other.info for other in self._controller.runs.values() if other.info.group_id == run.info.group_id]
        request = request_again(run, run.info.mode, max(info.repeat for info in members) + 1)
        models = {role: choice for role in request.roles if (choice := getattr(request, role)) is not None}
        current = self._selection.current
        measuring = {**current.now.measuring, "repeat": request.repeat}
        self._choose(key)
        current.take_request(
            request.sample, mode=request.mode, settings=request.settings, measuring=measuring, **models
        )
        self.run_asked.emit()

    def _measure_in_turns_of(self, key: object, run: RunLog) -> None:
        """The same of a line that need not be shown: it comes into view first."""
        if run.run_id not in self._selection.runs:
            self._choose(key)
        self.measure_in_turns(run)

    def measure_in_turns(self, run: RunLog) -> None:
        """Asks for turns of what a run was asked and of the target alone."""
        self.measuring_asked.emit(requests_beside(run))
