"""The distributions window: how the times between tokens spread, and which drafted positions were accepted."""

from __future__ import annotations

from functools import partial

from PySide6.QtWidgets import QWidget

from evprof.view.columns import columns_of
from evprof.view.distributions import PlaceOutcomes
from ui.distributions.figures import PERCENTILES, Distributions, Pool, distributions, figures, pools, speculative
from ui.state.newest_errand import MANY_RUNS, NewestErrand
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.empty_state import EmptyState
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.following_dialog import FollowingDialog
from ui.widgets.panel_parts import say, section_head, sentence
from ui.widgets.plots import AcceptancePlot, Curve, LatencyPlot

_TIMES = "Share of tokens that came within a time of the token before. The first token of a run is not among them."
_TOGETHER = (
    "Tokens of one round arrive together: one counts the whole wait, the others 0 ms, as in all figures. "
    "0 ms has no place on this axis, so the curve begins at their share."
)
_READING = "The runs are being read …"
_NO_TIMES = "The curve begins with a run's second token."
_NOT_IN_FILE = "The imported file does not tell when each token came."
_POSITIONS = "accepted / drafted at each position over all rounds; none is accepted after a round's first rejection."
_NOT_SPECULATIVE = (
    "Which share of the tokens drafted at each position was accepted. A speculative run fills this: run or choose one."
)
_NO_ROUNDS = "This fills with the first verified round."


class DistributionsDialog(FollowingDialog):
    """Follows the window's two columns and the runs in them. Does not block the window."""

    heading = "Distributions"
    _key: object = None

    def make_views(self, themes: ThemeHolder) -> None:
        """Its parts."""
        self.errand = NewestErrand("evprof-distributions", self)
        self.errand.done.connect(self._show)
        self.empty = EmptyState(
            "No distributions yet",
            "How long each token took, and which drafted tokens were accepted, appear here. Run a sample, or choose a "
            "run on the left of the window.",
        )
        self.table = FigureTable(themes)
        self.table.setAccessibleName("Time per token")
        self.times = LatencyPlot(themes)
        self.times_caption = sentence("small")
        self.acceptance = AcceptancePlot(themes)
        self.acceptance_caption = sentence("small")
        self.rest = QWidget()  # keeps together at the top what is said in place of both plots
        self.body = QWidget()
        stacked(
            section_head("Time per token"),
            self.table,
            (self.times, 3),
            self.times_caption,
            GRID,
            section_head("Accepted drafts by position"),
            (self.acceptance, 2),
            self.acceptance_caption,
            (self.rest, 1),
            on=self.body,
            spacing=GRID // 2,
        )
        stacked(self.empty, (self.body, 1), on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID))

    def show_runs(self) -> None:
        """Shows the columns as they are now; cheap when nothing changed."""
        runs = self._controller.runs
        found = pools(columns_of(runs, self._selection.runs), runs, of_cells=self._selection.of_cells)
        key = [(pool.title, pool.color, pool.key) for pool in found]
        if key == self._key:
            return
        self._key = key
        self.empty.setVisible(not found)
        self.body.setVisible(bool(found))
        if sum(len(pool.runs) for pool in found) > MANY_RUNS:
            self._show(Distributions(found, [[] for _ in found], []))
            say(self.times_caption, _READING)
            self.errand.ask(partial(distributions, found))
        else:
            self.errand.forget()
            self._show(distributions(found))

    def _show(self, figures: Distributions) -> None:
        self._show_times(figures.pools, figures.gaps_ms)
        self._show_positions(speculative(figures.pools), figures.positions)
        self.rest.setVisible(self.times.isHidden() and self.acceptance.isHidden())

    def _show_times(self, found: list[Pool], gaps: list[list[float]]) -> None:
        pairs = list(zip(found, gaps, strict=True))
        rows = [TableRow(pool.title, figures(listed), swatch=pool.color) for pool, listed in pairs]
        self.table.show_rows(rows, ("n", *(f"p{percent}" for percent in PERCENTILES)))
        self.times.show_curves([Curve(listed, pool.color, pool.title) for pool, listed in pairs])
        self.times.setVisible(any(gaps))
        caption = f"{_TIMES} {_TOGETHER}" if speculative(found) else _TIMES
        without = _NOT_IN_FILE if found and all(pool.is_imported for pool in found) else _NO_TIMES
        say(self.times_caption, caption if any(gaps) else without)

    def _show_positions(self, pool: Pool | None, positions: list[PlaceOutcomes]) -> None:
        self.acceptance.show_positions(positions)
        self.acceptance.setVisible(bool(positions))
        say(self.acceptance_caption, _NOT_SPECULATIVE if pool is None else _POSITIONS if positions else _NO_ROUNDS)

    def done(self, result: int) -> None:
        """Waits for the thread; both Esc and the window's button end here."""
        self.errand.wait()
        super().done(result)

    def restyle(self) -> None:
        """The plots."""
        self.times.restyle()
        self.acceptance.restyle()
