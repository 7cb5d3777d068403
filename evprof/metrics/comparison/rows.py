"""One figure of several configurations side by side: values, differences and ratios to a baseline, intervals, counts.

Every value is a mean over samples, of each the mean of its repeats. Ratios follow the rule of `estimates`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import is_clear
from evprof.metrics.arithmetic import statistics
from evprof.metrics.comparison.differences import ratio_of
from evprof.metrics.comparison.figures import FigureReading, compared_figures
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.estimates import Estimate, Observation, facts_of, mean_of, verdict
from evprof.metrics.figures.energy import slowed_down
from evprof.metrics.figures.partition import StagePartition, name_of, shape_of
from evprof.metrics.figures.stages import END_TO_END

TOTAL = "total_ms"


@dataclass(frozen=True)
class ComparisonRow:
    """One figure of every column, with its difference from and ratio to the baseline's.

    `ci95`: the 95 % interval of the ratio where the runs allow one. `counts`: of how many samples (cells) or repeats
    each value is made; `paired_counts`: over how many samples the ratio is taken in pairs, None where it is not.
    `differing`: which columns differ from the baseline; a counted figure that does not vary differs exactly.
    `notes`: what limits the figure, in sentences.
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
    differing: list[bool] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def differs(self, index: int) -> bool:
        return self.differing[index]

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
            "differs": self.differing,
            "notes": self.notes,
        }


def comparison_rows(listed: Sequence[Configuration], baseline: int = 0, basis: str = END_TO_END) -> list[ComparisonRow]:
    """Every figure that at least one column has, against the column at index `baseline`."""
    return [row for row in rows_one_by_one(listed, baseline, basis) if row is not None]


def rows_one_by_one(
    listed: Sequence[Configuration], baseline: int = 0, basis: str = END_TO_END
) -> Iterator[ComparisonRow | None]:
    """The same, each figure on demand; None for one that no column has."""
    shaped = [[(run, shape_of(run)) for run in column.runs] for column in listed]
    facts = [[facts_of(run, column.session) for run in column.runs] for column in listed]
    for reading in compared_figures(basis, {shape for runs in shaped for _, shape in runs}):
        measured = [_measured(*entry, reading) for entry in zip(listed, facts, shaped, strict=True)]
        if not any(side.observations for side in measured):
            yield None
            continue
        notes = _notes(reading, listed, shaped)
        if reading.figure.key == TOTAL:
            notes += [*_warmup_notes(measured), *_throttling_notes(listed)]
        yield _row(reading, measured, baseline, notes)


@dataclass(frozen=True)
class _Measured:
    column: Configuration
    observations: list[Observation]
    mean: Estimate | None

    @property
    def count(self) -> int:
        """Of how many samples, or repeats of one request, the value is made."""
        seen = self.observations
        return len({entry.sample for entry in seen}) if self.column.is_cell else len(seen)

    @property
    def value(self) -> float | None:
        return None if self.mean is None else self.mean.value

    @property
    def never_varies(self) -> bool:
        values = {(entry.sample, entry.value) for entry in self.observations}
        return len(values) == len({entry.sample for entry in self.observations})


@dataclass(frozen=True)
class _Against:
    ratio: float | None = None
    delta: float | None = None
    ci95: list[float] | None = None
    paired: int | None = None
    differs: bool = False
    note: str = ""


def _measured(
    column: Configuration,
    facts: Sequence[tuple[Any, Any, str, float, str]],
    shaped: Sequence[tuple[RunLog, StagePartition]],
    reading: FigureReading,
) -> _Measured:
    found = []
    for own, (run, shape) in zip(facts, shaped, strict=True):
        if (value := reading.read(run, shape)) is not None:
            seen = Observation(value, *own)
            # A figure that no process decides is as if one process had measured all of it.
            found.append(seen if reading.figure.varies_by_process else seen._replace(process="", began_s=0.0))
    return _Measured(column, found, mean_of(found))


def _row(reading: FigureReading, measured: Sequence[_Measured], baseline: int, notes: Sequence[str]) -> ComparisonRow:
    base = measured[baseline]
    against = [
        _itself(base) if index == baseline else _against(base, found, reading) for index, found in enumerate(measured)
    ]
    intervals = [found.ci95 for found in against]
    reasons = [f"{found.column.label}: {one.note}." for found, one in zip(measured, against, strict=True) if one.note]
    return ComparisonRow(
        reading.figure.key,
        reading.figure.unit,
        [found.value for found in measured],
        [found.ratio for found in against],
        intervals if any(intervals) else None,
        reading.figure.lower_is_better,
        [found.delta for found in against],
        [found.count for found in measured],
        [found.paired for found in against],
        [found.differs for found in against],
        [*notes, *reasons],
    )


def _itself(base: _Measured) -> _Against:
    return _Against(ratio_of(base.value, base.value), 0.0 if base.observations else None)


def _against(base: _Measured, other: _Measured, reading: FigureReading) -> _Against:
    found = verdict(base.observations, other.observations)
    if found is None:
        return _Against()
    if found.ratio is None:
        return _Against(None, found.delta)
    paired = found.pairs if base.column.is_cell or other.column.is_cell else None
    if reading.figure.is_counted and base.never_varies and other.never_varies:
        return _Against(found.ratio, found.delta, None, paired, differs=found.delta != 0)
    interval = None if found.interval is None else list(found.interval)
    note = "; ".join(filter(None, (found.reason, _left_out(base, other))))
    return _Against(found.ratio, found.delta, interval, paired, is_clear(interval), note)


def _left_out(base: _Measured, other: _Measured) -> str:
    """Which runs are in the values alone: where both sides share engine processes, they are compared within these."""
    sides = [[entry.process for entry in side.observations] for side in (base, other)]
    both = set(sides[0]) & set(sides[1])
    alone = [sum(process not in both for process in side) for side in sides]
    if not both or not any(alone):
        return ""
    counted = zip(alone, sides, ("the baseline", "its own"), strict=True)
    runs = " and ".join(f"{count:,} of {len(side):,} runs of {whose}" for count, side, whose in counted if count)
    return f"differences and ratios leave out {runs}, whose engine process measured one of the two only"


def _notes(
    reading: FigureReading, listed: Sequence[Configuration], shaped: Sequence[Sequence[tuple[RunLog, StagePartition]]]
) -> list[str]:
    notes = []
    for column, runs in zip(listed, shaped, strict=True):
        found = {entry for shape in {shape for _, shape in runs} for entry in shape.doubled}
        for stage, others in sorted(found):
            if stage in (name_of(reading.stages), *reading.stages):
                notes.append(
                    f"{column.label}: what its file times as {stage} holds {' and '.join(others)} once more, "
                    f"which it also times apart."
                )
    return notes


def _warmup_notes(measured: Sequence[_Measured]) -> list[str]:
    """Of totals whose first runs look like a warm-up that was not declared."""
    counted = [(found, statistics.warmup_count([entry.value for entry in found.observations])) for found in measured]
    return [
        f"{found.column.label}: the first {count:,} of {len(found.observations):,} runs took much longer than those "
        f"after, as if still warming up, and {'is' if count == 1 else 'are'} in the figures."
        for found, count in counted
        if count
    ]


def _throttling_notes(listed: Sequence[Configuration]) -> list[str]:
    """Of configurations whose GPU was slowed down in some of their runs."""
    counted = [(column, slowed_down(column.runs)) for column in listed]
    return [
        f"{column.label}: the GPU was slowed down in {len(slowed):,} of {len(column.runs):,} runs; their times are not "
        "what it can do."
        for column, slowed in counted
        if slowed
    ]
