"""Figures read off runs, with what runs share: sample, scene, engine process, and time."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain
from operator import itemgetter
from pathlib import PurePath
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from evprof.core.run_log import RunLog
from evprof.metrics.arithmetic.statistics import Values
from evprof.metrics.configurations.baselines import engine_session
from evprof.metrics.configurations.gathering import sample_key
from evprof.metrics.configurations.machines import machine_of, on_common_machines

Read = Callable[[RunLog], float | None]


class Observation(NamedTuple):
    """One value: of which `sample` and `scene`, made by which engine process on which `machine`, and when (seconds on
    any one clock)."""

    value: float
    sample: Hashable = ""
    scene: Hashable = ""
    session: str = ""
    began_s: float = 0.0
    machine: str = ""


_VALUE, _SAMPLE, _SESSION, _BEGAN, _MACHINE = map(itemgetter, (0, 1, 3, 4, 5))
_SAMPLE_AND_SCENE = itemgetter(1, 2)


def observe(runs: Iterable[RunLog], read: Read, file: str = "") -> list[Observation]:
    """The figure of every run that has it. `file`, the session's, stands for the engine process of runs of ours that
    do not name theirs."""
    return [Observation(value, *_facts_of(run, file)) for run in runs if (value := read(run)) is not None]


def _facts_of(run: RunLog, file: str) -> tuple[Any, ...]:
    """Everything but the value; of a stored run, which changes no more, worked out once."""
    known = run.observed
    if known is None or known[0] != file:
        facts = question_of(run), scene_of(run), process_of(run, file), _began_s(run), machine_of(run.info)
        known = file, facts
        if run.kept is not None:
            run.observed = known
    return known[1]


def process_of(run: RunLog, file: str = "") -> str:
    """The engine process of a run; all imported runs count as of one."""
    return "" if run.info.imported is not None else engine_session(run.info) or file


def question_of(run: RunLog) -> Hashable:
    """What tells samples apart: name and prompt, and without a name the recording."""
    return sample_key(run) if run.info.sample.name else (scene_of(run), sample_key(run))


def scene_of(run: RunLog) -> Hashable:
    """The recording that a run looked at, of which others may have seen another clip or been asked something else."""
    sample = run.info.sample
    path = sample.events_path or sample.video_path
    if path and run.info.imported is None:
        # A set of pictures in a folder is a moment of the drive that the folder holds.
        return str(PurePath(path).parent) if "*" in PurePath(path).name else path
    return sample.name or sample_key(run)


def _began_s(run: RunLog) -> float:
    if run.info.start_ns is not None:
        return run.info.start_ns / 1e9
    try:
        return datetime.fromisoformat(run.info.started_at).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


@dataclass(frozen=True, eq=False)
class ObservedSide:
    """Observations of one side in order of time, one engine process after the other: their clocks may differ."""

    observations: tuple[Observation, ...]

    @staticmethod
    def of(values: Iterable[Observation]) -> ObservedSide:
        """Observations in any order; at least one."""
        ordered = (sorted(entries, key=_BEGAN) for entries in _by_process(values).values())
        return ObservedSide(tuple(chain.from_iterable(ordered)))

    @cached_property
    def by_sample(self) -> dict[Hashable, float]:
        """Of every sample the mean of its repeats."""
        return _means(map(_SAMPLE, self.observations), map(_VALUE, self.observations))

    @cached_property
    def mean(self) -> float:
        """The mean over samples."""
        return fmean(self.by_sample.values())

    @cached_property
    def sessions(self) -> tuple[str, ...]:
        """Its engine processes."""
        return tuple(dict.fromkeys(map(_SESSION, self.observations)))

    @cached_property
    def scenes(self) -> dict[Hashable, list[Hashable]]:
        """The samples of every scene, in order of time."""
        found: dict[Hashable, list[Hashable]] = {}
        for sample, scene in dict.fromkeys(map(_SAMPLE_AND_SCENE, self.observations)):
            found.setdefault(scene, []).append(sample)
        return found

    @property
    def is_timed(self) -> bool:
        """Whether it is known what came after what."""
        return len(set(map(_BEGAN, self.observations))) > 1

    def by_scene(self, scenes: Iterable[Hashable]) -> Values:
        """Of every scene one value: their mean is the side's, their spread that of sums over scenes."""
        each = len(self.by_sample) / len(self.scenes)
        known, mean, listed = self.by_sample, self.mean, self.scenes
        aside = [sum([known[sample] - mean for sample in listed[scene]]) / each for scene in scenes]
        return self.mean + np.array(aside)

    def by_session(self) -> dict[str, float]:
        """Of every engine process the mean over samples."""
        found = _by_process(self.observations)
        return {name: ObservedSide(tuple(entries)).mean for name, entries in found.items()}


class Observations(tuple[Observation, ...]):
    """Observations of one side that are compared again and again: what they come to is worked out once."""

    @cached_property
    def side(self) -> ObservedSide:
        """All of them in order of time."""
        return ObservedSide.of(self)


def _side(values: Sequence[Observation]) -> ObservedSide:
    return values.side if isinstance(values, Observations) else ObservedSide.of(values)


def shared(base: Sequence[Observation], other: Sequence[Observation]) -> tuple[ObservedSide, ObservedSide]:
    """Both sides over the machines, the engine processes, and then the samples that both have where they share any.

    Of several machines that both have a sample is one on each: every pair is of one machine. A sample is of one scene,
    the base's, whatever file of it either side read (a recording, or frames drawn from it).
    """
    if len(set(map(_MACHINE, chain(base, other)))) > 1:
        base, other = on_common_machines(base, other, _MACHINE, _SAMPLE)
    if len(set(map(_MACHINE, base))) > 1 and not are_apart(base, other):
        base, other = (
            [entry._replace(sample=(entry.machine, entry.sample)) for entry in side] for side in (base, other)
        )
    for key in (_SESSION, _SAMPLE):
        have = [set(map(key, side)) for side in (base, other)]
        both = have[0] & have[1]
        if both:
            base, other = (
                side if len(both) == len(has) else [entry for entry in side if key(entry) in both]
                for side, has in zip((base, other), have, strict=True)
            )
    scenes = dict(map(_SAMPLE_AND_SCENE, base))
    if any(scenes.get(sample, scene) != scene for sample, scene in map(_SAMPLE_AND_SCENE, other)):
        other = [entry._replace(scene=scenes.get(entry.sample, entry.scene)) for entry in other]
    return _side(base), _side(other)


def are_apart(base: Iterable[Observation], other: Iterable[Observation]) -> bool:
    """Whether the sides are known to have no sample that one machine measured for both."""
    sides = list(base), list(other)
    machines = {machine for side in sides for machine in map(_MACHINE, side)}
    if "" in machines or len(machines) < 2:
        return False
    one, two = ({(entry.machine, entry.sample) for entry in side} for side in sides)
    return not one & two


def _by_process(values: Iterable[Observation]) -> dict[str, list[Observation]]:
    found: dict[str, list[Observation]] = {}
    for entry in values:
        found.setdefault(entry[3], []).append(entry)
    return found


def _means(keys: Iterable[Hashable], values: Iterable[float]) -> dict[Hashable, float]:
    found: dict[Hashable, list[float]] = {}
    for key, value in zip(keys, values, strict=True):
        if key in found:
            found[key].append(value)
        else:
            found[key] = [value]
    return {key: listed[0] if len(listed) == 1 else math.fsum(listed) / len(listed) for key, listed in found.items()}
