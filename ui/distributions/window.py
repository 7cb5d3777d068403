"""The distributions window: the times between tokens, and the accepted drafts by position."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from PySide6.QtWidgets import QWidget

from evprof.core.records import DRAFT
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.figures.decoding import token_gaps_ms
from evprof.view.columns import ShownModel, columns_of
from evprof.view.distributions import PlaceOutcomes, by_position
from evprof.view.labels import model_title
from ui.state.cells import configuration_of
from ui.state.newest_errand import NewestErrand
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.following import FollowingDialog
from ui.widgets.panel_parts import EmptyState, say, section_head, sentence
from ui.widgets.plots import AcceptancePlot, Curve, LatencyPlot

PERCENTILES = (50, 95, 99)


class Pool(NamedTuple):
    """The runs that a column stands for; `color` is the name of the stage whose colour the column has."""

    title: str
    color: str
    runs: tuple[RunLog, ...]

    @property
    def is_speculative(self) -> bool:
        return mode_of(self.runs[0].info.mode).drafts


class Distributions(NamedTuple):
    """Of pools: times between the tokens of each run in ms, and accepted drafts of the last pool that speculates."""

    pools: list[Pool]
    gaps_ms: list[list[float]]
    positions: list[PlaceOutcomes]


def distributions(pools: list[Pool]) -> Distributions:
    gaps_ms = [[gap for run in pool.runs for gap in token_gaps_ms(run)] for pool in pools]
    runs = next((pool.runs for pool in reversed(pools) if pool.is_speculative), ())
    positions = by_position((entry.drafted, entry.accepted) for run in runs for entry in run.rounds)
    return Distributions(pools, gaps_ms, positions)


def pools(
    pair: tuple[ShownModel | None, ShownModel | None], runs: Mapping[int, RunLog], *, of_cells: bool = False
) -> list[Pool]:
    """The columns' answering models with their repeats, or with `of_cells` all runs of their cells."""
    answers = {place: column for place, column in enumerate(pair) if column is not None and column.is_answer}
    roles = [column.role for column in answers.values()]
    titles = [model_title(*column) for column in answers.values()]
    found = []
    for (place, column), title in zip(answers.items(), titles, strict=True):
        # As in the timeline: pink for the draft, blue for the target; by side if both have one role.
        is_draft = place == 0 if len(roles) == 2 and roles[0] == roles[1] else column.role == DRAFT
        cell = configuration_of(runs, column, of_cell=of_cells)
        listed = (column.run,) if cell is None else cell.runs
        name = title if titles.count(title) == 1 else f"{title} · run {column.run.run_id}"
        name += f" · {len(listed):,} runs" if len(listed) > 1 else ""
        found.append(Pool(name, "draft" if is_draft else "decode", listed))
    return found


_TIMES = "Share of tokens that came within a time of the previous token. The first token of a run is not among them."
_TOGETHER = (
    "Tokens of one round arrive together: one counts the whole wait, the others 0 ms, as in all figures. "
    "0 ms has no place on this axis, so the curve begins at their share."
)
_NO_TIMES = "The curve begins with a run's second token; an imported file may not have the times of tokens."
_POSITIONS = "accepted / drafted at each position over all rounds; none is accepted after a round's first rejection."
_NOT_SPECULATIVE = (
    "Which share of the tokens drafted at each position was accepted. A speculative run fills this: run or choose one."
)
_NO_ROUNDS = "This fills with the first verified round."


class DistributionsDialog(FollowingDialog):
    """Follows the window's two columns."""

    heading = "Distributions"
    _key: object = None

    def make_views(self, themes: ThemeHolder) -> None:
        self.errand = NewestErrand("evprof-distributions", self)
        self.errand.done.connect(self._show)
        self.empty = EmptyState(
            "No distributions yet",
            "How long each token took, and which drafted tokens were accepted, appear here. Run a sample, or choose a "
            "run on the left of the window.",
        )
        self.table = FigureTable(themes)
        self.table.setAccessibleName("Time per token")
        self.times, self.times_caption = LatencyPlot(themes), sentence("small")
        self.acceptance, self.acceptance_caption = AcceptancePlot(themes), sentence("small")
        self.body = QWidget()
        times = (section_head("Time per token"), self.table, (self.times, 3), self.times_caption, GRID)
        drafts = (section_head("Accepted drafts by position"), (self.acceptance, 2), self.acceptance_caption)
        stacked(*times, *drafts, None, on=self.body, spacing=GRID // 2)
        stacked(self.empty, (self.body, 1), on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID))

    def show_runs(self) -> None:
        """Shows the columns; cheap when nothing changed."""
        runs = self._controller.runs
        found = pools(columns_of(runs, self._selection.runs), runs, of_cells=self._selection.of_cells)
        key = [(pool.title, pool.color, [(id(run), run.version) for run in pool.runs]) for pool in found]
        if key == self._key:
            return
        self._key = key
        self.empty.setVisible(not found)
        self.body.setVisible(bool(found))
        self.errand.begin(partial(distributions, found), sum(len(pool.runs) for pool in found))

    def _show(self, shown: object) -> None:
        if not isinstance(shown, Distributions):
            return
        pairs = list(zip(shown.pools, shown.gaps_ms, strict=True))
        is_speculative, has_times = any(pool.is_speculative for pool in shown.pools), any(shown.gaps_ms)
        rows = [TableRow(pool.title, _cells(gaps), swatch=pool.color) for pool, gaps in pairs]
        self.table.show_rows(rows, ("n", *(f"p{percent}" for percent in PERCENTILES)))
        self.times.show_curves([Curve(gaps, pool.color, pool.title) for pool, gaps in pairs])
        self.times.setVisible(has_times)
        say(self.times_caption, (f"{_TIMES} {_TOGETHER}" if is_speculative else _TIMES) if has_times else _NO_TIMES)
        self.acceptance.show_positions(shown.positions)
        self.acceptance.setVisible(bool(shown.positions))
        caption = _POSITIONS if shown.positions else _NO_ROUNDS
        say(self.acceptance_caption, caption if is_speculative else _NOT_SPECULATIVE)

    def done(self, result: int) -> None:
        """Waits for the thread; Esc and the window's button end here."""
        self.errand.wait()
        super().done(result)


def _cells(gaps_ms: list[float]) -> tuple[str, ...]:
    """The number of gaps and their percentiles; dashes without any."""
    if not gaps_ms:
        return ("0", *("–" for _ in PERCENTILES))
    values = np.percentile(gaps_ms, PERCENTILES)
    return (f"{len(gaps_ms):,}", *(ms_text(float(value)) if value else "0 ms" for value in values))
