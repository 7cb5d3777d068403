"""Figures read off runs, with what runs share: sample, scene, engine process, and time."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from pathlib import PurePath
from statistics import fmean
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from evprof.core.run_log import RunLog
from evprof.metrics.arithmetic.statistics import Values
from evprof.metrics.configurations.baselines import engine_session
from evprof.metrics.configurations.gathering import sample_key
from evprof.metrics.configurations.machines import machine_of, on_common_machines

Read = Callable[[RunLog], float | None]

_Key = TypeVar("_Key", bound=Hashable)


class Observation(NamedTuple):
    """One value: of which `sample` and `scene`, made by which engine process on which `machine`, and when (seconds on
    any one clock)."""

    value: float
    sample: Hashable = ""
    scene: Hashable = ""
    session: str = ""
    began_s: float = 0.0
    machine: str = ""


_FACTS = ("sample", "scene", "session", "began_s", "machine")
"""Everything of an observation but its value."""


_MOST_TAKEN = 8
"""Parts of a layout that are remembered."""

Groups = list[tuple[int, npt.NDArray[np.intp], npt.NDArray[np.intp]]]
"""Groups of equally many values together: how many, the groups' numbers, the places of their values (a row each)."""


class Layout:
    """What observations share, without their values: worked out once for all figures that are read off the same runs.

    `samples`, `scenes` and so on are theirs, one after the other as they came.
    """

    def __init__(
        self,
        samples: Sequence[Hashable],
        scenes: Sequence[Hashable],
        sessions: Sequence[str],
        began_s: Sequence[float],
        machines: Sequence[str],
    ) -> None:
        self.columns = samples, scenes, sessions, began_s, machines
        self.samples, self.scenes, self.sessions, self.began_s, self.machines = self.columns
        self._taken: dict[bytes, Layout] = {}

    @staticmethod
    def of_runs(runs: Iterable[RunLog], file: str = "") -> Layout:
        """Of runs; see `observe`."""
        return Layout.of_rows([_facts_of(run, file) for run in runs])

    @staticmethod
    def of_rows(rows: Sequence[Sequence[Any]]) -> Layout:
        """Of samples, scenes, processes, times and machines."""
        return Layout(*(zip(*rows, strict=True) if rows else ((),) * len(_FACTS)))

    def __len__(self) -> int:
        return len(self.samples)

    def taken(self, places: npt.NDArray[np.intp]) -> Layout:
        """Only the observations at these places. Figures lack for the same runs, so that it is remembered."""
        key = places.tobytes()
        found = self._taken.get(key)
        if found is None:
            if len(self._taken) >= _MOST_TAKEN:
                self._taken.clear()
            chosen = places.tolist()
            found = self._taken[key] = Layout(*([column[place] for place in chosen] for column in self.columns))
        return found

    @cached_property
    def of_one_process(self) -> Layout:
        """The same as if one engine process had made all: for figures that are no times."""
        return Layout(self.samples, self.scenes, ("",) * len(self), self.began_s, self.machines)

    @cached_property
    def is_timed(self) -> bool:
        """Whether it is known what came after what."""
        return len(set(self.began_s)) > 1

    @cached_property
    def distinct(self) -> dict[str, set[Any]]:
        """The different samples, engine processes and machines."""
        return {name: set(getattr(self, name)) for name in ("samples", "sessions", "machines")}

    @cached_property
    def order(self) -> npt.NDArray[np.intp]:
        """The places in order of time, one engine process after the other: their clocks may differ."""
        return np.lexsort((np.array(self.began_s, dtype=np.float64), _codes(self.sessions)[0]))

    @cached_property
    def ordered(self) -> Layout:
        """Itself in that order."""
        order = self.order
        return self if (np.diff(order) == 1).all() else self.taken(order)

    @cached_property
    def sample_codes(self) -> tuple[npt.NDArray[np.intp], dict[Hashable, int]]:
        """The number of every observation's sample, and the samples by number."""
        return _codes(self.samples)

    @cached_property
    def by_sample(self) -> Groups:
        """The repeats of every sample."""
        codes, known = self.sample_codes
        return groups_of(codes, len(known))

    @cached_property
    def pairs(self) -> dict[tuple[Hashable, Hashable], None]:
        """Every sample with its scene, in order."""
        return dict.fromkeys(zip(self.samples, self.scenes, strict=True))

    @cached_property
    def scene_of(self) -> dict[Hashable, Hashable]:
        """The scene of every sample."""
        return dict(zip(self.samples, self.scenes, strict=True))

    @cached_property
    def by_scene(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], dict[Hashable, int]]:
        """Of every such pair the numbers of scene and sample, and the scenes by number."""
        codes, known = _codes([scene for _, scene in self.pairs])
        number = self.sample_codes[1]
        return codes, np.array([number[sample] for sample, _ in self.pairs], dtype=np.intp), known

    @cached_property
    def by_session(self) -> tuple[dict[str, list[int]], Groups]:
        """The repeats of every sample within an engine process, and of each process the numbers of its groups."""
        sessions, names = _codes(self.sessions)
        samples, known = self.sample_codes
        both, codes = np.unique(sessions * len(known) + samples, return_inverse=True)
        of = both // len(known)
        found = {name: np.flatnonzero(of == number).tolist() for name, number in names.items()}
        return found, groups_of(codes, len(both))


