"""One figure of two configurations over the samples that both measured, in pairs: differences and ratios of means.

Of every sample the mean of its repeats counts, so that a sample asked often weighs no more than the others.
Repeats of one request, which are no dataset, are paired by their number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from statistics import fmean

from evprof.core.run_log import RunLog
from evprof.metrics.configurations import Column
from evprof.metrics.statistics import Interval, mean_interval, ratio_interval

Read = Callable[[RunLog], float | None]


@dataclass(frozen=True)
class Compared:
    """Values of a figure before (the baseline's) and after (the other's). `is_paired`: the i-th belong together."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    is_paired: bool

    @property
    def count(self) -> int:
        """How many pairs, or of unpaired values the smaller number."""
        return min(len(self.before), len(self.after))

    @property
    def delta(self) -> float:
        """Mean after less mean before."""
        return fmean(self.after) - fmean(self.before)

    @property
    def delta_interval(self) -> Interval | None:
        """95 % interval of the difference; None for fewer than three pairs, and for values that are none."""
        if not self.is_paired:
            return None
        return mean_interval([after - before for before, after in zip(self.before, self.after, strict=True)])

    @property
    def ratio(self) -> float | None:
        """Mean after / mean before; None when before is 0."""
        base = fmean(self.before)
        return fmean(self.after) / base if base else None

    @property
    def ratio_interval(self) -> Interval | None:
        """95 % interval of the ratio; None below three values."""
        return ratio_interval(self.before, self.after, paired=self.is_paired)


def by_sample(column: Column, read: Read) -> dict[Hashable, float]:
    """The figure by sample (the mean of its repeats), of repeats of one request by repeat; only what was measured."""
    if not column.is_cell:
        return {run.info.repeat: value for run in column.runs if (value := read(run)) is not None}
    found: dict[Hashable, float] = {}
    for key, runs in column.samples().items():
        values = [value for run in runs if (value := read(run)) is not None]
        if values:
            found[key] = fmean(values)
    return found


def values_of(column: Column, read: Read) -> list[float]:
    """The figure of every sample, or repeat, that has it."""
    return list(by_sample(column, read).values())


def mean_of(column: Column, read: Read) -> float | None:
    """Mean over samples, or repeats; None when none measured it."""
    values = values_of(column, read)
    return fmean(values) if values else None


def compare(base: Column, other: Column, read: Read, other_read: Read | None = None) -> Compared | None:
    """The figure of two configurations, in pairs over what both measured, else each over all of its own.

    `other_read` reads the other's, where that is another figure. None when either measured nothing.
    """
    before, after = by_sample(base, read), by_sample(other, other_read or read)
    common = [key for key in before if key in after]
    if common:
        return Compared(tuple(before[key] for key in common), tuple(after[key] for key in common), True)
    if not before or not after:
        return None
    return Compared(tuple(before.values()), tuple(after.values()), False)
