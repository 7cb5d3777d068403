"""The one rule for means and differences: a value, its 95 % interval or None, and the reason.

- Turns: runs of both sides that follow each other in one engine process, on one sample. From five turns on, the
  interval is Student's t over the logarithms of their ratios.
- Otherwise the unit is the mean of an engine process, on the log scale: Welch's t, from three processes a side on.
- Several samples are paired by sample and clustered by scene: Student's t over scenes, from five scenes on.
- Otherwise there is no interval, and nothing is called faster or slower.

Differences follow the same rule without logarithms. `docs/statistics.md` describes the rule and its coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from statistics import fmean
from typing import NamedTuple

import numpy as np

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import is_clear
from evprof.metrics.arithmetic.statistics import Interval, Values, student_quantile
from evprof.metrics.configurations.baselines import engine_session
from evprof.metrics.configurations.gathering import machine_of, sample_key

FEWEST_TURNS, FEWEST_PROCESSES, FEWEST_SCENES = 5, 3, 5

MOST_ORDERED = 0.1
"""Squared correlation of side and time below which neighbouring runs of both sides are turns and not two blocks."""

UNCALLED = (
    "not called: fewer than 5 turns in one process and fewer than 3 processes a side; "
    "`evprof suite … --sessions 3` measures both sides"
)
NO_COMMON_SAMPLE = "not called: the two sides have no sample in common"
ALL_ALIKE = "no interval: the values do not vary"
HAS_ZEROS = "no interval: some values are 0"
THESE_SAMPLES = "about these samples only: fewer than 5 scenes"
ONE_PROCESS = "no interval: fewer than 5 scenes and fewer than 3 engine processes"

_ROUNDING = 1e-12

Read = Callable[[RunLog], float | None]


class Observation(NamedTuple):
    """One value: of which `sample` and `scene`, in which engine process on which `machine`, and when in seconds."""

    value: float
    sample: Hashable = ""
    scene: Hashable = ""
    process: str = ""
    began_s: float = 0.0
    machine: str = ""


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; `note` gives the reason where there is none. `count` is the number of runs."""

    value: float
    interval: Interval | None
    count: int
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """The other side compared with the baseline; ratios are None where the baseline's mean is not positive.

    `means` and `counts` are the mean and the number of runs of each side. `pairs` counts the samples in pairs, None
    without any. `reason` is empty or says why there is no interval, or what limits it.
    """

    ratio: float | None
    interval: Interval | None
    delta: float
    delta_interval: Interval | None
    means: tuple[float, float]
    counts: tuple[int, int]
    pairs: int | None
    reason: str = ""

    @property
    def is_clear(self) -> bool:
        return is_clear(self.interval)

    @property
    def count(self) -> int:
        """The number of samples in pairs, or of one sample the runs of the smaller side."""
        return self.pairs if self.pairs is not None and self.pairs > 1 else min(self.counts)


@dataclass(frozen=True)
class _Spread:
    """Middle and half width of the interval of the log ratio, where all values are positive, and of the difference."""

    log_ratio: tuple[float, float] | None
    delta: tuple[float, float]


def verdict(base: Sequence[Observation], other: Sequence[Observation]) -> Verdict | None:
    """Compares two sides over the engine processes and samples that both have; None where a side is empty.

    Every sample weighs the same: its repeats count as their mean.
    """
    if not base or not other:
        return None
    one, two, is_paired = _shared(list(base), list(other))
    means = _mean(one), _mean(two)
    delta, ratio = means[1] - means[0], means[1] / means[0] if means[0] > 0 else None
    spread, reason = _spread(one, two, is_paired=is_paired)
    interval = delta_interval = None
    if spread is not None:
        delta_interval = _around(delta, *spread.delta)
        if spread.log_ratio is not None and ratio is not None:
            middle, reach = spread.log_ratio
            low, high = math.exp(middle - reach), math.exp(middle + reach)
            interval = min(low, ratio), max(high, ratio)
    counts = len(one), len(two)
    pairs = len({entry.sample for entry in one}) if is_paired else None
    return Verdict(ratio, interval, delta, delta_interval, means, counts, pairs, reason)


def mean_of(values: Sequence[Observation]) -> Estimate | None:
    """The mean over samples, with an interval over scenes, engine processes or both; None over nothing."""
    if not values:
        return None
    mean, numbers = _mean(values), [entry.value for entry in values]
    if 0 in numbers:
        return Estimate(mean, None, len(values), HAS_ZEROS)
    units = []
    if len({entry.scene for entry in values}) >= FEWEST_SCENES:
        units.append(np.array(list(_by_scene(values).values())))
    if len(processes := _by_process(values)) >= FEWEST_PROCESSES:
        units.append(np.array(processes))
    reach = math.hypot(*(_student(unit) for unit in units)) if units else 0.0
    if reach <= _ROUNDING * abs(mean):
        return Estimate(mean, None, len(values), ALL_ALIKE if units else ONE_PROCESS)
    if min(numbers) < 0:
        return Estimate(mean, (mean - reach, mean + reach), len(values))
    factor = math.exp(reach / mean)
    return Estimate(mean, (mean / factor, mean * factor), len(values))


