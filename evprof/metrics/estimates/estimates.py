"""The one rule for differences: a ratio, its 95 % interval or None, and the reason.

- Turns: both sides run once in each turn, in one engine process, on one sample, in an order drawn for that turn. From
  five turns on, the interval is Student's t over the logarithms of the turns' ratios. It is wider where neighbouring
  turns are alike, and where three or more processes ran the turns and differ more than the turns do.
- Otherwise the unit is the mean of an engine process, on the log scale: Welch's t, from three processes a side on that
  interleave in time.
- Several samples are paired by sample and clustered by scene: the jackknife over scenes, from five scenes on.
- Otherwise there is no interval, and nothing is called faster or slower.

Differences follow the same rule without logarithms. `docs/statistics.md` describes the rule and its coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.core.run_info import FEWEST_TURNS
from evprof.core.units import count_text
from evprof.core.vocabulary.figures import is_clear
from evprof.metrics.arithmetic.statistics import Interval, Values, holm, student_p, student_quantile
from evprof.metrics.estimates.observations import IMPORTED, Observation

FEWEST_PROCESSES, FEWEST_SCENES = 3, 5

MOST_ORDERED = 0.1
"""Squared correlation of side and order in time up to which the processes of both sides interleave."""

NO_COMMON_SAMPLE = "not called: the two sides have no sample in common"
ALL_ALIKE = "no interval: the values do not vary"
HAS_ZEROS = "no interval: some values are 0"
THESE_SAMPLES = "about these {count} samples only: fewer than 5 scenes"
UNKNOWN_ORDER = "the file does not record in which order its rows were measured"

_LARGEST_LOG = 700.0

Side = Sequence[Observation]


@dataclass(frozen=True)
class Verdict:
    """The other side compared with the baseline; ratios are None where the baseline's mean is not positive.

    `means` and `runs` are the mean and the numbers of the compared runs of each side. `pairs` counts the samples in
    pairs, None without any. `unit` is what the interval counts: "turns", "processes", "scenes", "" without interval.
    `reason` is empty or says why there is no interval, or what limits it. `p`: how often sides without a difference are
    as far apart.
    """

    ratio: float | None
    interval: Interval | None
    delta: float
    delta_interval: Interval | None
    means: tuple[float, float]
    runs: tuple[tuple[int, ...], tuple[int, ...]]
    pairs: int | None
    reason: str = ""
    unit: str = ""
    p: float | None = None

    @property
    def is_clear(self) -> bool:
        return is_clear(self.interval)

    def judge(self, *, lower_is_better: bool | None) -> str:
        """ "good" or "bad" for a clear ratio where one direction is better, else ""."""
        if lower_is_better is None or self.ratio is None or not self.is_clear:
            return ""
        return "good" if (self.ratio < 1) == lower_is_better else "bad"

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.runs[0]), len(self.runs[1])

    @property
    def count(self) -> int:
        """The number of samples in pairs, or of one sample the runs of the smaller side."""
        return self.pairs if self.pairs is not None and self.pairs > 1 else min(self.counts)


class _Spread(NamedTuple):
    """A middle with its standard error and degrees of freedom."""

    middle: float
    error: float
    freedom: float

    @property
    def reach(self) -> float:
        return student_quantile(self.freedom) * self.error

    @property
    def ends(self) -> Interval:
        return self.middle - self.reach, self.middle + self.reach

    @property
    def p(self) -> float:
        return student_p(abs(self.middle) / self.error, self.freedom) if self.error else float(not self.middle)


class _Turn(NamedTuple):
    """The values of both sides in one turn on one sample in one engine process."""

    below: float
    above: float
    sample: Hashable
    process: str


class _Compared(NamedTuple):
    """The runs that are compared, their unit, what limits them, and the spread of the difference (False) or of the
    logarithm of the ratio (True)."""

    below: Side
    above: Side
    unit: str
    note: str
    over: Callable[[bool], _Spread]


def verdict(base: Side, other: Side) -> Verdict | None:
    """Compares two sides over the samples that both have; None where a side is empty.

    Every sample weighs the same: its repeats count as their mean. Where turns, processes or scenes allow an interval,
    only their runs are compared.
    """
    if not base or not other:
        return None
    below, above, is_paired = _shared(base, other)
    found = (_in_turns(below, above) or _in_processes(below, above) or _in_files(below, above)) if is_paired else None
    logs = differences = None
    unit, reason = "", "" if found else _uncalled(below, above) if is_paired else NO_COMMON_SAMPLE
    if found is not None:
        below, above, unit, reason, over = found
        numbers = [entry.value for side in (below, above) for entry in side]
        if 0 in numbers and any(numbers):
            unit, reason = "", HAS_ZEROS
        elif all(len({entry.value for entry in side}) == 1 for side in (below, above)):
            unit, reason = "", ALL_ALIKE
        else:
            differences, logs = over(False), over(True) if min(numbers) > 0 else None
    means = _mean(below), _mean(above)
    delta, ratio = means[1] - means[0], means[1] / means[0] if means[0] > 0 else None
    return Verdict(
        ratio,
        _around(ratio, *(math.exp(min(end, _LARGEST_LOG)) for end in logs.ends))
        if logs and ratio is not None
        else None,
        delta,
        _around(delta, *differences.ends) if differences else None,
        means,
        (tuple(entry.run for entry in below), tuple(entry.run for entry in above)),
        len({entry.sample for entry in below}) if is_paired else None,
        reason,
        unit,
        logs.p if logs else None,
    )


def marked(rows: Sequence[Verdict | None]) -> list[bool]:
    """Which rows of one table differ: those that are clear by themselves and by Holm's correction over the table."""
    holds = iter(holm([row.p for row in rows if row is not None and row.p is not None]))
    return [row is not None and row.p is not None and next(holds) and row.is_clear for row in rows]


