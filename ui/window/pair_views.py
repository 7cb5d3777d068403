"""What the window shows of the runs in its columns: inputs, answers and figures."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from evprof.core.sample import Sample
from evprof.view.columns import ShownModel, columns_of
from ui.columns.model_pair import ModelPair
from ui.runs.inspector import Inspector
from ui.runs.pair_figures import ComparisonPanel
from ui.runs.speculation_panel import SpeculationPanel
from ui.state.cells import configuration_of, speculative_run
from ui.state.run_controller import RunController
from ui.state.selection import Selection


class PairViews(QObject):
    """Shows the runs of the selection in `pair`, `comparison`, `speculation` and `inspector`, and follows them.

    `follow` is called with the sample of the shown runs.
    """

    def __init__(
        self,
        controller: RunController,
        selection: Selection,
        pair: ModelPair,
        panels: tuple[ComparisonPanel, SpeculationPanel, Inspector],
        follow: Callable[[Sample], object],
    ) -> None:
        super().__init__(pair)
        self._controller, self._selection, self._pair = controller, selection, pair
        self._comparison, self._speculation, self._inspector = panels
        self._follow = follow
        selection.runs_changed.connect(self.show)

    def show(self, *_: object) -> None:
        """Shows the runs of the selection."""
        a, b = self._columns()
        self._pair.show_columns(a, b)
        if (shown := b or a) is not None:
            self._follow(shown.run.info.sample)
        self._show_comparison()
        self._show_speculation()

    def refresh(self, run_ids: set[int]) -> None:
        """Takes in the new rows of runs: inputs and answers."""
        if not run_ids.intersection(self._selection.runs):
            return
        shown = self._pair.left.column, self._pair.right.column
        if any(before is None and now is not None for before, now in zip(shown, self._columns(), strict=True)):
            self.show()
        self._pair.refresh()

    def refresh_figures(self, run_ids: set[int]) -> None:
        """Works the figures out again; the end of any run can change what the shown runs are compared with."""
        runs = self._controller.runs
        is_shown = bool(run_ids.intersection(self._selection.runs))
        if is_shown or any(run_id not in runs or runs[run_id].info.is_over for run_id in run_ids):
            self._show_comparison()
            self._show_speculation()
        if is_shown:
            self._inspector.refresh()

    def _show_comparison(self) -> None:
        runs, of_cell = self._controller.runs, self._selection.of_cells
        a, b = self._columns()
        cells = (configuration_of(runs, a, of_cell=of_cell), configuration_of(runs, b, of_cell=of_cell))
        self._comparison.show_columns(a, b, cells)

    def _show_speculation(self) -> None:
        run = speculative_run([self._controller.run(run_id) for run_id in self._selection.runs])
        self._speculation.show_run(run, self._controller.runs)

    def _columns(self) -> tuple[ShownModel | None, ShownModel | None]:
        return columns_of(self._controller.runs, self._selection.runs)
