"""The runs of this session; a click puts a run, or the pair that ran side by side, into the columns."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMenu, QWidget

from evprof.view.columns import pair_for
from ui.runs.run_entries import CELL, RunEntries, RunEntry
from ui.state.cells import typical_pair
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.empty_state import EmptyState
from ui.widgets.line_list import LineList, ListLine
from ui.widgets.pace import Pace
from ui.widgets.panel_parts import section_head

INTERVAL_MS = 150


class RunList(QWidget):
    """Newest first. The context menu puts a run into one column and leaves the other, to compare any two.

    A cell of a suite or an import is one line that opens to its runs; choosing it shows its typical run, and its
    statistics in the comparison.
    """

    def __init__(
        self, selection: Selection, controller: RunController, themes: ThemeHolder, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._selection = selection
        self._controller = controller
        self._entries = RunEntries()
        self._lines: dict[object, tuple[RunEntry, ListLine]] = {}
        self._opened: set[str] = set()
        self._later = Pace(INTERVAL_MS, self._fill, self)
        self.list = LineList(themes)
        self.list.setAccessibleName("Runs in this session")
        self._empty = EmptyState(
            "No runs yet", "Every run is kept here and saved as it goes. Choose a mode, press Run."
        )
        self._empty.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        head = section_head("Runs in this session")
        head.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        stacked(head, self._empty, (self.list, 1), on=self, margins=(0, GRID, 0, 0), spacing=GRID // 2)
        self.list.picked.connect(self._choose)
        self.list.menu_asked.connect(self._offer)
        self.list.fold_asked.connect(self._fold)
        selection.runs_changed.connect(self._fill)
        controller.session_replaced.connect(self._forget)
        self._fill()

    def refresh(self) -> None:
        """Notes that runs have changed; the list follows a few times a second."""
        self._later.follow()

    def _fill(self, *_: object) -> None:
        self._later.begin()
        found = self._entries.lines(self._controller.runs, self._opened)
        self.list.show_lines([self._line(entry) for entry in found], self._current(found))
        self.list.setVisible(bool(found))
        self._empty.setVisible(not found)

    def _current(self, found: list[RunEntry]) -> object:
        """The line of what the columns show: a cell's, or a run's where that is listed."""
        shown = {run_id for run_id in self._selection.runs if run_id is not None}
        if not shown:
            return None
        if self._selection.cell:
            return (CELL, self._selection.cell)
        near = [entry for entry in found if not shown.isdisjoint(entry.run_ids)]
        return next((entry.key for entry in sorted(near, key=lambda entry: bool(entry.fold))), None)

    def _line(self, entry: RunEntry) -> ListLine:
        known = self._lines.get(entry.key)
        if known is None or known[0] is not entry:
            known = self._lines[entry.key] = (entry, _line(entry))
        return known[1]

    def _forget(self) -> None:
        self._entries = RunEntries()
        self._lines.clear()
        self._opened.clear()

    def _fold(self, key: object, opens: bool) -> None:
        """Shows the runs of a cell below it, or puts them away."""
        if isinstance(key, tuple):
            (self._opened.add if opens else self._opened.discard)(str(key[1]))
            self._fill()

    def _choose(self, key: object) -> None:
        if not isinstance(key, tuple):
            return
        if key[0] == CELL:
            self._selection.set_runs(*typical_pair(self._controller.runs, key[1]), cell=str(key[1]))
        elif key[0] in self._controller.runs:
            self._selection.set_runs(*pair_for(self._controller.runs, key[0]))

    def _offer(self, key: object, place: QPoint) -> None:
        """A menu to put each run of a line into column A or B."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        run_ids = key if isinstance(key, tuple) and key[0] != CELL else ()
        for run_id in run_ids:
            for side, name in enumerate("AB"):
                action = menu.addAction(f"Show run {run_id} in column {name}")
                action.triggered.connect(partial(self.put, run_id, side))
        if run_ids:
            menu.popup(place)

    def put(self, run_id: int, side: int, *_: object) -> None:
        """Puts a run into column A (0) or B (1) and leaves the other column as it is."""
        a, b = self._selection.runs
        self._selection.set_runs(*((run_id, b) if side == 0 else (a, run_id)))


def _line(entry: RunEntry) -> ListLine:
    return ListLine(
        entry.key,
        entry.title,
        entry.outcome,
        entry.role or ("bad" if entry.sentence and entry.fold and not entry.outcome else ""),
        entry.sentence or entry.label,
        entry.tip,
        is_live=entry.is_running,
        second_has_role=bool(entry.sentence) and not entry.fold,
        fold=entry.fold,
        is_inner=entry.is_inner,
    )