def _codes(values: Sequence[_Key]) -> tuple[npt.NDArray[np.intp], dict[_Key, int]]:
    """Numbers in the place of values, and the number of each, by first appearance."""
    known: dict[_Key, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.intp), known


def groups_of(codes: npt.NDArray[np.intp], count: int) -> Groups:
    """The places of equal numbers below `count`."""
    sizes = np.bincount(codes, minlength=count)
    places, starts = np.argsort(codes, kind="stable"), np.cumsum(sizes) - sizes
    return [
        (size, of := np.flatnonzero(sizes == size), places[starts[of][:, None] + np.arange(size)])
        for size in np.unique(sizes).tolist()
    ]


def means_of(values: Values, groups: Groups) -> Values:
    """The mean of every group; NaN where one value is."""
    found = np.empty(sum(len(of) for _, of, _ in groups))
    for size, of, places in groups:
        each = values[places]
        # Of two the sum is rounded once, as that of `fsum` is.
        found[of] = each.sum(axis=1) / size if size <= 2 else [math.fsum(row) / size for row in each.tolist()]
    return found


class Observations(Sequence[Observation]):
    """Values of one side with what they share, as columns."""

    def __init__(self, values: Values, layout: Layout) -> None:
        self.values = values
        self.layout = layout

    @staticmethod
    def of(entries: Sequence[Observation]) -> Observations:
        """The same as columns."""
        if isinstance(entries, Observations):
            return entries
        return Observations(
            np.array([entry.value for entry in entries], dtype=np.float64),
            Layout.of_rows([entry[1:] for entry in entries]),
        )

    @staticmethod
    def read(values: Values, layout: Layout) -> Observations:
        """Of a figure that some runs may lack: NaN."""
        return Observations(values, layout).only(~np.isnan(values))

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int) -> Observation: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Observation]: ...

    def __getitem__(self, place: int | slice) -> Observation | Sequence[Observation]:
        return list(self)[place]

    def __iter__(self) -> Iterator[Observation]:
        return map(Observation, self.values.tolist(), *self.layout.columns)

    def only(self, mask: Sequence[bool] | npt.NDArray[np.bool_]) -> Observations:
        """Those where `mask` holds."""
        places = np.flatnonzero(mask)
        return self if len(places) == len(self) else Observations(self.values[places], self.layout.taken(places))

    @cached_property
    def side(self) -> ObservedSide:
        """All of them in order of time."""
        return ObservedSide.of(self)


