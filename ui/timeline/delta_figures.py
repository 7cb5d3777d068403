"""Works out how much longer each stage of B is than A's, from the runs that the columns stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from evprof.core.run_log import RunLog
from evprof.metrics.comparison.stage_deltas import StageDelta, stage_deltas
from evprof.run.kept_repeatability import spread_for
from evprof.view.columns import ShownModel, columns_of
from ui.state.cells import configuration_of
from ui.state.newest_errand import MANY_RUNS, NewestErrand
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.timeline.delta_lane import DeltaLane
from ui.widgets.pace import Pace

if TYPE_CHECKING:
    from evprof.metrics.comparison.document import Configuration

INTERVAL_MS = 250


class DeltaFigures(QObject):
    """Fills the lane; at most four times a second while a run goes on."""

    def __init__(self, controller: RunController, selection: Selection, lane: DeltaLane) -> None:
        super().__init__(lane)
        self._controller = controller
        self._selection = selection
        self._lane = lane
        self._known: object = None
        self._pace = Pace(INTERVAL_MS, self.look, self)
        self.errand = NewestErrand("evprof-stage-deltas", self)
        self.errand.done.connect(self._show)
        controller.runs_changed.connect(self._note)
        selection.runs_changed.connect(self.look)

    def _note(self, run_ids: set[int]) -> None:
        if self._lane.is_wanted() and run_ids.intersection(self._selection.runs):
            self._pace.follow()

    def look(self, *_: object) -> None:
        """Works them out anew where something that counts has changed."""
        self._pace.begin()
        a, b = columns_of(self._controller.runs, self._selection.runs)
        if a is None or b is None or a.run is b.run:
            self._known = None
            self.errand.forget()
            self._lane.show_deltas(())
            return
        one, two = self._stands_for(a), self._stands_for(b)
        known = tuple(_ended(run) for side in (one, two) for run in side.runs)
        if known == self._known:
            return
        self._known = known
        if len(one.runs) + len(two.runs) > MANY_RUNS:
            self.errand.ask(lambda: _deltas(one, two))
        else:
            self.errand.forget()
            self._lane.show_deltas(_deltas(one, two))

    def _stands_for(self, column: ShownModel) -> Configuration:
        runs, of_cell = self._controller.runs, self._selection.of_cells
        from evprof.metrics.comparison.document import Configuration

        return configuration_of(runs, column, of_cell=of_cell) or Configuration((column.run,))

    def _show(self, deltas: list[StageDelta] | None) -> None:
        self._lane.show_deltas(deltas or ())


def _deltas(one: Configuration, two: Configuration) -> list[StageDelta]:
    return stage_deltas(one, two, spread_for(one.runs[0]))


def _ended(run: RunLog) -> tuple[object, ...]:
    """What the figures of a run depend on; the rows of one that is over may lie in a file, and are not asked for."""
    if run.info.is_over:
        return id(run), run.version
    return (id(run), *((span.span_id, span.start_ns, span.end_ns) for span in run.stages()))
