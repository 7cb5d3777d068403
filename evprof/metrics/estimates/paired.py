"""A figure of one configuration over its samples, and of two configurations over the samples that both measured."""

from __future__ import annotations

from collections.abc import Hashable
from statistics import fmean

from evprof.metrics.configurations.gathering import Configuration, sample_key
from evprof.metrics.estimates.estimates import Read, Verdict, observe, verdict


def by_sample(column: Configuration, read: Read) -> dict[Hashable, float]:
    """The figure by sample (the mean of its repeats), of repeats of one request by repeat; only what was measured."""
    found: dict[Hashable, list[float]] = {}
    for run in column.runs:
        if (value := read(run)) is not None:
            key: Hashable = sample_key(run) if column.is_cell else run.info.repeat
            found.setdefault(key, []).append(value)
    return {key: fmean(values) for key, values in found.items()}


def values_of(column: Configuration, read: Read) -> list[float]:
    return list(by_sample(column, read).values())


def mean_of(column: Configuration, read: Read) -> float | None:
    """Mean over samples, or repeats; None when none measured it."""
    values = values_of(column, read)
    return fmean(values) if values else None


def compare(base: Configuration, other: Configuration, read: Read, other_read: Read | None = None) -> Verdict | None:
    """The verdict on a figure of two configurations; None when either measured nothing.

    `other_read` reads the other's, where that is another figure.
    """
    return verdict(observe(base.runs, read, base.session), observe(other.runs, other_read or read, other.session))
