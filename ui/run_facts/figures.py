"""Rows of the comparison: two models' figures, their ratio, and whether it means better or worse.

Figures come from `evprof.metrics`, so that the window and the command line say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from evprof.core.records import COVERS
from evprof.core.run_log import RunLog
from evprof.core.units import MIB, TIMES, percent_text, ratio_digits, times_text
from evprof.core.vocabulary.families import family_title
from evprof.core.vocabulary.figures import ACCURACY, ENERGY, FIGURES, figure_of, judge
from evprof.metrics.figures.stages import BASES, END_TO_END, widest_basis
from evprof.view.columns import ShownModel
from ui.run_facts.run_text import NOTHING

if TYPE_CHECKING:
    from evprof.metrics.comparison.comparability import Comparability
    from evprof.metrics.comparison.document import Configuration

BASIS_NAMES = {"end-to-end": "End to end", "without-load": "Without load", "model-only": "Model only"}
LONGEST_HEAD = 12
"""Letters that a column's head has room for."""

_PAIRED = tuple(sorted((key for key, figure in FIGURES.items() if figure.place), key=lambda key: FIGURES[key].place))
"""The figures of the table, in its order."""


@dataclass(frozen=True)
class FigureRow:
    """One line. `judgement` is "good", "bad" or "" for column B against column A; `spread` how sure the ratio is."""

    metric: str
    name: str
    unit: str
    a: str
    b: str
    ratio: str = ""
    judgement: str = ""
    tip: str = ""
    spread: str = ""


Cells: TypeAlias = "tuple[Configuration | None, Configuration | None]"
"""All runs that a column stands for, where it stands for its cell."""

NO_CELLS: Cells = (None, None)


def basis_for(*columns: ShownModel | None) -> str:
    """The widest basis on which these runs have totals; that of a whole run as long as none has."""
    return widest_basis([[column.run] for column in columns if column is not None])


def compare(
    a: ShownModel | None, b: ShownModel | None, basis: str = END_TO_END, cells: Cells = NO_CELLS
) -> list[FigureRow]:
    """The lines for two columns, or for the cells they stand for: then means, and the interval of their ratio.

    Unmeasured figures are dashes. Scores whose rule is not for the questions have no line.
    """
    from evprof.metrics.comparison.document import comparison_rows

    compared: dict[str, _Value] = {}
    if a is not None and b is not None and a.run is not b.run:
        for row in comparison_rows(_sides(a, b, cells), 0, basis):
            compared[row.metric] = (row.values[0], row.values[1]), row.ratio[1], row.ci95[1] if row.ci95 else None
    rows: list[FigureRow] = []
    for metric in _listed(basis, a, b):
        figure = figure_of(metric)
        (first, second), share, ends = compared.get(metric) or _means(metric, (a, b), basis, cells)
        if figure.head == ACCURACY and first is None and second is None and not _is_asked(metric, a, b):
            continue
        rows.append(
            FigureRow(
                metric,
                figure.title,
                {"bytes": "MiB", "": "%"}.get(figure.unit, figure.unit),
                figure_text(first, figure.unit),
                figure_text(second, figure.unit),
                ratio_text(share),
                judge(share, ends, figure.lower_is_better),
                figure.tip,
                spread_text(share, ends),
            )
        )
    return rows


def _listed(basis: str, *columns: ShownModel | None) -> list[str]:
    """Metrics in order of presentation. What a file measured in one piece has a line of its own; the stages in it have
    none where no column measured them apart; energy has none where nothing was sampled."""
    from evprof.metrics.comparison.figures import on_basis

    whole, apart = _intervals(columns)
    hidden = {name for covers in whole for name in covers if name not in apart}
    found: list[str] = []
    is_metered = any(column is not None and column.run.power for column in columns)
    there = [key for key in on_basis(basis) if is_metered or FIGURES[key].head != ENERGY]
    for metric in (metric for metric in _PAIRED if metric in there):
        stage = metric.removesuffix("_ms")
        found += [f"{COVERS.join(covers)}_ms" for covers in whole if covers[0] == stage]
        if stage not in hidden:
            found.append(metric)
    return found


def _is_asked(rule: str, *columns: ShownModel | None) -> bool:
    """Whether a rule of scoring is for the question of one of the columns."""
    from evprof.metrics.figures.scores import score_of

    return any(column is not None and score_of(rule, "", column.run.info.sample) is not None for column in columns)