def observe(runs: Iterable[RunLog], read: Read, file: str = "") -> Observations:
    """The figure of every run that has it. `file`, the session's, stands for the engine process of runs of ours that
    do not name theirs."""
    kept = [(run, value) for run in runs if (value := read(run)) is not None]
    values = np.array([value for _, value in kept], dtype=np.float64)
    return Observations(values, Layout.of_runs((run for run, _ in kept), file))


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

    observations: Observations

    @staticmethod
    def of(values: Sequence[Observation]) -> ObservedSide:
        """Observations in any order; at least one."""
        found = Observations.of(values)
        layout = found.layout
        is_ordered = layout.ordered is layout
        return ObservedSide(found if is_ordered else Observations(found.values[layout.order], layout.ordered))

    @property
    def _layout(self) -> Layout:
        return self.observations.layout

    @property
    def sample_count(self) -> int:
        """How many samples it has."""
        return len(self._layout.sample_codes[1])

    @cached_property
    def by_sample(self) -> Values:
        """Of every sample, in order of first appearance, the mean of its repeats."""
        return means_of(self.observations.values, self._layout.by_sample)

    def has_samples_of(self, other: ObservedSide) -> bool:
        """Whether both have the same samples."""
        return self._layout.sample_codes[1].keys() == other._layout.sample_codes[1].keys()

    @cached_property
    def mean(self) -> float:
        """The mean over samples."""
        return fmean(self.by_sample.tolist())

    @property
    def sessions(self) -> tuple[str, ...]:
        """Its engine processes."""
        return tuple(self._layout.by_session[0])

    @property
    def began_s(self) -> Sequence[float]:
        """When each was made."""
        return self._layout.began_s

    @property
    def scenes(self) -> Collection[Hashable]:
        """The scenes, in order of time."""
        return self._layout.by_scene[2].keys()

    @property
    def is_timed(self) -> bool:
        """Whether it is known what came after what."""
        return self._layout.is_timed

    def by_scene(self, scenes: Iterable[Hashable]) -> Values:
        """Of every scene one value: their mean is the side's, their spread that of sums over scenes."""
        of, samples, known = self._layout.by_scene
        each = self.sample_count / len(known)
        aside = np.bincount(of, weights=(self.by_sample - self.mean)[samples], minlength=len(known)) / each
        return self.mean + aside[[known[scene] for scene in scenes]]

    @cached_property
    def by_session(self) -> dict[str, float]:
        """Of every engine process the mean over samples."""
        names, groups = self._layout.by_session
        means = means_of(self.observations.values, groups).tolist()
        return {name: fmean([means[place] for place in places]) for name, places in names.items()}


def shared(base: Sequence[Observation], other: Sequence[Observation]) -> tuple[ObservedSide, ObservedSide]:
    """Both sides over the machines, the engine processes, and then the samples that both have where they share any.

    Of several machines that both have a sample is one on each: every pair is of one machine. A sample is of one scene,
    the base's, whatever file of it either side read (a recording, or frames drawn from it).
    """
    one, two = Observations.of(base), Observations.of(other)
    if len(_machines(one, two)) > 1:
        one, two = map(Observations.of, on_common_machines(one, two, _MACHINE, _SAMPLE))
        if len(_machines(one, two)) > 1 and not are_apart(one, two):
            one, two = (
                Observations.of([entry._replace(sample=(entry.machine, entry.sample)) for entry in side])
                for side in (one, two)
            )
    for key in ("sessions", "samples"):
        have = one.layout.distinct[key], two.layout.distinct[key]
        both = have[0] & have[1]
        if both:
            one, two = (
                side if len(both) == len(has) else side.only([entry in both for entry in getattr(side.layout, key)])
                for side, has in zip((one, two), have, strict=True)
            )
    scenes = one.layout.scene_of
    if any(scenes.get(sample, scene) != scene for sample, scene in two.layout.pairs):
        two = Observations.of([entry._replace(scene=scenes.get(entry.sample, entry.scene)) for entry in two])
    return one.side, two.side


_SAMPLE, _MACHINE = itemgetter(1), itemgetter(5)


def are_apart(base: Sequence[Observation], other: Sequence[Observation]) -> bool:
    """Whether the sides are known to have no sample that one machine measured for both."""
    sides = Observations.of(base), Observations.of(other)
    machines = _machines(*sides)
    if "" in machines or len(machines) < 2:
        return False
    one, two = (set(zip(side.layout.machines, side.layout.samples, strict=True)) for side in sides)
    return not one & two


def _machines(one: Observations, two: Observations) -> set[str]:
    return one.layout.distinct["machines"] | two.layout.distinct["machines"]
