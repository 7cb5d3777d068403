"""The runs of this session; a click puts a run, or the pair that ran side by side, into the columns."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QElapsedTimer, QPoint, Qt, QTimer
from PySide6.QtWidgets import QMenu, QVBoxLayout, QWidget

from evprof.view.columns import pair_for
from ui.models.run_entries import RunEntry, entries
from ui.run_controller import RunController
from ui.selection import Selection
from ui.theme import GRID, ThemeHolder
from ui.views.empty_state import EmptyState
from ui.views.line_list import Line, LineList
from ui.views.panel_parts import section_head

INTERVAL_MS = 150


class RunList(QWidget):
    """Newest first. The context menu puts a run into one column and leaves the other, to compare any two."""

    def __init__(
        self, selection: Selection, controller: RunController, themes: ThemeHolder, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._selection = selection
        self._controller = controller
        self._age = QElapsedTimer()
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.timeout.connect(self._fill)
        self.list = LineList(themes)
        self.list.setAccessibleName("Runs in this session")
        self._empty = EmptyState(
            "No runs yet", "Every run is kept here and saved as it goes. Choose a mode, press Run."
        )
        self._empty.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        head = section_head("Runs in this session")
        head.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, GRID, 0, 0)
        column.setSpacing(GRID // 2)
        column.addWidget(head)
        column.addWidget(self._empty)
        column.addWidget(self.list, 1)
        self.list.picked.connect(self._choose)
        self.list.menu_asked.connect(self._offer)
        selection.runs_changed.connect(self._fill)
        self._fill()

    def refresh(self) -> None:
        """Notes that runs have changed; the list follows a few times a second."""
        if not self._age.isValid() or self._age.elapsed() >= INTERVAL_MS:
            self._fill()
        elif not self._later.isActive():
            self._later.start(INTERVAL_MS)

    def _fill(self, *_: object) -> None:
        self._age.start()
        found = entries(self._controller.runs)
        shown = {run_id for run_id in self._selection.runs if run_id is not None}
        current = next((entry.run_ids for entry in found if shown & set(entry.run_ids)), None)
        self.list.show_lines([_line(entry) for entry in found], current)
        self.list.setVisible(bool(found))
        self._empty.setVisible(not found)

    def _choose(self, key: object) -> None:
        if isinstance(key, tuple) and key[0] in self._controller.runs:
            self._selection.set_runs(*pair_for(self._controller.runs, key[0]))

    def _offer(self, key: object, place: QPoint) -> None:
        """A menu to put each run of a line into column A or B."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for run_id in key if isinstance(key, tuple) else ():
            for side, name in enumerate("AB"):
                action = menu.addAction(f"Show run {run_id} in column {name}")
                action.triggered.connect(partial(self.put, run_id, side))
        menu.popup(place)

    def put(self, run_id: int, side: int, *_: object) -> None:
        """Puts a run into column A (0) or B (1) and leaves the other column as it is."""
        a, b = self._selection.runs
        self._selection.set_runs(*((run_id, b) if side == 0 else (a, run_id)))


def _line(entry: RunEntry) -> Line:
    return Line(
        entry.run_ids,
        entry.title,
        entry.outcome,
        entry.role,
        entry.sentence or entry.label,
        entry.tip,
        is_live=entry.is_running,
        second_has_role=bool(entry.sentence),
    )
