"""One figure of several configurations side by side: values, differences and ratios to a baseline, intervals, counts.

Repeats of one request have their median. Cells have the mean over samples (of each the median of its repeats), and are
compared over the samples that both measured, in pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, median
from typing import Any

from evprof.core.run_log import RunLog
from evprof.metrics import statistics
from evprof.metrics.comparison_figures import Figure, figures
from evprof.metrics.configurations import Column, SampleKey
from evprof.metrics.median_ratio import median_ratio_interval
from evprof.metrics.partition import Shape, name_of, shape_of
from evprof.metrics.stages import END_TO_END

TOTAL = "total_ms"

EVEN = 0.01
"""Without an interval, ratios nearer to 1 than this are no difference."""


@dataclass(frozen=True)
class Row:
    """One figure of every column, with its difference from and ratio to the baseline's.

    `ci95`: the 95 % interval of the ratio where the counts allow one. `counts`: of how many samples (cells) or repeats
    each value is made; `paired_counts`: over how many samples the ratio is taken in pairs, None where it is not.
    `notes`: what has to be known of the figure, in sentences.
    """

    metric: str
    unit: str
    values: list[float | None]
    ratio: list[float | None]
    ci95: list[list[float] | None] | None
    lower_is_better: bool | None = None
    delta: list[float | None] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    paired_counts: list[int | None] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def differs(self, index: int) -> bool:
        """Whether a column's value is another than the baseline's: the ratio's interval does not hold 1, or, without
        an interval, the values are more than 1 % apart. What one side did not measure is no difference."""
        interval = self.ci95[index] if self.ci95 else None
        if interval is not None:
            return not interval[0] <= 1 <= interval[1]
        ratio = self.ratio[index]
        return bool(self.delta[index]) if ratio is None else abs(ratio - 1) > EVEN

    def to_json(self) -> dict[str, Any]:
        """The row of the `compare` document."""
        return {
            "metric": self.metric,
            "unit": self.unit,
            "values": self.values,
            "delta": self.delta,
            "ratio": self.ratio,
            "ci95": self.ci95,
            "counts": self.counts,
            "paired_counts": self.paired_counts,
            "lower_is_better": self.lower_is_better,
            "differs": [self.differs(index) for index in range(len(self.values))],
            "notes": self.notes,
        }


def comparison_rows(listed: Sequence[Column], baseline: int = 0, basis: str = END_TO_END) -> list[Row]:
    """Every figure that at least one column has, against the column at index `baseline`."""
    shaped = [[(run, shape_of(run)) for run in column.runs] for column in listed]
    shapes = {shape for runs in shaped for _, shape in runs}
    rows = []
    for figure in figures(basis, shapes):
        measured = [_measured(column, runs, figure) for column, runs in zip(listed, shaped, strict=True)]
        if any(measured):
            notes = _notes(figure, listed, shaped)
            if figure.metric == TOTAL:
                notes += _warmup_notes(measured)
            rows.append(_row(figure, measured, baseline, notes))
    return rows


def ratio_of(value: float | None, base: float | None) -> float | None:
    """value / base; None when either is missing or the base is 0."""
    return None if value is None or not base else value / base


@dataclass(frozen=True)
class _Measured:
    """One figure of one column: by sample and repeat, as far as measured."""

    column: Column
    by_sample: dict[SampleKey, list[float]]
    in_order: list[float]

    def __bool__(self) -> bool:
        return bool(self.by_sample)

    @cached_property
    def sample_values(self) -> dict[SampleKey, float]:
        """Of every sample the mean of its repeats, so that parts add up to totals."""
        return {key: fmean(values) for key, values in self.by_sample.items()}

    @cached_property
    def values(self) -> list[float]:
        """What the column's value is made of: samples of a cell, repeats otherwise."""
        if self.column.is_cell:
            return list(self.sample_values.values())
        return [value for values in self.by_sample.values() for value in values]

    @property
    def value(self) -> float | None:
        """The mean over samples, or the median of repeats."""
        if not self:
            return None
        return fmean(self.values) if self.column.is_cell else median(self.values)


