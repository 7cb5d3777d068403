"""What the window shows of the runs in its columns: inputs, answers and figures, and in which order."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from evprof.core.sample import Sample
from evprof.run.processes.giving_way import WINDOW
from evprof.view.columns import ShownModel, columns_of
from ui.columns.model_pair import ModelPair
from ui.run_facts.pieces import Pieces
from ui.runs.inspector import Inspector
from ui.runs.pair_figures import ComparisonPanel
from ui.runs.speculation_panel import SpeculationPanel
from ui.state.cells import configuration_of, speculative_run
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.widgets.pace import Pace
from ui.widgets.piecework import Piecework

SOON_MS = 40
"""After the first picture of a run on the timeline, which comes lane by lane, all else follows."""


class PairViews(QObject):
    """Shows the runs of the selection in `pair`, `comparison`, `speculation` and `inspector`, and follows them.

    `follow` is told the sample of the runs that are shown.
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
        self._soon = Pace(SOON_MS, self._begin, self, answers=True)
        self._figures_soon = Pace(SOON_MS, self.show_figures, self, answers=True)
        self._pieces = Piecework(self)
        self._pieces.done.connect(self._end_pieces)
        selection.runs_changed.connect(self.show_soon)

    @property
    def is_busy(self) -> bool:
        """Whether something is yet to be shown."""
        return self._soon.isActive() or self._figures_soon.isActive() or self._pieces.is_busy

    def show_soon(self, *_: object) -> None:
        """When a run has just begun, the timeline changes now and all else a moment later: one picture of everything
        would hold the window up."""
        runs = [self._controller.run(run_id) for run_id in self._selection.runs]
        if not self._controller.is_busy or all(run is None or run.info.is_over for run in runs):
            self.show()
        elif not self._soon.isActive() and not self._pieces.is_busy:  # every look asks: it would be put off for ever
            self._soon.begin()
            self._soon.note()

    def show(self) -> None:
        """Shows them now."""
        self._soon.stop()
        self._pieces.forget()
        self._pair.show_columns(*self._columns())
        self._show_rest()

    def show_figures(self) -> None:
        """What the runs in the columns stand for, and what they are weighed against, may grow with every run's end."""
        self._figures_soon.stop()
        runs, of_cell = self._controller.runs, self._selection.of_cells
        a, b = self._columns()
        cells = (configuration_of(runs, a, of_cell=of_cell), configuration_of(runs, b, of_cell=of_cell))
        self._comparison.show_columns(a, b, cells)
        self._show_speculation()

    def refresh(self, run_ids: set[int]) -> None:
        """Takes in what is new of these runs."""
        runs = self._controller.runs
        if any(run_id not in runs or runs[run_id].info.is_over for run_id in run_ids):
            self.show_figures()
        if not run_ids.intersection(self._selection.runs):
            return
        if self._has_missing_column():
            self.show_soon()
        self._pair.refresh()
        self._comparison.refresh()
        self._inspector.refresh()
        self._show_speculation()

    def _begin(self) -> None:
        self._soon.begin()
        self._pieces.begin(self._in_pieces())

    def _in_pieces(self) -> Pieces[None]:
        """First the room for the pair, then, with pictures of the window in between, what stands in it."""
        if self._pair.make_room():
            yield
        yield from self._pair.columns_in_pieces(*self._columns())

    def _end_pieces(self, *_: object) -> None:
        if self._shown() == self._columns():
            self._show_rest()
        else:  # others were chosen meanwhile
            self.show_soon()

    def _show_rest(self) -> None:
        a, b = self._columns()
        if (shown := b or a) is not None:
            self._follow(shown.run.info.sample)
        if WINDOW.is_sparing:
            self._figures_soon.begin()
            self._figures_soon.note()
        else:
            self.show_figures()

    def _columns(self) -> tuple[ShownModel | None, ShownModel | None]:
        return columns_of(self._controller.runs, self._selection.runs)

    def _shown(self) -> tuple[ShownModel | None, ShownModel | None]:
        return self._pair.left.column, self._pair.right.column

    def _has_missing_column(self) -> bool:
        both = zip(self._shown(), self._columns(), strict=True)
        return any(found is None and column is not None for found, column in both)

    def _show_speculation(self) -> None:
        run = speculative_run([self._controller.run(run_id) for run_id in self._selection.runs])
        self._speculation.show_run(run, self._controller.runs)