def mean_of(values: Side) -> float | None:
    """The mean over samples; of rates the sum of the totals by that of the divisors. None over nothing."""
    return _mean(values) if values else None


def _in_turns(below: Side, above: Side) -> _Compared | None:
    """Five scenes or five turns in which both sides ran."""
    grouped: list[dict[Hashable, list[Observation]]] = [{}, {}]
    for side, groups in zip((below, above), grouped, strict=True):
        for entry in side:
            if entry.turn is not None:
                groups.setdefault((entry.process, entry.sample, entry.turn), []).append(entry)
    keys = [key for key in grouped[0] if key in grouped[1]]
    one, two = ([entry for key in keys for entry in groups[key]] for groups in grouped)
    turns = []
    for key in keys:
        below_value, above_value = (fmean(entry.value for entry in groups[key]) for groups in grouped)
        turns.append(_Turn(below_value, above_value, grouped[0][key][0].sample, grouped[0][key][0].process))
    samples = {turn.sample for turn in turns}
    if len({entry.scene for entry in one}) >= FEWEST_SCENES:

        def over(is_log: bool) -> _Spread:
            return _widened(_over_scenes(one, two, is_log=is_log), turns, _levels(turns, is_log=is_log)[2])

        return _Compared(one, two, "scenes", "", over)
    if len(turns) - len(samples) < FEWEST_TURNS - 1:
        return None
    return _Compared(one, two, "turns", _limit(one), lambda is_log: _over_turns(turns, is_log=is_log))


def _in_processes(below: Side, above: Side) -> _Compared | None:
    """Three engine processes a side that measured that side alone, on all samples, and interleave in time."""
    both = {entry.process for entry in below} & {entry.process for entry in above}
    sides = [_by_process([entry for entry in side if entry.process not in both]) for side in (below, above)]
    one, two = ([entry for own in processes.values() for entry in own] for processes in sides)
    if min(map(len, sides)) < FEWEST_PROCESSES or {e.sample for e in one} != {e.sample for e in two}:
        return None
    if not _interleave(*sides):
        return None

    def over(is_log: bool) -> _Spread:
        means = [np.array([_mean(own) for own in processes.values()]) for processes in sides]
        levels, others = (_student(np.log(values) if is_log else values) for values in means)
        found = _joined(levels, others)._replace(middle=others.middle - levels.middle)
        scenes = {entry.scene for entry in one}
        return _joined(found, _over_scenes(one, two, is_log=is_log)) if len(scenes) >= FEWEST_SCENES else found

    return _Compared(one, two, "processes", _limit(one), over)