@dataclass(frozen=True)
class _Against:
    """One column's figure against the baseline's."""

    ratio: float | None = None
    delta: float | None = None
    ci95: list[float] | None = None
    paired: int | None = None


def _measured(column: Column, runs: Sequence[tuple[RunLog, Shape]], figure: Figure) -> _Measured:
    by_sample: dict[SampleKey, list[float]] = {}
    in_order: list[float] = []
    for key, (run, shape) in zip(column.keys, runs, strict=True):
        value = figure.read(run, shape)
        if value is not None:
            by_sample.setdefault(key, []).append(value)
            in_order.append(value)
    return _Measured(column, by_sample, in_order)


def _row(figure: Figure, measured: Sequence[_Measured], baseline: int, notes: list[str]) -> Row:
    base = measured[baseline]
    against = [_itself(base) if index == baseline else _against(base, found) for index, found in enumerate(measured)]
    intervals = [found.ci95 for found in against]
    return Row(
        figure.metric,
        figure.unit,
        [found.value for found in measured],
        [found.ratio for found in against],
        intervals if any(intervals) else None,
        figure.lower_is_better,
        [found.delta for found in against],
        [len(found.values) for found in measured],
        [found.paired for found in against],
        notes,
    )


def _itself(base: _Measured) -> _Against:
    return _Against(ratio_of(base.value, base.value), 0.0 if base else None)


def _against(base: _Measured, other: _Measured) -> _Against:
    if not (base and other):
        return _Against()
    if base.column.is_cell or other.column.is_cell:
        return _cell_against(base, other)
    one, two = base.value, other.value
    if one is None or two is None:
        return _Against()
    is_paired = _took_turns(base.column, other.column) and len(base.values) == len(other.values)
    interval = median_ratio_interval(base.values, other.values, paired=is_paired)
    return _Against(ratio_of(two, one), two - one, interval)


def _cell_against(base: _Measured, other: _Measured) -> _Against:
    """Means over the samples that both measured; over all of each when they share none."""
    common = [key for key in base.sample_values if key in other.sample_values]
    if common:
        before = [base.sample_values[key] for key in common]
        after = [other.sample_values[key] for key in common]
    else:
        before, after = list(base.sample_values.values()), list(other.sample_values.values())
    one, two = fmean(before), fmean(after)
    interval = statistics.ratio_interval(before, after, paired=bool(common))
    return _Against(
        ratio_of(two, one), two - one, None if interval is None else list(interval), len(common) if common else None
    )


def _took_turns(one: Column, other: Column) -> bool:
    """Whether two columns' repeats took turns in one request, so that their drift is shared."""
    same_request = one.session == other.session and one.runs[0].info.group_id == other.runs[0].info.group_id
    return same_request and len(one.runs) == len(other.runs)


def _notes(figure: Figure, listed: Sequence[Column], shaped: Sequence[Sequence[tuple[RunLog, Shape]]]) -> list[str]:
    notes = []
    for column, runs in zip(listed, shaped, strict=True):
        found = {entry for shape in {shape for _, shape in runs} for entry in shape.doubled}
        for stage, others in sorted(found):
            if stage in (name_of(figure.stages), *figure.stages):
                notes.append(
                    f"{column.label}: what its file times as {stage} holds {' and '.join(others)} once more, "
                    f"which it also times apart."
                )
    return notes


def _warmup_notes(measured: Sequence[_Measured]) -> list[str]:
    """Of totals whose first ones look like warm-up that nobody set apart."""
    counted = [(found, statistics.warmup_count(found.in_order)) for found in measured]
    return [
        f"{found.column.label}: the first {count} of {len(found.in_order)} runs took much longer than those after, as "
        f"if still warming up, and {'is' if count == 1 else 'are'} in the figures."
        for found, count in counted
        if count
    ]