def _intervals(columns: Sequence[ShownModel | None]) -> tuple[list[tuple[str, ...]], set[str]]:
    """What intervals over several stages account for, in order; and the stages whose time is told apart."""
    owned = [
        column.run.accounts_for(span)
        for column in columns
        if column is not None
        for span in column.run.stages(column.role)
    ]
    return list(dict.fromkeys(part for part in owned if len(part) > 1)), {part[0] for part in owned if len(part) == 1}


_Value = tuple[tuple[float | None, float | None], float | None, Sequence[float] | None]
"""Figures of A and B, their ratio, and its interval."""


def _sides(a: ShownModel, b: ShownModel, cells: Cells) -> tuple[Configuration, Configuration]:
    from evprof.metrics.comparison.document import Configuration

    return cells[0] or Configuration((a.run,)), cells[1] or Configuration((b.run,))


def _means(metric: str, columns: tuple[ShownModel | None, ShownModel | None], basis: str, cells: Cells) -> _Value:
    """A figure of each column: of its run, or the mean over the runs that it stands for. Two models of one run share
    its cell."""
    from evprof.metrics.comparison.document import ratio_of

    first, second = columns
    is_one_run = first is not None and second is not None and first.run is second.run
    shared = next((cell for cell in cells if cell is not None), None) if is_one_run else None
    means = [
        None if column is None else _mean(metric, column, cell or shared, basis)
        for column, cell in zip(columns, cells, strict=True)
    ]
    return (means[0], means[1]), ratio_of(means[1], means[0]), None


def _mean(metric: str, column: ShownModel, cell: Configuration | None, basis: str) -> float | None:
    runs = [column.run] if cell is None else cell.runs
    known = [value for run in runs if (value := _figure(metric, ShownModel(run, column.role), basis)) is not None]
    return sum(known) / len(known) if known else None


def _figure(metric: str, column: ShownModel, basis: str) -> float | None:
    """A figure of one model, or the time of a piece of several stages."""
    from evprof.metrics.comparison.figures import READERS
    from evprof.metrics.figures import stages

    run, role = column
    if metric in READERS:
        is_other = figure_of(metric).is_of_answer and not column.is_answer
        return None if is_other else READERS[metric](run, role, basis)
    part = tuple(metric.removesuffix("_ms").split(COVERS))
    return next((stages.span_ms(span) for span in run.stages(role) if run.accounts_for(span) == part), None)


def spread_text(ratio: float | None, ends: Sequence[float] | None) -> str:
    """`±3`: half the 95 % interval of a ratio in percent of it; empty without one, or where nothing spreads."""
    half = 50 * (ends[1] - ends[0]) / ratio if ratio and ends is not None else 0.0
    return "" if half < 0.05 else f"±{half:.0f}" if half >= 0.95 else f"±{half:.1f}"


def ratio_text(ratio: float | None) -> str:
    """`8.0×`, `0.64×`, `0.003×`; empty without a ratio."""
    if ratio is None:
        return ""
    if ratio >= 100:
        return f"{ratio:,.0f}{TIMES}"
    if 0 < ratio < 0.095:
        return f"{ratio:.2g}{TIMES}" if ratio >= 1e-4 else f"<0.0001{TIMES}"
    return times_text(ratio, 1 if ratio >= 10 else 2)


def interval_text(ends: Sequence[float]) -> str:
    """`[0.71, 0.83]`: the interval of a ratio, with more digits where both ends would read the same."""
    texts = [ratio_text(end)[:-1] for end in ends]
    if texts[0] == texts[1]:
        texts = [f"{end:,.{ratio_digits(end, ends[1] - ends[0])}f}" for end in ends]
    return f"[{', '.join(texts)}]"


def figure_text(value: float | None, unit: str) -> str:
    """A figure without its unit: whole counts, times and rates to three or four digits, bytes in MiB, shares (whose
    unit is "") in percent."""
    if value is None:
        return NOTHING
    if unit == "":
        return f"{100 * value:.1f}"
    if unit == "tokens":
        return f"{value:,.0f}"
    if unit == "bytes":
        mib = value / MIB
        return f"{mib:,.{1 if mib >= 100 else 2 if mib >= 1 else 3}f}"
    return f"{value:,.{0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2}f}"


def left_out(a: ShownModel | None, b: ShownModel | None) -> str:
    """Why a pair is not compared; empty when it is."""
    for column in (a, b):
        if column is None:
            continue
        from evprof.metrics.comparison.document import is_comparable

        if not is_comparable(column.run):
            kind = "a torch trace" if column.run.info.profiled else "a warm-up"
            return f"Run {column.run.run_id} is {kind}: it takes no part in comparisons."
    return ""