def _spread(
    base: Sequence[Observation], other: Sequence[Observation], *, is_paired: bool
) -> tuple[_Spread | None, str]:
    """The spread by the first part of the rule that applies, and what limits it."""
    numbers = [entry.value for entry in (*base, *other)]
    if 0 in numbers and any(numbers):
        return None, HAS_ZEROS
    is_positive, note = min(numbers) > 0, ""
    turns, is_mixed = _turns(base, other)
    scenes = {entry.scene for entry in base}
    has_scenes = is_paired and len(scenes) >= FEWEST_SCENES
    processes = [_by_process(side) for side in (base, other)]
    if has_scenes and is_mixed:
        found = _over_scenes(base, other, is_positive=is_positive)
    elif is_paired and is_mixed and len(turns) - len({sample for *_, sample in turns}) >= FEWEST_TURNS - 1:
        found = _over_turns(turns, is_positive=is_positive)
        note = THESE_SAMPLES if len({entry.sample for entry in base}) > 1 else ""
    elif min(map(len, processes)) >= FEWEST_PROCESSES:
        found = _over_processes(*map(np.array, processes), is_positive=is_positive)
        if has_scenes:
            found = _joined(found, _over_scenes(base, other, is_positive=is_positive))
    else:
        return None, UNCALLED if is_paired else NO_COMMON_SAMPLE
    if all(len({entry.value for entry in side}) == 1 for side in (base, other)):
        return None, ALL_ALIKE
    return found, note


def _over_turns(turns: Sequence[tuple[float, float, Hashable]], *, is_positive: bool) -> _Spread:
    """Student's t over turns; each sample has a level of its own, and all samples weigh the same."""
    below, above = (np.array([turn[side] for turn in turns]) for side in (0, 1))
    samples = {sample: number for number, sample in enumerate(dict.fromkeys(turn[2] for turn in turns))}
    places = np.array([samples[turn[2]] for turn in turns])

    def pooled(values: Values) -> tuple[float, float]:
        counts = np.bincount(places)
        levels = np.bincount(places, values) / counts
        freedom = len(values) - len(counts)
        variance = float(((values - levels[places]) ** 2).sum()) / freedom
        error = math.sqrt(variance * float((1 / counts).sum())) / len(counts)
        return float(levels.mean()), student_quantile(freedom) * error

    return _Spread(pooled(np.log(above / below)) if is_positive else None, pooled(above - below))


def _over_scenes(base: Sequence[Observation], other: Sequence[Observation], *, is_positive: bool) -> _Spread:
    """Student's t over the scenes' shares of the difference of the means, and of the logarithm of their ratio."""
    by_scene = _by_scene(base), _by_scene(other)
    below, above = (np.array([side[scene] for scene in by_scene[0]]) for side in by_scene)
    delta = float(above.mean() - below.mean()), _student(above - below)
    if not is_positive:
        return _Spread(None, delta)
    middle = math.log(above.mean() / below.mean())
    return _Spread((middle, _student(above / above.mean() - below / below.mean())), delta)


def _over_processes(below: Values, above: Values, *, is_positive: bool) -> _Spread:
    """Welch's t over the means of engine processes."""

    def welch(one: Values, two: Values) -> tuple[float, float]:
        parts = [float(side.var(ddof=1)) / len(side) for side in (one, two)]
        middle, whole = float(two.mean() - one.mean()), sum(parts)
        if not whole:
            return middle, 0.0
        freedom = whole**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (one, two), strict=True))
        return middle, student_quantile(freedom) * math.sqrt(whole)

    return _Spread(welch(np.log(below), np.log(above)) if is_positive else None, welch(below, above))


def _joined(one: _Spread, two: _Spread) -> _Spread:
    """Two sources of spread together, around the middle of the first."""
    ratio = None
    if one.log_ratio is not None and two.log_ratio is not None:
        ratio = one.log_ratio[0], math.hypot(one.log_ratio[1], two.log_ratio[1])
    return _Spread(ratio, (one.delta[0], math.hypot(one.delta[1], two.delta[1])))


