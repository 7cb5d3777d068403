"""What the distributions window shows of the two columns: times between tokens, and drafts by position.

Repeats of one request are taken together, as the comparison takes them; it knows no widget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from evprof.core.records import DRAFT
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations import baselines
from evprof.metrics.configurations.baselines import is_counted
from evprof.metrics.figures.decoding import token_gaps_ms
from evprof.view.columns import ShownModel
from evprof.view.distributions import PlaceOutcomes, by_position, percentile
from evprof.view.labels import model_title
from ui.state.cells import configuration_runs

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
