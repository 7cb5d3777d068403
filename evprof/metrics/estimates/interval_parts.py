"""The parts of an estimate's interval: what scenes, engine processes and a machine's moods each contribute.

A part is an interval about 0: of the logarithm of a ratio, or of a mean or difference in its own units. Ratios are
taken in units of both sides' means (the delta method). A part is None where the runs say nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evprof.metrics.arithmetic.series import coefficient
from evprof.metrics.arithmetic.statistics import (
    FEWEST,
    Interval,
    Values,
    mean_interval,
    ratio_interval,
    student_quantile,
)
from evprof.metrics.estimates.observations import Observation, ObservedSide

IN_TURNS = 0.1
"""Squared correlation of side and order below which the sides count as measured in turns."""


def joined(parts: Iterable[Interval | None]) -> Interval | None:
    """Parts that have different reasons together: as squares, each end for itself; None without any."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return -math.hypot(*(part[0] for part in known)), math.hypot(*(part[1] for part in known))


def widest(parts: Iterable[Interval | None]) -> Interval | None:
    """Parts that tell the same spread in different ways: each end the farthest."""
    known = [part for part in parts if part is not None]
    return (min(part[0] for part in known), max(part[1] for part in known)) if known else None


def both_ways(reach: float) -> Interval:
    """As far down as up."""
    return -reach, reach


def mean_part(side: ObservedSide) -> Interval | None:
    """Of the mean of one engine process or several."""
    parts: list[Interval | None] = []
    if len(side.sessions) > 1:
        parts.append(both_ways(_reach(np.array([*side.by_session.values()]))))
    if len(side.scenes) >= FEWEST:
        values = side.by_scene(side.scenes)
        if found := mean_interval(values.tolist()):
            parts.append((found[0] - side.mean, found[1] - side.mean))
        if len(side.observations) == side.sample_count:
            return joined(parts)  # what neighbours have in common cannot be told from what scenes are like
    return joined(parts if len(side.sessions) > 1 else [*parts, _level_in_time(side)])


