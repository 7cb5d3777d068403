"""The distributions window: how the times between tokens spread, and which drafted positions were accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from PySide6.QtWidgets import QWidget

from evprof.core.records import DRAFT
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations import baselines
from evprof.metrics.configurations.baselines import is_counted
from evprof.metrics.figures.decoding import token_gaps_ms
from evprof.view.columns import ShownModel, columns_of
from evprof.view.distributions import PlaceOutcomes, by_position, percentile
from evprof.view.labels import model_title
from ui.state.cells import configuration_runs
from ui.state.newest_errand import MANY_RUNS, NewestErrand
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.following import FollowingDialog
from ui.widgets.panel_parts import EmptyState, say, section_head, sentence
from ui.widgets.plots import AcceptancePlot, Curve, LatencyPlot

Pair = tuple[ShownModel | None, ShownModel | None]

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Pool:
    """An answering run of a column and its repeats; `color` is the name of the stage whose colour is the column's."""

    title: str
    color: str
    runs: tuple[RunLog, ...]

    @property
    def key(self) -> tuple[tuple[int, int], ...]:
        """Changes when anything in it does; rows that lie in a file are not asked for."""
        return tuple((id(run), run.version) for run in self.runs)

    @property
    def is_imported(self) -> bool:
        """Whether its runs were imported, and hold no more than their file tells."""
        return all(run.info.imported is not None for run in self.runs)

    def positions(self) -> list[PlaceOutcomes]:
        """Accepted of drafted tokens by position, over all rounds."""
        return by_position((entry.drafted, entry.accepted) for run in self.runs for entry in run.rounds)


class Distributions(NamedTuple):
    """Of pools: times between consecutive tokens in ms, none across two runs (see `token_gaps_ms`), and the accepted
    positions of the one that speculates."""

    pools: list[Pool]
    gaps_ms: list[list[float]]
    positions: list[PlaceOutcomes]


def distributions(pools: list[Pool]) -> Distributions:
    """The distributions of the tokens of all runs of each pool."""
    gaps_ms = [[gap for run in pool.runs for gap in token_gaps_ms(run)] for pool in pools]
    drafting = speculative(pools)
    return Distributions(pools, gaps_ms, [] if drafting is None else drafting.positions())


def pools(pair: Pair, runs: Mapping[int, RunLog], *, of_cells: bool = False) -> list[Pool]:
    """What the columns' answering runs are, left to right, each once; a run's draft that only helps is none.

    `of_cells`: with all runs of the cells they stand for.
    """
    shown: list[tuple[int, ShownModel]] = []
    for place, column in enumerate(pair):
        if column is not None and column.is_answer and all(column.run is not other.run for _, other in shown):
            shown.append((place, column))
    roles = [column.role for _, column in shown]
    titles = [model_title(column.run, column.role) for _, column in shown]
    found = []
    for (place, column), title in zip(shown, titles, strict=True):
        # As in the timeline: pink for the draft, blue for the target, by side where both are the same.
        is_draft = place == 0 if len(roles) == 2 and roles[0] == roles[1] else column.role == DRAFT
        in_cell = configuration_runs(runs.values(), column.run) if of_cells and column.run.info.cell else ()
        mates = in_cell or repeats_of(column.run, runs)
        name = title if titles.count(title) == 1 else f"{title} · run {column.run.run_id}"
        name += f" · {len(mates):,} {'runs' if in_cell else 'repeats'}" if len(mates) > 1 else ""
        found.append(Pool(name, "draft" if is_draft else "decode", mates))
    return found


def repeats_of(run: RunLog, runs: Mapping[int, RunLog]) -> tuple[RunLog, ...]:
    """The run with its finished repeats, by the rule of every verdict. What stands in no figure stays alone."""
    if run.info.is_over and not is_counted(run.info):
        return (run,)
    found = {other.run_id: other for other in (run, *baselines.repeats_of(run, runs.values()))}
    return tuple(found[number] for number in sorted(found))


def speculative(found: list[Pool]) -> Pool | None:
    """The one whose rounds are shown: the rightmost that speculates."""
    return next((pool for pool in reversed(found) if mode_of(pool.runs[0].info.mode).drafts), None)


def figures(gaps_ms: list[float]) -> tuple[str, ...]:
    """n, and the percentiles with their units, as cells; dashes of nothing."""
    found = (percentile(gaps_ms, percent) for percent in PERCENTILES)
    return (f"{len(gaps_ms):,}", *("–" if value is None else ms_text(value) if value else "0 ms" for value in found))


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
        self.times.restyle()
        self.acceptance.restyle()
