"""Means, ratios and differences of runs with 95 % intervals that know what the runs share.

Values come as observations: what was measured, of which sample and scene, in which engine process, and when. Repeats
of a sample count as one value, their mean. What an interval is made of, from the top:

- several engine processes a side: Student's t over the processes' own figures, in pairs where both sides ran in each;
- one process on each side, not the same: what processes differ by on this machine, where that is known;
- three scenes or more: the spread from scene to scene (`statistics`), in pairs where both sides saw the same;
- fewer scenes: repeats in order of time. Where the sides took turns, each two neighbours are a pair; else a line
  through time with a level for each side, whose errors are alike from neighbour to neighbour (`series`).

The benchmark `coverage` measures what these intervals hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evprof.metrics.arithmetic.statistics import FEWEST, Interval, student_quantile
from evprof.metrics.estimates.interval_parts import Sides, both_ways, joined, mean_part
from evprof.metrics.estimates.observations import Observation, Observations, Read, are_apart, observe, shared

__all__ = [
    "Estimate",
    "Observation",
    "ProcessSpread",
    "Read",
    "difference_of",
    "mean_of",
    "observe",
    "ratio_of",
]

FEW_RUNS = "fewer than three runs a side"
UNKNOWN_SPREAD = "too few runs to tell how much they differ"
ASKED_ONCE = "fewer than three scenes a side, and samples asked only once: nothing tells how much runs differ"
UNKNOWN_PROCESSES = (
    "one session each: how much processes differ here is not known (evprof bench repeatability, or --sessions 3)"
)

UNSEEN_PACE = (
    "one side after the other, each sample once: a change of the machine's pace between them would not be seen"
)

OTHER_MACHINES = "no sample was measured on one machine by both sides: what machines differ by is in it"


@dataclass(frozen=True)
class ProcessSpread:
    """How much fresh engine processes differ on a machine: the standard deviation of their mean times as a part of the
    mean, and the degrees of freedom it was measured with."""

    relative_sd: float
    degrees: int

    @property
    def reach(self) -> float:
        """Half the 95 % interval of one process's level, as a part of it."""
        return student_quantile(self.degrees) * self.relative_sd


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval; None with `note` saying why where the data allow none.

    `counts` and `sessions` are the runs and engine processes behind it: of the baseline and of the other, or of one
    side, `means` their means. `pairs` counts the samples taken in pairs; None where there were none.
    """

    value: float
    interval: Interval | None
    counts: tuple[int, ...]
    sessions: tuple[int, ...]
    pairs: int | None = None
    note: str = ""
    means: tuple[float, ...] = ()

    def differs_from(self, value: float) -> bool:
        """Whether the interval leaves `value` out; without an interval nothing is claimed."""
        return self.interval is not None and not self.interval[0] <= value <= self.interval[1]


def mean_of(values: Sequence[Observation], processes: ProcessSpread | None = None) -> Estimate | None:
    """The mean, every sample weighing the same; None over nothing.

    Of one engine process it is that process's mean, unless `processes` tells how much others differ.
    """
    if not values:
        return None
    side = Observations.of(values).side
    counts, sessions = (len(values),), (len(side.sessions),)
    if len(values) < FEWEST:
        return Estimate(side.mean, None, counts, sessions, note="fewer than three runs")
    part = mean_part(side)
    if part is None:
        return Estimate(side.mean, None, counts, sessions, note=UNKNOWN_SPREAD)
    if processes is not None and len(side.sessions) == 1:
        part = joined((part, both_ways(processes.reach * abs(side.mean)))) or part
    return Estimate(side.mean, (side.mean + part[0], side.mean + part[1]), counts, sessions)


def ratio_of(
    base: Sequence[Observation], other: Sequence[Observation], processes: ProcessSpread | None = None
) -> Estimate | None:
    """Mean of other / mean of base, over the engine processes and the samples both have where they share any.

    None where either is empty or the base's mean is not positive. `processes`: how much engine processes differ here.
    """
    return _compared(base, other, processes, is_ratio=True)


def difference_of(
    base: Sequence[Observation], other: Sequence[Observation], processes: ProcessSpread | None = None
) -> Estimate | None:
    """Mean of other - mean of base, like `ratio_of`, with the spread of both sides in the interval."""
    return _compared(base, other, processes, is_ratio=False)


def _compared(
    base: Sequence[Observation], other: Sequence[Observation], processes: ProcessSpread | None, *, is_ratio: bool
) -> Estimate | None:
    if not base or not other:
        return None
    sides = Sides(*shared(base, other), is_ratio)
    below, above = sides.base.mean, sides.other.mean
    if is_ratio and below <= 0:
        return None
    value = above / below if is_ratio else above - below
    part, note = _part(sides, processes)
    if are_apart(base, other):
        note = f"{note}; {OTHER_MACHINES}" if note else OTHER_MACHINES
    interval = None
    if part is not None:
        ends = [value * math.exp(end) if is_ratio else value + end for end in part]
        interval = min(ends[0], value), max(ends[1], value)
    return Estimate(
        value,
        interval,
        (len(sides.base.observations), len(sides.other.observations)),
        (len(sides.base.sessions), len(sides.other.sessions)),
        sides.base.sample_count if sides.is_paired else None,
        note,
        (below, above),
    )


def _part(sides: Sides, processes: ProcessSpread | None) -> tuple[Interval | None, str]:
    """The interval about 0, of the ratio's logarithm or of the difference, and what has to be said of it."""
    if min(len(sides.base.observations), len(sides.other.observations)) < FEWEST:
        return None, FEW_RUNS
    if sides.is_ratio and sides.other.mean <= 0:
        return None, "no interval, for its mean is not above 0"
    is_alone = sides.is_apart and len(sides.base.sessions) == len(sides.other.sessions) == 1
    if is_alone and processes is None:
        return None, UNKNOWN_PROCESSES
    part = sides.part()
    if part is None:
        has_scenes = min(len(sides.base.scenes), len(sides.other.scenes)) >= FEWEST
        return None, UNKNOWN_SPREAD if has_scenes or sides.is_repeated else ASKED_ONCE
    if not is_alone or processes is None:
        return part, UNSEEN_PACE if sides.is_blind else ""
    size = math.sqrt(2) if sides.is_ratio else math.hypot(sides.base.mean, sides.other.mean)
    usual = f"{100 * processes.relative_sd:.2g} %"
    return (
        joined((part, both_ways(processes.reach * size))),
        f"one session each: process-to-process differences of {usual} are usual here",
    )