def _in_files(below: Side, above: Side) -> _Compared | None:
    """Five scenes in values whose order in time is unknown or does not matter."""
    entries = [*below, *above]
    if any(entry.began_s or entry.process not in ("", IMPORTED) for entry in entries):
        return None
    if len({entry.scene for entry in below}) < FEWEST_SCENES:
        return None
    note = UNKNOWN_ORDER if any(entry.process for entry in entries) else ""
    return _Compared(below, above, "scenes", note, lambda is_log: _over_scenes(below, above, is_log=is_log))


def _limit(values: Side) -> str:
    samples, scenes = {entry.sample for entry in values}, {entry.scene for entry in values}
    return THESE_SAMPLES.format(count=len(samples)) if len(samples) > 1 and len(scenes) < FEWEST_SCENES else ""


def _uncalled(below: Side, above: Side) -> str:
    """Why there is no interval, and, except for imported rows, the command that measures both sides."""
    entries = [*below, *above]
    samples, scenes = ({getattr(entry, name) for entry in entries} for name in ("sample", "scene"))
    if any(entry.process == IMPORTED for entry in entries):
        return f"not called: the file has {len(scenes)} of {FEWEST_SCENES} scenes"
    processes = [{entry.process for entry in side} for side in (below, above)]
    turns = [{(e.process, e.sample, e.turn) for e in side if e.turn is not None} for side in (below, above)]
    counts = [len(own) for own in processes]
    common = len(turns[0] & turns[1])
    if common and len(samples) == 1:
        reason = f"{common} of {FEWEST_TURNS} turns"
    elif common:
        reason = f"{count_text(common, 'turn')} on {len(samples)} samples of {count_text(len(scenes), 'scene')}"
    elif processes[0] & processes[1]:
        reason = "the sides did not run in turns"
    elif min(counts) >= FEWEST_PROCESSES:
        reason = "the processes of one side ran before those of the other"
    elif counts[0] != counts[1]:
        reason = f"{counts[0]} and {counts[1]} processes"
    else:
        reason = "one process each" if counts[0] == 1 else f"{counts[0]} processes each"
    modes = sorted({entry.mode for entry in entries}, reverse=True)
    command = f"run … --mode {','.join(modes)}" if len(modes) > 1 else "suite …"
    return f"not called: {reason}. `evprof {command} --repeat {FEWEST_TURNS}` measures both sides"


def _over_turns(turns: Sequence[_Turn], *, is_log: bool) -> _Spread:
    """Student's t over turns; each sample has a level of its own, and all samples weigh the same."""
    levels, counts, rest = _levels(turns, is_log=is_log)
    freedom = float(len(rest) - len(counts))
    square = float(rest @ rest)
    # Neighbouring turns that are alike tell less than independent ones.
    less = 1 + 2 * max(0.0, float(rest[1:] @ rest[:-1]) / square + 1 / len(rest)) if square else 1.0
    error = math.sqrt(less * square / freedom * float((1 / counts).sum())) / len(counts)
    return _widened(_Spread(float(levels.mean()), error, freedom / less), turns, rest)


def _over_scenes(below: Side, above: Side, *, is_log: bool) -> _Spread:
    """The difference of the means, or of their logarithms, with the jackknife over scenes (Tukey 1958).

    Its degrees of freedom are those of as many scenes that weigh the same.
    """
    sides = _by_scene(below), _by_scene(above)
    totals, divisors = np.moveaxis(np.array([[side[scene] for scene in sides[0]] for side in sides]), 2, 0)
    wholes, whole_divisors = (parts.sum(axis=1, keepdims=True) for parts in (totals, divisors))
    means, without = wholes / whole_divisors, (wholes - totals) / (whole_divisors - divisors)
    if is_log:
        means, without = np.log(means), np.log(without)
    count, rest = totals.shape[1], without[1] - without[0]
    shares = (totals / wholes if is_log else divisors / whole_divisors).mean(axis=0)
    freedom = float(1 / (shares @ shares)) - 1
    error = (count - 1) / math.sqrt(count) * float(rest.std(ddof=1))
    return _Spread(float(means[1, 0] - means[0, 0]), error, freedom)


def _levels(turns: Sequence[_Turn], *, is_log: bool) -> tuple[Values, Values, Values]:
    """By sample the mean over turns and their number; by turn what is left: of differences or logarithms of ratios."""
    below, above = (np.array([turn[side] for turn in turns]) for side in (0, 1))
    values = np.log(above / below) if is_log else above - below
    samples = _numbered(turn.sample for turn in turns)
    counts = np.bincount(samples).astype(np.float64)
    levels = np.bincount(samples, values) / counts
    return levels, counts, values - levels[samples]


