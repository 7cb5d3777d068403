"""One figure of several configurations side by side: values, differences and ratios to a baseline, intervals, counts.

Every value is a mean over samples, of each the mean of its repeats, and compared over the samples that both measured,
in pairs. Ratios and their intervals are `estimates`' own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evprof.core.run_log import RunLog
from evprof.metrics.figures.stages import END_TO_END

if TYPE_CHECKING:
    from evprof.metrics.comparison.figures import FigureReading
    from evprof.metrics.configurations.gathering import Configuration
    from evprof.metrics.estimates.estimates import Estimate, ProcessSpread
    from evprof.metrics.estimates.observations import Layout, Observations
    from evprof.metrics.figures.partition import StagePartition

TOTAL = "total_ms"

UNKNOWN_MEMORY = "one session each: how much the memory of processes differs is not known (--sessions 3)"


@dataclass(frozen=True)
class ComparisonRow:
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
        """Whether a column's value is another than the baseline's: the ratio's interval leaves 1 out. Without an
        interval nothing is claimed."""
        interval = self.ci95[index] if self.ci95 else None
        return interval is not None and not interval[0] <= 1 <= interval[1]

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


def comparison_rows(
    listed: Sequence[Configuration], baseline: int = 0, basis: str = END_TO_END, processes: ProcessSpread | None = None
) -> list[ComparisonRow]:
    """Every figure that at least one column has, against the column at index `baseline`.

    `processes`: how much engine processes differ on the machine that measured, where that is known.
    """
    return [row for row in rows_one_by_one(listed, baseline, basis, processes) if row is not None]


def rows_one_by_one(
    listed: Sequence[Configuration], baseline: int = 0, basis: str = END_TO_END, processes: ProcessSpread | None = None
) -> Iterator[ComparisonRow | None]:
    """The same, each figure worked out when it is asked for; None for one that no column has."""
    from evprof.metrics.comparison.figures import compared_figures
    from evprof.metrics.estimates.observations import Layout
    from evprof.metrics.figures.partition import shape_of

    shaped = [[(run, shape_of(run)) for run in column.runs] for column in listed]
    shapes = {shape for runs in shaped for _, shape in runs}
    known = [Layout.of_runs(column.runs, column.session) for column in listed]
    for reading in compared_figures(basis, shapes):
        measured = [_measured(*entry, reading) for entry in zip(listed, known, shaped, strict=True)]
        if not any(measured):
            yield None
            continue
        notes = _notes(reading, listed, shaped)
        if reading.figure.key == TOTAL:
            notes += [*_warmup_notes(measured), *_throttling_notes(listed)]
        yield _row(reading, measured, baseline, notes, processes)


def ratio_of(value: float | None, base: float | None) -> float | None:
    """value / base; None when either is missing or the base is 0."""
    return None if value is None or not base else value / base


@dataclass(frozen=True)
class _Measured:
    """One figure of one column, as far as measured."""

    column: Configuration
    observations: Observations

    def __bool__(self) -> bool:
        return bool(self.observations)

    @property
    def count(self) -> int:
        """Of how many samples, or repeats of one request, the value is made."""
        return self.observations.side.sample_count if self and self.column.is_cell else len(self.observations)

    @property
    def value(self) -> float | None:
        """The mean over samples."""
        return self.observations.side.mean if self else None


@dataclass(frozen=True)
class _Against:
    """One column's figure against the baseline's."""

    ratio: float | None = None
    delta: float | None = None
    ci95: list[float] | None = None
    paired: int | None = None
    note: str = ""


def _measured(
    column: Configuration, layout: Layout, runs: Sequence[tuple[RunLog, StagePartition]], reading: FigureReading
) -> _Measured:
    from evprof.metrics.estimates.observations import Observations

    values = np.array([reading.read(run, shape) for run, shape in runs], dtype=np.float64)
    shared = layout if reading.figure.varies_by_process else layout.of_one_process
    return _Measured(column, Observations.read(values, shared))


def _row(
    reading: FigureReading,
    measured: Sequence[_Measured],
    baseline: int,
    notes: Sequence[str],
    processes: ProcessSpread | None,
) -> ComparisonRow:
    base = measured[baseline]
    against = [
        _itself(base) if index == baseline else _against(base, found, reading, processes)
        for index, found in enumerate(measured)
    ]
    intervals = [found.ci95 for found in against]
    said = [
        f"{found.column.label}: {note}."
        for found, one in zip(measured, against, strict=True)
        for note in (one.note, _left_out(base, found))
        if note
    ]
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
        [*notes, *said],
    )


def _itself(base: _Measured) -> _Against:
    return _Against(ratio_of(base.value, base.value), 0.0 if base else None)


def _against(base: _Measured, other: _Measured, reading: FigureReading, processes: ProcessSpread | None) -> _Against:
    from evprof.metrics.estimates.estimates import UNKNOWN_PROCESSES, difference_of
    from evprof.metrics.estimates.estimates import ratio_of as estimated_ratio

    known = processes if reading.figure.is_timed else None  # of times
    found = estimated_ratio(base.observations, other.observations, known)
    if found is None:
        difference = difference_of(base.observations, other.observations, known)
        return _Against(None, difference.value) if difference else _Against()
    interval = found.interval
    if reading.figure.is_counted and interval is None and _never_varies(base) and _never_varies(other):
        interval, found = (found.value, found.value), replace(found, note="")
    if found.note == UNKNOWN_PROCESSES and processes is not known:
        found = replace(found, note=UNKNOWN_MEMORY)
    return _Against(
        found.value,
        _difference(found),
        None if interval is None else list(interval),
        found.pairs if base.column.is_cell or other.column.is_cell else None,
        found.note,
    )


def _left_out(base: _Measured, other: _Measured) -> str:
    """Which runs are in the values alone: where both sides share engine processes, they are compared within these."""
    sides = base.observations.layout, other.observations.layout
    both = sides[0].distinct["sessions"] & sides[1].distinct["sessions"]
    alone = [sum(session not in both for session in side.sessions) for side in sides]
    if not both or not any(alone):
        return ""
    told = zip(alone, (base, other), ("the baseline", "its own"), strict=True)
    runs = " and ".join(f"{count:,} of {len(of.observations):,} runs of {whose}" for count, of, whose in told if count)
    return f"differences and ratios leave out {runs}, whose engine process measured one of the two only"


def _difference(found: Estimate) -> float:
    return found.means[1] - found.means[0]


def _never_varies(measured: _Measured) -> bool:
    return len({(entry.sample, entry.value) for entry in measured.observations}) == len(
        {entry.sample for entry in measured.observations}
    )


def _notes(
    reading: FigureReading, listed: Sequence[Configuration], shaped: Sequence[Sequence[tuple[RunLog, StagePartition]]]
) -> list[str]:
    from evprof.metrics.figures.partition import name_of

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
    """Of totals whose first ones look like warm-up that nobody set apart."""
    from evprof.metrics.arithmetic import statistics

    counted = [(found, statistics.warmup_count(found.observations.values.tolist())) for found in measured]
    return [
        f"{found.column.label}: the first {count:,} of {len(found.observations):,} runs took much longer than those "
        f"after, as if still warming up, and {'is' if count == 1 else 'are'} in the figures."
        for found, count in counted
        if count
    ]


def _throttling_notes(listed: Sequence[Configuration]) -> list[str]:
    """Of configurations whose GPU was slowed down in some of their runs."""
    from evprof.metrics.figures.throttling import slowed_down

    counted = [(column, slowed_down(column.runs)) for column in listed]
    return [
        f"{column.label}: the GPU was slowed down in {len(slowed):,} of {len(column.runs):,} runs; their times are not "
        "what it can do."
        for column, slowed in counted
        if slowed
    ]