def _turns(
    base: Sequence[Observation], other: Sequence[Observation]
) -> tuple[list[tuple[float, float, Hashable]], bool]:
    """Neighbouring runs of both sides in one process on one sample: base, other, sample; whether they are no blocks.

    Runs of imported files have no time of their own, and no order that says otherwise: they count as mixed.
    """
    listed = [(0, entry) for entry in base] + [(1, entry) for entry in other]
    listed.sort(key=lambda run: (run[1].process, run[1].began_s))
    waiting: dict[tuple[str, Hashable], tuple[int, Observation]] = {}
    found, sides = [], []
    for side, entry in listed:
        key = entry.process, entry.sample
        known = waiting.pop(key, None)
        if known is None or known[0] == side:
            waiting[key] = side, entry
            continue
        first, second = (known[1], entry) if side else (entry, known[1])
        found.append((first.value, second.value, entry.sample))
        sides.append(((known[1].process, known[1].began_s, known[0]), (entry.process, entry.began_s, side)))
    if not found:
        return [], False
    if len({entry.began_s for _, entry in listed}) == 1:
        return [], True
    order = np.array([side for *_, side in sorted(run for pair in sides for run in pair)], dtype=np.float64)
    is_mixed = float(np.corrcoef(order, np.arange(len(order)))[0, 1]) ** 2 <= MOST_ORDERED
    return found, is_mixed or len(found) == 1


def _by_sample(values: Iterable[Observation]) -> dict[Hashable, float]:
    found: dict[Hashable, list[float]] = {}
    for entry in values:
        found.setdefault(entry.sample, []).append(entry.value)
    return {sample: fmean(repeats) for sample, repeats in found.items()}


def _mean(values: Iterable[Observation]) -> float:
    return fmean(_by_sample(values).values())


def _by_scene(values: Sequence[Observation]) -> dict[Hashable, float]:
    """A value of every scene; their mean is the mean over samples, their spread that of the scenes' sums."""
    means, scene_of = _by_sample(values), {entry.sample: entry.scene for entry in values}
    mean = fmean(means.values())
    sums = dict.fromkeys(scene_of.values(), 0.0)
    for sample, value in means.items():
        sums[scene_of[sample]] += value - mean
    return {scene: mean + total * len(sums) / len(means) for scene, total in sums.items()}


def _by_process(values: Sequence[Observation]) -> list[float]:
    """The mean over samples of every engine process that measured all of them."""
    found: dict[str, list[Observation]] = {}
    for entry in values:
        found.setdefault(entry.process, []).append(entry)
    whole = {entry.sample for entry in values}
    return [_mean(own) for own in found.values() if {entry.sample for entry in own} == whole]


def _student(values: Values) -> float:
    """Half of Student's interval of a mean."""
    return student_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))


def _around(value: float, middle: float, reach: float) -> Interval:
    return min(middle - reach, value), max(middle + reach, value)


def _shared(base: list[Observation], other: list[Observation]) -> tuple[list[Observation], list[Observation], bool]:
    """Both sides over the machines, engine processes and samples that both have, and whether they share a sample.

    Of several machines that both have, a sample counts once for each. A sample is of the base's scene.
    """
    machines = {entry.machine for side in (base, other) for entry in side}
    if len(machines) > 1 and {(e.machine, e.sample) for e in base} & {(e.machine, e.sample) for e in other}:
        base, other = (
            [entry._replace(sample=(entry.machine, entry.sample)) for entry in side] for side in (base, other)
        )
    is_paired = False
    for name in ("process", "sample"):
        both = {getattr(entry, name) for entry in base} & {getattr(entry, name) for entry in other}
        is_paired = bool(both)
        if both:
            base, other = ([entry for entry in side if getattr(entry, name) in both] for side in (base, other))
    scene_of = {entry.sample: entry.scene for entry in base}
    other = [entry._replace(scene=scene_of.get(entry.sample, entry.scene)) for entry in other]
    return base, other, is_paired


def observe(runs: Iterable[RunLog], read: Read, file: str = "") -> list[Observation]:
    """The figure of every run that has it. `file` stands for the engine process of runs that do not name theirs."""
    return [Observation(value, *facts_of(run, file)) for run in runs if (value := read(run)) is not None]


def facts_of(run: RunLog, file: str = "") -> tuple[Hashable, Hashable, str, float, str]:
    """Sample, scene, engine process, start in seconds and machine of a run; all imported runs count as one process."""
    process = "" if run.info.imported is not None else engine_session(run.info) or file
    return question_of(run), scene_of(run), process, _began_s(run), machine_of(run.info)


def question_of(run: RunLog) -> Hashable:
    """What distinguishes samples: name and prompt, and without a name the recording."""
    return sample_key(run) if run.info.sample.name else (scene_of(run), sample_key(run))


def scene_of(run: RunLog) -> Hashable:
    """The recording of a run; pictures of one folder are one recording."""
    sample = run.info.sample
    path = sample.events_path or sample.video_path
    if path and run.info.imported is None:
        return str(PurePath(path).parent) if "*" in PurePath(path).name else path
    return sample.name or sample_key(run)


def _began_s(run: RunLog) -> float:
    if run.info.imported is not None:
        return 0.0
    if run.info.start_ns is not None:
        return run.info.start_ns / 1e9
    try:
        return datetime.fromisoformat(run.info.started_at).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
