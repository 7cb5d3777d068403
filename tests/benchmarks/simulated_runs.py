"""Observations of which the truth is known: skewed times of two configurations, and what machines do to them.

A value is level · scene · sample · process · pace · scatter. Scatter is lognormal and alike from neighbour to neighbour
within an engine process (AR(1)); scenes, samples and processes have factors of their own; the machine's pace changes
steadily from the first run to the last. All factors but the pace have mean 1, and the pace has it over all runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evprof.metrics.arithmetic.statistics import Values
from evprof.metrics.estimates.observations import Observation


@dataclass(frozen=True)
class Scenario:
    """How runs of two sides are made: `samples` of each of `scenes`, asked `repeats` times over in each of `processes`
    engine processes, which are both sides' or each side's own (`is_shared`).

    `has_turns`: both sides of a question come one after the other, otherwise all runs of a side do. Standard deviations
    are of logarithms: `noise` of runs, `scene` and `sample` of what they ask for, `mixed` of what a scene asks of one
    side more than of the other, `process` of engine processes. `alike` is the correlation of neighbours, `drift` the
    change of pace over all runs, `effect` the other's level in units of the base's.
    """

    repeats: int = 1
    scenes: int = 1
    samples: int = 1
    processes: int = 1
    is_shared: bool = True
    has_turns: bool = False
    noise: float = 0.03
    alike: float = 0.0
    drift: float = 0.0
    scene: float = 0.0
    sample: float = 0.0
    mixed: float = 0.0
    process: float = 0.0
    effect: float = 1.25

    @property
    def levels(self) -> tuple[float, float]:
        """The true means of both sides."""
        return 1.0, self.effect


@dataclass(frozen=True)
class _Run:
    side: int
    process: int
    scene: int
    sample: int


def simulated(scenario: Scenario, times: int, seed: int) -> Iterator[tuple[list[Observation], list[Observation]]]:
    """Base and other, `times` times over; the same for the same seed."""
    runs = list(_runs(scenario))
    chance = np.random.default_rng([20_260_601, seed])
    for values in _values(scenario, runs, times, chance):
        sides: tuple[list[Observation], list[Observation]] = [], []
        for place, (run, value) in enumerate(zip(runs, values.tolist(), strict=True)):
            asked = run.scene, run.sample
            sides[run.side].append(Observation(value, asked, run.scene, str(run.process), float(place)))
        yield sides


def oracle_error(scenario: Scenario) -> float:
    """The standard error of the logarithm of the ratio of both means, for who knows every figure of the scenario."""
    runs = list(_runs(scenario))
    count = len(runs) // 2
    share = np.array([1 / count if run.side else -1 / count for run in runs])
    variance = float(share @ _likeness(scenario, runs) @ share) * scenario.noise**2
    variance += 2 * scenario.mixed**2 / scenario.scenes
    if not scenario.is_shared:
        variance += 2 * scenario.process**2 / scenario.processes
    return math.sqrt(variance)


def oracle_error_of_mean(scenario: Scenario) -> float:
    """The same of the logarithm of the base's mean."""
    runs = [run for run in _runs(scenario) if not run.side]
    variance = float(_likeness(scenario, runs).mean()) * scenario.noise**2
    variance += (scenario.scene**2 + scenario.mixed**2 + scenario.sample**2 / scenario.samples) / scenario.scenes
    variance += scenario.process**2 / scenario.processes if scenario.processes > 1 else 0
    return math.sqrt(variance)


def _runs(scenario: Scenario) -> Iterator[_Run]:
    """All runs in order of time."""
    asked = [(scene, sample) for scene in range(scenario.scenes) for sample in range(scenario.samples)]
    for process in range(scenario.processes):
        names = (process, process) if scenario.is_shared else (2 * process, 2 * process + 1)
        questions = [place for _ in range(scenario.repeats) for place in asked]
        if scenario.has_turns:
            for number, question in enumerate(questions):
                for side in (0, 1) if number % 2 == 0 else (1, 0):
                    yield _Run(side, names[side], *question)
        else:
            for side in (0, 1):
                for question in questions:
                    yield _Run(side, names[side], *question)


def _likeness(scenario: Scenario, runs: list[_Run]) -> Values:
    """The correlation of the scatter of every two runs."""
    place = np.arange(len(runs))
    process = np.array([run.process for run in runs])
    apart = np.abs(place[:, None] - place)
    return np.where(process[:, None] == process, np.power(scenario.alike, apart), 0.0)


def _values(scenario: Scenario, runs: list[_Run], times: int, chance: np.random.Generator) -> Values:
    """[times, runs]."""
    factor = np.linalg.cholesky(_likeness(scenario, runs))
    logs = scenario.noise * (chance.standard_normal((times, len(runs))) @ factor.T) - scenario.noise**2 / 2
    effects = (
        (scenario.scene, [run.scene for run in runs]),
        (scenario.sample, [run.scene * scenario.samples + run.sample for run in runs]),
        (scenario.mixed, [2 * run.scene + run.side for run in runs]),
        (scenario.process, [run.process for run in runs]),
    )
    for size, numbers in effects:
        drawn = size * chance.standard_normal((times, max(numbers) + 1)) - size**2 / 2
        logs += drawn[:, numbers]
    pace = 1 + scenario.drift * np.linspace(-0.5, 0.5, len(runs))
    level = np.array(scenario.levels)[[run.side for run in runs]]
    found: Values = level * pace * np.exp(logs)
    return found