def _widened(found: _Spread, turns: Sequence[_Turn], rest: Values) -> _Spread:
    """The spread of turns or scenes, or that of three or more engine processes that ran them, where it is wider."""
    processes = _numbered(turn.process for turn in turns)
    if processes.max() + 1 < FEWEST_PROCESSES:
        return found
    own = _student(np.bincount(processes, rest) / np.bincount(processes))._replace(middle=found.middle)
    return max(found, own, key=lambda spread: spread.reach)


def _student(values: Values) -> _Spread:
    """The spread of the mean of independent values."""
    return _Spread(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)), len(values) - 1)


def _joined(first: _Spread, *others: _Spread) -> _Spread:
    """Independent spreads together around the middle of the first (Welch, Biometrika 34, 1947)."""
    spreads = [spread for spread in (first, *others) if spread.error]
    if not spreads:
        return first
    whole = sum(spread.error**2 for spread in spreads)
    freedom = whole**2 / sum(spread.error**4 / spread.freedom for spread in spreads)
    return _Spread(first.middle, math.sqrt(whole), freedom)


def _around(value: float, low: float, high: float) -> Interval:
    return min(low, value), max(high, value)


def _numbered(keys: Iterable[Hashable]) -> npt.NDArray[np.int64]:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def _interleave(below: Mapping[str, Side], above: Mapping[str, Side]) -> bool:
    """Whether side and order in time of the processes correlate by MOST_ORDERED at most, by the middles of their
    times."""
    middles = sorted(
        (min(began) + max(began), side)
        for side, processes in enumerate((below, above))
        for own in processes.values()
        if (began := [entry.began_s for entry in own])
    )
    sides = np.array([side for _, side in middles], dtype=np.float64)
    return float(np.corrcoef(sides, np.arange(len(sides)))[0, 1]) ** 2 <= MOST_ORDERED


def _by_sample(values: Iterable[Observation]) -> dict[Hashable, tuple[float, float]]:
    """By sample the means of total and divisor over its repeats."""
    found: dict[Hashable, list[Observation]] = {}
    for entry in values:
        found.setdefault(entry.sample, []).append(entry)
    return {
        sample: (fmean(entry.value * entry.weight for entry in own), fmean(entry.weight for entry in own))
        for sample, own in found.items()
    }


def _mean(values: Iterable[Observation]) -> float:
    totals, divisors = zip(*_by_sample(values).values(), strict=True)
    return math.fsum(totals) / math.fsum(divisors)


def _by_scene(values: Side) -> dict[Hashable, tuple[float, float]]:
    """The sums of totals and divisors of the samples of every scene."""
    scene_of = {entry.sample: entry.scene for entry in values}
    found = dict.fromkeys(scene_of.values(), (0.0, 0.0))
    for sample, (total, divisor) in _by_sample(values).items():
        before = found[scene_of[sample]]
        found[scene_of[sample]] = before[0] + total, before[1] + divisor
    return found


def _by_process(values: Side) -> dict[str, list[Observation]]:
    """The values of every engine process that measured all samples."""
    found: dict[str, list[Observation]] = {}
    for entry in values:
        found.setdefault(entry.process, []).append(entry)
    whole = {entry.sample for entry in values}
    return {process: own for process, own in found.items() if {entry.sample for entry in own} == whole}


def _shared(base: Side, other: Side) -> tuple[Side, Side, bool]:
    """Both sides over the samples that both have, and whether there is one. A sample is of the base's scene.

    Of several machines that both have, a sample counts once for each.
    """
    machines = {entry.machine for side in (base, other) for entry in side}
    if len(machines) > 1 and {(e.machine, e.sample) for e in base} & {(e.machine, e.sample) for e in other}:
        base, other = (
            [entry._replace(sample=(entry.machine, entry.sample)) for entry in side] for side in (base, other)
        )
    both = {entry.sample for entry in base} & {entry.sample for entry in other}
    if not both:
        return base, other, False
    base, other = ([entry for entry in side if entry.sample in both] for side in (base, other))
    scene_of = {entry.sample: entry.scene for entry in base}
    return base, [entry._replace(scene=scene_of[entry.sample]) for entry in other], True
