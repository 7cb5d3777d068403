"""Figures of the two columns side by side, and how tables write figures.

Figures come from `evprof.metrics`, so that the window and the command line show the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from evprof.core.records import COVERS
from evprof.core.units import MIB, TIMES, ratio_digits, times_text
from evprof.core.vocabulary.figures import ACCURACY, ENERGY, FIGURES, figure_of
from evprof.metrics.figures.stages import END_TO_END, widest_basis
from evprof.view.columns import ShownModel, takes_draft_model
from evprof.view.labels import stages_in
from ui.run_facts.run_text import NOTHING

if TYPE_CHECKING:
    from evprof.metrics.comparison.comparability import Comparability
    from evprof.metrics.configurations.gathering import Configuration

BASIS_NAMES = {"end-to-end": "End to end", "without-load": "Without load", "model-only": "Model only"}

_PAIRED = tuple(sorted((key for key, figure in FIGURES.items() if figure.place), key=lambda key: FIGURES[key].place))
"""The figures of the table, in its order."""

Column: TypeAlias = ShownModel | None
Cells: TypeAlias = "tuple[Configuration | None, Configuration | None]"
"""All runs that each column stands for; None: its run alone."""

NO_CELLS: Cells = (None, None)


@dataclass(frozen=True)
class FigureRow:
    """A figure of both columns. `judgement` is "good", "bad" or "" for column B against column A."""

    metric: str
    name: str
    unit: str
    a: str
    b: str
    ratio: str
    judgement: str
    tip: str


def basis_for(*columns: Column) -> str:
    """The widest basis on which these runs have totals; end to end while none has."""
    return widest_basis([[column.run] for column in columns if column is not None])


def compare(a: Column, b: Column, basis: str = END_TO_END, cells: Cells = NO_CELLS) -> list[FigureRow]:
    """The figures of two columns; of two runs, means over the runs that the columns stand for.

    Unmeasured figures are dashes; unmeasured energy and scores have no row.
    """
    from evprof.metrics.comparison.differences import ratio_of
    from evprof.metrics.comparison.rows import comparison_rows

    compared = {}
    if a is not None and b is not None and a.run is not b.run:
        compared = {row.metric: row for row in comparison_rows(_sides(a, b, cells), 0, basis)}
    # The columns show one model each, whichever other model took part in its run.
    are_apart = any(column is not None and takes_draft_model(column.run) for column in (a, b))
    rows = []
    for metric in _metrics(basis, a, b):
        figure, row = figure_of(metric), compared.get(metric)
        if row is not None and not (are_apart and stages_in(metric.removesuffix("_ms"))):
            values, ratio, judgement = row.values, row.ratio[1], row.judge(1)
        else:
            values = [_mean(metric, column, basis, cells) for column in (a, b)]
            ratio, judgement = ratio_of(values[1], values[0]), ""
        if figure.head in (ACCURACY, ENERGY) and values == [None, None]:
            continue
        unit = {"bytes": "MiB", "": "%"}.get(figure.unit, figure.unit)
        first, second = (figure_text(value, figure.unit) for value in values)
        rows.append(FigureRow(metric, figure.title, unit, first, second, ratio_text(ratio), judgement, figure.tip))
    return rows


def _metrics(basis: str, *columns: Column) -> list[str]:
    """Metrics in order. Stages that a file timed in one piece have one row together, unless a column has them apart."""
    from evprof.metrics.comparison.figures import on_basis

    shown = [column for column in columns if column is not None]
    parts = dict.fromkeys(column.run.accounts_for(span) for column in shown for span in column.run.stages(column.role))
    apart = {part[0] for part in parts if len(part) == 1}
    pieces = [part for part in parts if len(part) > 1]
    hidden = {name for piece in pieces for name in piece} - apart
    metrics, wanted = [], set(on_basis(basis))
    for metric in (key for key in _PAIRED if key in wanted):
        stage = metric.removesuffix("_ms")
        metrics += [f"{COVERS.join(piece)}_ms" for piece in pieces if piece[0] == stage]
        metrics += [metric] if stage not in hidden else []
    return metrics


def _sides(a: ShownModel, b: ShownModel, cells: Cells) -> tuple[Configuration, Configuration]:
    from evprof.metrics.configurations.gathering import Configuration

    return cells[0] or Configuration((a.run,)), cells[1] or Configuration((b.run,))


def _mean(metric: str, column: Column, basis: str, cells: Cells) -> float | None:
    """A figure of one model: the mean over the runs of the cell that its run is in, or that of its run."""
    if column is None:
        return None
    runs = next((cell.runs for cell in cells if cell is not None and column.run in cell.runs), (column.run,))
    known = [value for run in runs if (value := _figure(metric, ShownModel(run, column.role), basis)) is not None]
    return sum(known) / len(known) if known else None


def _figure(metric: str, column: ShownModel, basis: str) -> float | None:
    from evprof.metrics.comparison.figures import READERS
    from evprof.metrics.figures import stages

    run, role = column
    if metric in READERS:
        is_of_other = figure_of(metric).is_of_answer and not column.is_answer
        return None if is_of_other else READERS[metric](run, role, basis)
    piece = tuple(metric.removesuffix("_ms").split(COVERS))
    return next((stages.span_ms(span) for span in run.stages(role) if run.accounts_for(span) == piece), None)


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
    """A figure without its unit: whole counts, times and rates to three or four digits, bytes in MiB, shares (unit "")
    in percent."""
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


def left_out(a: Column, b: Column) -> str:
    """Why a pair is not compared; empty when it is."""
    for column in (a, b):
        if column is not None and (column.run.info.profiled or column.run.info.warmup):
            kind = "a torch trace" if column.run.info.profiled else "a warm-up"
            return f"Run {column.run.run_id} is {kind}: it takes no part in comparisons."
    return ""


@dataclass(frozen=True)
class PairFigures:
    """A comparison of the two columns, with its sentences. `differences` is None within one run."""

    rows: list[FigureRow]
    why: str = ""
    means: str = ""
    settings: tuple[str, ...] = ()
    differences: Comparability | None = None


def pair_figures(a: Column, b: Column, basis: str, cells: Cells) -> PairFigures:
    """Compares the columns; may take a second where they stand for thousands of runs."""
    from evprof.metrics.comparison.comparability import comparability
    from evprof.metrics.comparison.differences import difference_of
    from evprof.metrics.configurations.settings_text import differences

    rows, means = compare(a, b, basis, cells), means_sentence(a, b, cells)
    if a is None or b is None or a.run is b.run:
        return PairFigures(rows, means=means)
    sides = _sides(a, b, cells)
    settings = tuple(f"{mine.name}: {mine.text} → {other.text}" for mine, other in differences(a, b))
    why = difference_of(*sides, basis).why() if a.run.info.is_over and b.run.info.is_over else ""
    return PairFigures(rows, why, means, settings, comparability(sides))


def means_sentence(a: Column, b: Column, cells: Cells) -> str:
    """`Means: A over runs 3, 5, 7, B over runs 4, 6, 8.`, then which shown runs are cold; empty for two plain runs."""
    from evprof.metrics.configurations.baselines import runs_text

    named = [(side, cell) for side, cell in zip("AB", cells, strict=True) if cell is not None and len(cell.runs) > 1]
    over = ", ".join(f"{side} over {runs_text(run.run_id for run in cell.runs)}" for side, cell in named)
    sentences = [f"Means: {over}."] if over else []
    for column, cell in zip((a, b), cells, strict=True):
        if column is not None and column.is_answer and column.run.info.is_cold:
            is_left_out = cell is not None and not cell.is_cold
            why = "it is in no figure" if is_left_out else "a model was loaded for it, which its times hold"
            sentences.append(f"Run {column.run.run_id} is cold: {why}.")
    return " ".join(sentences)


def heads_of(a: Column, b: Column) -> tuple[str, str]:
    """Column heads: A and B as above the columns, the roles of two models of one run."""
    return ("draft", "target") if a is not None and b is not None and a.run is b.run else ("A", "B")
