"""One figure of two configurations over the samples that both measured, in pairs: differences and ratios of means.

Of every sample the mean of its repeats counts, so that a sample asked often weighs no more than the others.
Repeats of one request, which are no dataset, are paired by their number.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean

from evprof.metrics.arithmetic.statistics import Interval
from evprof.metrics.configurations.gathering import Configuration, on_machines_of_both
from evprof.metrics.estimates.estimates import Observation, Read, Verdict, observe, verdict


@dataclass(frozen=True)
class Compared:
    """Values of a figure before (the baseline's) and after (the other's). `is_paired`: the i-th belong together.

    `observations` are the runs behind both; without them there are no intervals.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    is_paired: bool
    observations: tuple[Sequence[Observation], Sequence[Observation]] | None = field(default=None, compare=False)

    @property
    def count(self) -> int:
        return min(len(self.before), len(self.after))

    @property
    def delta(self) -> float:
        return fmean(self.after) - fmean(self.before)

    @property
    def ratio(self) -> float | None:
        """Mean after / mean before; None when before is 0."""
        base = fmean(self.before)
        return fmean(self.after) / base if base else None

    @property
    def delta_interval(self) -> Interval | None:
        """95 % interval of the difference."""
        return self.verdict.delta_interval if self.verdict else None

    @property
    def ratio_interval(self) -> Interval | None:
        """95 % interval of the ratio."""
        return self.verdict.interval if self.verdict else None

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict over the runs behind both sides; None without runs."""
        return verdict(*self.observations) if self.observations else None


def by_sample(column: Configuration, read: Read) -> dict[Hashable, float]:
    """The figure by sample (the mean of its repeats), of repeats of one request by repeat; only what was measured."""
    if not column.is_cell:
        return {run.info.repeat: value for run in column.runs if (value := read(run)) is not None}
    found: dict[Hashable, float] = {}
    for key, runs in column.samples().items():
        values = [value for run in runs if (value := read(run)) is not None]
        if values:
            found[key] = fmean(values)
    return found


def values_of(column: Configuration, read: Read) -> list[float]:
    return list(by_sample(column, read).values())


def mean_of(column: Configuration, read: Read) -> float | None:
    """Mean over samples, or repeats; None when none measured it."""
    values = values_of(column, read)
    return fmean(values) if values else None


def compare(base: Configuration, other: Configuration, read: Read, other_read: Read | None = None) -> Compared | None:
    """The figure of two configurations, in pairs over what both measured, else each over all of its own.

    Of several machines those runs count whose sample one machine measured for both. `other_read` reads the other's,
    where that is another figure. None when either measured nothing.
    """
    if base.is_cell and other.is_cell:
        sides = on_machines_of_both(base, other)
        base, other = (replace(side, runs=tuple(runs)) for side, runs in zip((base, other), sides, strict=True))
    before, after = by_sample(base, read), by_sample(other, other_read or read)
    runs = observe(base.runs, read, base.session), observe(other.runs, other_read or read, other.session)
    common = [key for key in before if key in after]
    if common:
        return Compared(tuple(before[key] for key in common), tuple(after[key] for key in common), True, runs)
    if not before or not after:
        return None
    return Compared(tuple(before.values()), tuple(after.values()), False, runs)