@dataclass(frozen=True, eq=False)
class Sides:
    """Two sides of a ratio or a difference."""

    base: ObservedSide
    other: ObservedSide
    is_ratio: bool

    @property
    def is_paired(self) -> bool:
        """Whether both have the same samples."""
        return self.base.has_samples_of(self.other)

    @property
    def is_apart(self) -> bool:
        """Whether no engine process made runs of both."""
        return self.base.sessions[0] not in self.other.sessions

    @property
    def is_repeated(self) -> bool:
        """Whether samples were asked more than once."""
        return all(len(side.observations) > side.sample_count for side in (self.base, self.other))

    @property
    def units(self) -> tuple[float, float]:
        """What values of the base and of the other are divided by."""
        return (self.base.mean, self.other.mean) if self.is_ratio else (1.0, 1.0)

    @property
    def is_blind(self) -> bool:
        """Whether a change of the machine's pace between the sides would go unseen: every scene was asked once, by one
        side after the other."""
        is_one = max(len(self.base.sessions), len(self.other.sessions)) == 1
        has_scenes = min(len(self.base.scenes), len(self.other.scenes)) >= FEWEST
        return is_one and has_scenes and self.base.is_timed and not (self._took_turns or self.is_repeated)

    def part(self) -> Interval | None:
        """What the runs themselves tell of the spread."""
        scenes = self._scenes()
        if max(len(self.base.sessions), len(self.other.sessions)) > 1:
            return joined((scenes, self._processes()))
        if scenes is None:
            return widest((self._pairs(), self._in_line()))
        if self._took_turns or not self.base.is_timed:
            return scenes
        return joined((scenes, self._in_line())) if self.is_repeated else widest((scenes, self._in_order()))

    def _scenes(self) -> Interval | None:
        if min(len(self.base.scenes), len(self.other.scenes)) < FEWEST:
            return None
        below = self.base.by_scene(self.base.scenes)
        above = self.other.by_scene(self.base.scenes if self.is_paired else self.other.scenes)
        return self._spread(below, above, is_paired=self.is_paired)

    def _spread(self, below: Values, above: Values, *, is_paired: bool) -> Interval | None:
        if self.is_ratio:
            found = ratio_interval(below.tolist(), above.tolist(), paired=is_paired)
            if found is None:
                return None
            ratio = float(above.mean() / below.mean())
            return math.log(found[0] / ratio), math.log(found[1] / ratio)
        if not is_paired:
            return both_ways(_welch(below, above))
        found = mean_interval((above - below).tolist())
        middle = float((above - below).mean())
        return None if found is None else (found[0] - middle, found[1] - middle)

    def _processes(self) -> Interval:
        one, two = (
            {name: value / unit for name, value in side.by_session.items()}
            for side, unit in zip((self.base, self.other), self.units, strict=True)
        )
        if self.is_apart:
            return both_ways(_welch(np.array([*one.values()]), np.array([*two.values()])))
        return both_ways(_reach(np.array([two[name] - one[name] for name in one])))

    @cached_property
    def _runs(self) -> list[tuple[Observation, int]]:
        """Those of both sides in order of time; of processes apart, one after the other."""
        runs = [(entry, 0) for entry in self.base.observations] + [(entry, 1) for entry in self.other.observations]
        return runs if self.is_apart else sorted(runs, key=lambda run: run[0].began_s)

    @cached_property
    def _columns(self) -> tuple[Values, Values]:
        """The side and the place in order of every run."""
        counts = len(self.base.observations), len(self.other.observations)
        sides, began_s = np.repeat([0.0, 1.0], counts), [*self.base.began_s, *self.other.began_s]
        ordered = sides if self.is_apart else sides[np.argsort(began_s, kind="stable")]
        return ordered, np.linspace(-0.5, 0.5, len(sides))

    @cached_property
    def _took_turns(self) -> bool:
        return float(np.corrcoef(*self._columns)[0, 1]) ** 2 <= IN_TURNS

    def _pairs(self) -> Interval | None:
        """Neighbours in time of one sample and both sides; None where not all runs are such pairs."""
        found = []
        for (one, first), (two, second) in zip(self._runs[::2], self._runs[1::2], strict=False):
            if first == second or one.sample != two.sample:
                return None
            found.append((two.value, one.value) if first else (one.value, two.value))
        if len(self._runs) % 2 or len(found) < FEWEST or not self._took_turns:
            return None
        return self._spread(*(np.array(values) for values in zip(*found, strict=True)), is_paired=True)

    def _in_line(self) -> Interval | None:
        """A level for each side and one line through time, every sample with a level of its own."""
        sides, place = self._columns
        values = np.array([entry.value / self.units[side] for entry, side in self._runs])
        samples = [entry.sample if self.is_paired else (side, entry.sample) for entry, side in self._runs]
        design = np.column_stack((np.ones(len(values)), sides, place))
        groups = np.zeros(len(sides)) if self.is_paired else sides
        return _about(self._difference, values, design, 1, samples=samples, groups=groups)

    def _in_order(self) -> Interval | None:
        """Of scenes asked once, one side after the other: their differences in order of time."""
        if not self.is_paired:
            return None
        below, above = (side.by_scene(self.base.scenes) for side in (self.base, self.other))
        values = above / self.units[1] - below / self.units[0]
        return _about(
            float(values.mean()), values, np.ones((len(values), 1)), 0, samples=(), groups=np.zeros(len(values))
        )

    @property
    def _difference(self) -> float:
        """Of the means in units of both."""
        return self.other.mean / self.units[1] - self.base.mean / self.units[0]


def _level_in_time(side: ObservedSide) -> Interval | None:
    """Of the mean, for these samples: repeats in order of time."""
    values, samples = side.observations.values, side.observations.layout.samples
    return _about(side.mean, values, np.ones((len(values), 1)), 0, samples=samples, groups=np.zeros(len(values)))


def _about(
    figure: float, values: Values, design: Values, column: int, *, samples: Sequence[Hashable], groups: Values
) -> Interval | None:
    """The interval of a coefficient about the figure that it tells, and with it inside."""
    found = coefficient(values, design, column, samples, groups)
    return None if found is None else (min(found[0] - figure, 0.0), max(found[1] - figure, 0.0))


def _reach(values: Values) -> float:
    """Half of Student's interval of a mean of two values or more."""
    return student_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))


def _welch(below: Values, above: Values) -> float:
    """Half of Welch's interval of a difference of means; a side of one value has the other's spread."""
    counts = len(below), len(above)
    if min(counts) == 1:
        most = max((below, above), key=len)
        return student_quantile(len(most) - 1) * float(most.std(ddof=1)) * math.sqrt(sum(1 / count for count in counts))
    parts = [float(values.var(ddof=1)) / len(values) for values in (below, above)]
    if not any(parts):
        return 0.0
    freedom = sum(parts) ** 2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return student_quantile(freedom) * math.sqrt(sum(parts))