def generation_sentence(a: ShownModel | None, b: ShownModel | None, cells: Cells = NO_CELLS) -> str:
    """`generation 3.2× = 1.9× tokens · 1.7× time per token`; empty while unknown."""
    from evprof.metrics.comparison.document import configuration_generation, generation

    if a is None or b is None or a.run is b.run:
        return ""
    found = configuration_generation(cells[0], cells[1]) if cells[0] and cells[1] else generation(a.run, b.run)
    parts = [ratio_text(found[key]) for key in ("product", "token_count_ratio", "time_per_token_ratio")]
    return f"generation {parts[0]} = {parts[1]} tokens · {parts[2]} time per token" if all(parts) else ""


def comparability_of(a: ShownModel | None, b: ShownModel | None, cells: Cells = NO_CELLS) -> Comparability | None:
    """In what two runs differ that nobody set, and what can still be compared; None within one run."""
    from evprof.metrics.comparison.document import comparability

    return None if a is None or b is None or a.run is b.run else comparability(_sides(a, b, cells))


MOST_NUMBERS = 3
"""Runs that a chip names; of more it tells how many."""

_OUT, _COLD = "it is in no figure", "a model was loaded for it, which its times hold"


def cells_sentence(a: ShownModel | None, b: ShownModel | None, cells: Cells) -> str:
    """`Means over 60 and 58 runs; the columns show typical ones.`, of repeats which they are; then which shown runs are
    cold and stand in no figure. Empty where each column stands for its one run."""
    from evprof.metrics.configurations.baselines import runs_text

    named = [(side, cell) for side, cell in zip("AB", cells, strict=True) if cell is not None]
    told = [(side, cell) for side, cell in named if cell.is_cell or len(cell.runs) > 1]
    said = []
    if any(cell.is_cell for _, cell in told):
        counts = " and ".join(f"{len(cell.runs):,}" for _, cell in told)
        shown = "the columns show typical ones" if len(told) == 2 else "the column shows a typical one"
        said.append(f"Means over {counts} runs; {shown}.")
    elif told:
        repeats = " · ".join(f"{side} {runs_text(map(_number, cell.runs))}" for side, cell in told)
        said.append(f"Means over repeats: {repeats}.")
    for column, cell in zip((a, b), cells, strict=True):
        if column is not None and column.is_answer and column.run.info.is_cold:
            has_others = cell is not None and not cell.is_cold
            said.append(f"Run {column.run.run_id} is cold: {_OUT if has_others else _COLD}.")
    return " ".join(said)


def runs_of(column: ShownModel | None, cell: Configuration | None) -> str:
    """`run 2`, `runs 2, 5, 8`, `60 runs`: what a column stands for; "" without one."""
    if cell is not None and len(cell.runs) > MOST_NUMBERS:
        return f"{len(cell.runs):,} runs"
    if column is None:
        return ""
    from evprof.metrics.configurations.baselines import runs_text

    return runs_text(map(_number, cell.runs if cell is not None else [column.run]))


def _number(run: RunLog) -> int:
    return run.run_id


def match_sentence(a: ShownModel | None, b: ShownModel | None, cells: Cells = NO_CELLS) -> str:
    """`9 of 26 tokens match by position, 35 %`; empty without two answers."""
    from evprof.metrics.comparison.document import configuration_token_match, token_match

    if a is None or b is None or a.run is b.run:
        return ""
    found = configuration_token_match(cells[0], cells[1]) if cells[0] and cells[1] else token_match(a.run, b.run)
    if found["rate"] is None:
        return ""
    return f"{found['matched']:,} of {found['compared']:,} tokens match by position, {percent_text(found['rate'])}"


def column_heads(a: ShownModel | None, b: ShownModel | None) -> tuple[str, str]:
    """Column heads: the families; when those are the same, the one setting that differs, else run numbers."""
    if a is not None and b is not None and a.run is not b.run and _family(a) == _family(b):
        from evprof.metrics.configurations.settings_text import differences

        found = differences(a, b)
        if len(found) == 1 and max(len(setting.text) for setting in found[0]) <= LONGEST_HEAD:
            return found[0][0].text, found[0][1].text
        return f"run {a.run.run_id}", f"run {b.run.run_id}"
    return _family(a), _family(b)


def _family(column: ShownModel | None) -> str:
    if column is None:
        return ""
    model = column.run.info.models.get(column.role)
    return family_title(model.family) if model else column.role


__all__ = [
    "BASES",
    "BASIS_NAMES",
    "NOTHING",
    "FigureRow",
    "cells_sentence",
    "column_heads",
    "comparability_of",
    "compare",
    "generation_sentence",
    "left_out",
    "match_sentence",
]
