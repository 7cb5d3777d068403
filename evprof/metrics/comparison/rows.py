"""One figure of several configurations side by side: values, differences and ratios to a baseline, intervals, counts.

Every value is a mean over samples, of each the mean of its repeats. Ratios follow the rule of `estimates`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from evprof.core.run_log import RunLog
from evprof.metrics.arithmetic import statistics
from evprof.metrics.comparison.differences import ratio_of
from evprof.metrics.comparison.figures import FigureReading, compared_figures
from evprof.metrics.configurations.gathering import BOTH_MODELS, Configuration
from evprof.metrics.estimates.estimates import ALL_ALIKE, Verdict, marked, mean_of, verdict
from evprof.metrics.estimates.observations import Observation, facts_of
from evprof.metrics.figures.energy import slowed_down
from evprof.metrics.figures.partition import StagePartition, name_of, shape_of
from evprof.metrics.figures.stages import END_TO_END

TOTAL = "total_ms"


@dataclass(frozen=True)
class ComparisonRow:
    """One figure of every column, with its difference from and ratio to the baseline's.

    `ci95`: the 95 % interval of the ratio where the runs allow one. `counts`: of how many samples (cells) or repeats
    each value is made; `paired_counts`: over how many samples the ratio is taken in pairs, None where it is not.
    `differing`: which columns differ from the baseline, by Holm's correction over the table; a counted figure that does
    not vary differs exactly. `notes`: what limits the figure, in sentences. `verdicts`: of every column.
    """

    metric: str
    unit: str
    lower_is_better: bool | None
    values: list[float | None] = field(default_factory=list)
    delta: list[float | None] = field(default_factory=list)
    ratio: list[float | None] = field(default_factory=list)
    intervals: list[list[float] | None] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    paired_counts: list[int | None] = field(default_factory=list)
    differing: list[bool] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    verdicts: list[Verdict | None] = field(default_factory=list)

    def judge(self, index: int) -> str:
        """ "good" or "bad" for a column that differs in a figure of which one direction is better, else ""."""
        found = self.verdicts[index]
        return found.judge(lower_is_better=self.lower_is_better) if found and self.differing[index] else ""

    @property
    def ci95(self) -> list[list[float] | None] | None:
        return self.intervals if any(self.intervals) else None

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
    shaped = [[(run, shape_of(run)) for run in column.runs] for column in listed]
    facts = [[facts_of(run, column.session) for run in column.runs] for column in listed]
    rows = []
    for reading in compared_figures(basis, {shape for runs in shaped for _, shape in runs}):
        observed = [list(_observed(reading, *runs)) for runs in zip(shaped, facts, strict=True)]
        if any(observed):
            notes = _notes(reading, listed, shaped)
            if reading.figure.key == TOTAL:
                notes += [*_warmup_notes(listed, observed), *_throttling_notes(listed)]
            row = _row(reading, listed, observed, baseline)
            row.notes[:0] = notes
            rows.append(row)
    marks = iter(marked([found for row in rows for found in row.verdicts]))
    for row in rows:
        row.differing[:] = [next(marks) or differs for differs in row.differing]
    return rows


def _observed(
    reading: FigureReading, shaped: Sequence[tuple[RunLog, StagePartition]], facts: Sequence[Observation]
) -> Iterator[Observation]:
    for (run, shape), own in zip(shaped, facts, strict=True):
        if (value := reading.read(run, shape)) is not None:
            seen = own._replace(value=value, weight=reading.over(run) or 1.0)
            # A figure that no process decides is as if one process had measured all of it.
            yield seen if reading.figure.varies_by_process else seen._replace(process="", began_s=0.0)


def _row(
    reading: FigureReading, listed: Sequence[Configuration], observed: Sequence[list[Observation]], baseline: int
) -> ComparisonRow:
    figure, base = reading.figure, observed[baseline]
    row = ComparisonRow(figure.key, figure.unit, figure.lower_is_better)
    for index, (column, seen) in enumerate(zip(listed, observed, strict=True)):
        value, found = mean_of(seen), None if index == baseline else verdict(base, seen)
        delta, ratio, pairs, differs = 0.0 if seen else None, ratio_of(value, value), None, False
        if index != baseline:
            delta, ratio = (None, None) if found is None else (found.delta, found.ratio)
        if found is not None and ratio is not None:
            pairs = found.pairs if column.is_cell or listed[baseline].is_cell else None
            if figure.is_counted:
                differs = delta != 0 and not _varies(base) and not _varies(seen)
            elif figure.has_interval and (reason := _limit(found, base, seen)):
                row.notes.append(f"{column.label}: {reason}.")
        # Times of both models are no other model's counterpart.
        is_mixed = bool(reading.stages) and (column.model == BOTH_MODELS) != (listed[baseline].model == BOTH_MODELS)
        tested = found if figure.has_interval and not is_mixed else None
        row.values.append(value)
        row.delta.append(delta)
        row.ratio.append(ratio)
        row.intervals.append(list(tested.interval) if tested and tested.interval else None)
        row.counts.append(len({entry.sample for entry in seen}) if column.is_cell else len(seen))
        row.paired_counts.append(pairs)
        row.differing.append(differs)
        row.verdicts.append(tested)
    return row


def _varies(seen: Sequence[Observation]) -> bool:
    """Whether repeats of a sample have different values."""
    return len({(entry.sample, entry.value) for entry in seen}) > len({entry.sample for entry in seen})


def _limit(found: Verdict, *sides: Sequence[Observation]) -> str:
    """What limits a difference: the reason of its verdict, or that it is not over all runs."""
    if found.reason:
        return "" if found.reason == ALL_ALIKE and not found.delta else found.reason
    if all(count == len(side) for count, side in zip(found.counts, sides, strict=True)):
        return ""
    one, two = (f"{count:,} of {len(side):,}" for count, side in zip(found.counts, sides, strict=True))
    where = "in processes of one side" if found.unit == "processes" else "in common turns"
    return f"difference and ratio over the {one} runs of the baseline and {two} of its own that ran {where}"


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


def _warmup_notes(listed: Sequence[Configuration], observed: Sequence[list[Observation]]) -> list[str]:
    """Of totals whose first runs look like a warm-up that was not declared."""
    counts = [statistics.warmup_count([entry.value for entry in seen]) for seen in observed]
    return [
        f"{column.label}: the first {count:,} of {len(seen):,} runs took much longer than those after, as if still "
        f"warming up, and {'is' if count == 1 else 'are'} in the figures."
        for column, seen, count in zip(listed, observed, counts, strict=True)
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
