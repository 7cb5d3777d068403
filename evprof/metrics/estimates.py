"""Means, ratios and differences of runs with 95 % intervals that know what the runs share.

Values come as observations: what was measured, of which sample and scene, in which engine process, and when. Repeats
of one sample are one unit, samples of one scene move together, and engine processes differ from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from evprof.core.run_log import RunLog
from evprof.metrics.baselines import engine_session
from evprof.metrics.configurations import sample_key
from evprof.metrics.statistics import Interval, mean_interval, ratio_interval

Read = Callable[[RunLog], float | None]


@dataclass(frozen=True)
class Observation:
    """One value: of which `sample` and `scene`, made by which engine process, and when (seconds on any one clock)."""

    value: float
    sample: Hashable = ""
    scene: Hashable = ""
    session: str = ""
    began_s: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval; None with `note` saying why where the data allow none.

    `counts` and `sessions` are the runs and engine processes behind it: of the baseline and of the other, or of one
    side. `pairs` counts the samples taken in pairs; None where there were none.
    """

    value: float
    interval: Interval | None
    counts: tuple[int, ...]
    sessions: tuple[int, ...]
    pairs: int | None = None
    note: str = ""

    def differs_from(self, value: float) -> bool:
        """Whether the interval leaves `value` out; without an interval nothing is claimed."""
        return self.interval is not None and not self.interval[0] <= value <= self.interval[1]


@dataclass(frozen=True)
class ProcessSpread:
    """How much engine processes differ on a machine: relative standard deviation, and its degrees of freedom."""

    relative_sd: float
    degrees: int


def observe(runs: Iterable[RunLog], read: Read) -> list[Observation]:
    """The figure of every run that has it."""
    return [
        Observation(value, sample_key(run), sample_key(run), engine_session(run.info), _began_s(run))
        for run in runs
        if (value := read(run)) is not None
    ]


def mean_of(values: Sequence[Observation]) -> Estimate | None:
    """The mean, every sample weighing the same; None over nothing."""
    if not values:
        return None
    each = [entry.value for entry in values]
    return Estimate(fmean(each), mean_interval(each), (len(each),), (_sessions(values),))


def ratio_of(
    base: Sequence[Observation], other: Sequence[Observation], processes: ProcessSpread | None = None
) -> Estimate | None:
    """Mean of other / mean of base, over the samples both have where they share any; None where either is empty or
    the base's mean is not positive."""
    if not base or not other or (below := fmean(entry.value for entry in base)) <= 0:
        return None
    one, two = [entry.value for entry in base], [entry.value for entry in other]
    return Estimate(
        fmean(two) / below,
        ratio_interval(one, two, paired=False),
        (len(one), len(two)),
        (_sessions(base), _sessions(other)),
    )


def difference_of(
    base: Sequence[Observation], other: Sequence[Observation], processes: ProcessSpread | None = None
) -> Estimate | None:
    """Mean of other - mean of base, like `ratio_of`, with the spread of both sides in the interval."""
    if not base or not other:
        return None
    one, two = [entry.value for entry in base], [entry.value for entry in other]
    within = mean_interval([value - fmean(one) for value in two])
    return Estimate(fmean(two) - fmean(one), within, (len(one), len(two)), (_sessions(base), _sessions(other)))


def _sessions(values: Sequence[Observation]) -> int:
    return len({entry.session for entry in values})


def _began_s(run: RunLog) -> float:
    if run.info.start_ns is not None:
        return run.info.start_ns / 1e9
    try:
        return datetime.fromisoformat(run.info.started_at).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
