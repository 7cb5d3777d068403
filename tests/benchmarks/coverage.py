"""`run.py coverage`: how often our 95 % intervals contain the truth, over simulated runs of which it is known.

Every row calls the function that the product calls. A value is level · scene · clip · process · pace · scatter; the
scatter is alike from neighbour to neighbour within an engine process (AR(1)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any

import numpy as np

from evprof.core.protocols import StopFlag
from evprof.metrics.arithmetic.scaling import fit_line
from evprof.metrics.arithmetic.statistics import Interval, Values, student_quantile
from evprof.metrics.estimates.estimates import Observation, mean_of, verdict

NOMINAL = 0.95
SIMULATIONS, QUICK_SIMULATIONS = 2000, 300
EFFECT = 1.25

Sides = tuple[list[Observation], list[Observation]]


@dataclass(frozen=True)
class Scenario:
    """How two sides are measured: `clips` of each of `scenes`, `turns` times over in each of `processes`.

    `is_shared`: both sides run in turns in every process, in an order drawn for each turn; otherwise each side has
    processes of its own. Spreads are standard deviations of logarithms: `noise` of runs, `other_noise` times that of
    the other side's, `process` of processes, `scene` and `mixed` of scenes (the latter of one side more than of the
    other). `alike` is the correlation of neighbours, `drift` and `step` the change of pace over all runs and at half
    of them, `outliers` the share of runs that take ten times as long, `tail` the degrees of Student's t (0: normal).
    """

    title: str
    estimator: str = "ratio"
    turns: int = 1
    scenes: int = 1
    clips: int = 1
    processes: int = 1
    is_shared: bool = True
    noise: float = 0.03
    other_noise: float = 1.0
    tail: int = 0
    alike: float = 0.0
    drift: float = 0.0
    step: float = 0.0
    outliers: float = 0.0
    process: float = 0.0
    scene: float = 0.0
    mixed: float = 0.0

    @property
    def runs(self) -> int:
        return self.turns * self.scenes * self.clips * self.processes


def scenarios() -> list[Scenario]:
    return [*_in_turns(), *_processes(), *_scenes(), *_others()]


def _in_turns() -> Iterator[Scenario]:
    for turns in (5, 10, 20):
        plain = Scenario("turns", turns=turns)
        yield plain
        yield replace(plain, title="turns, Student's t3", tail=3)
        yield replace(plain, title="turns, alike 0.5, drift 20 %", alike=0.5, drift=0.2)
        yield replace(plain, title="turns, alike 0.98", alike=0.98)
        yield replace(plain, title="turns, alike -0.6", alike=-0.6)
        yield replace(plain, title="turns, step 10 %", step=0.1)
        yield replace(plain, title="turns, outliers of 10x", outliers=0.1)
        yield replace(plain, title="turns, spread 15:1", other_noise=15)
    yield Scenario("difference in turns, alike 0.5", "difference", turns=10, alike=0.5)
    yield Scenario("turns in 3 processes, 5 %", turns=5, processes=3, process=0.05)
    yield Scenario("turns on 3 clips of a scene", turns=4, clips=3, scene=0.2, alike=0.5)


def _processes() -> Iterator[Scenario]:
    for processes in (3, 5):
        for process in (0.02, 0.05):
            apart = Scenario(
                f"processes each, {100 * process:g} %",
                turns=5,
                processes=processes,
                is_shared=False,
                process=process,
                alike=0.5,
            )
            yield apart
            yield replace(apart, title=f"{apart.title}, drift 5 %", drift=0.05)
    yield Scenario("processes each, difference", "difference", 5, processes=4, is_shared=False, process=0.02)


def _scenes() -> Iterator[Scenario]:
    for scenes in (5, 8, 20):
        base = Scenario("scenes in turns", turns=2, scenes=scenes, scene=0.2, mixed=0.05, alike=0.5)
        yield base
        yield replace(base, title="scenes of 4 clips", clips=4)
        yield replace(base, title="scenes, difference", estimator="difference")
    yield Scenario("scenes, processes each", "ratio", 1, 12, 1, 3, is_shared=False, process=0.02, scene=0.2, mixed=0.05)


def _others() -> Iterator[Scenario]:
    yield Scenario("mean over processes", "mean", turns=5, processes=5, is_shared=False, process=0.02, alike=0.5)
    for scenes in (8, 20):
        yield Scenario("mean over scenes", "mean", turns=2, scenes=scenes, scene=0.2, alike=0.5)
        yield Scenario("samples with slopes of their own", "slope", turns=8, scenes=scenes)


def simulated(scenario: Scenario, times: int, seed: int) -> Iterator[Sides]:
    """Base and other, `times` times over; the same for the same seed."""
    chance = np.random.default_rng([20_260_601, seed])
    once = [(scene, clip) for scene in range(scenario.scenes) for clip in range(scenario.clips)]
    asked = once * scenario.turns
    count, of = len(asked), np.array([scene for scene, _ in asked])
    sides: list[list[Values]] = [[], []]
    began: list[list[Any]] = [[], []]
    scenes = chance.normal(0, scenario.scene, (times, scenario.scenes))
    mixed = chance.normal(0, scenario.mixed, (2, times, scenario.scenes))
    for _ in range(scenario.processes):
        first = chance.integers(0, 2, (times, count)) if scenario.is_shared else np.zeros((times, count), dtype=int)
        level = chance.normal(0, scenario.process, (2, times, 1))
        paces = (
            [_paces(scenario, times, 2 * count, chance)] * 2
            if scenario.is_shared
            else [_paces(scenario, times, 2 * count, chance) for _ in range(2)]
        )
        for side in (0, 1):
            place = 2 * np.arange(count) + (first if side else 1 - first)
            logs = np.take_along_axis(paces[side], place, axis=1)
            logs = logs + _scatter(scenario, times, count, chance) * (scenario.other_noise if side else 1)
            logs += level[0 if scenario.is_shared else side] + (scenes + mixed[side])[:, of] - _mean_log(scenario)
            sides[side].append(np.exp(logs) * (EFFECT if side else 1))
            began[side].append(place)
    for number in range(times):
        found: Sides = ([], [])
        for side in (0, 1):
            for process in range(scenario.processes):
                name = str(process if scenario.is_shared else 2 * process + side)
                values, places = (of_all[side][process][number].tolist() for of_all in (sides, began))
                found[side].extend(
                    Observation(value, sample, sample[0], name, place)
                    for value, sample, place in zip(values, asked, places, strict=True)
                )
        yield found


def _paces(scenario: Scenario, times: int, count: int, chance: np.random.Generator) -> Values:
    """[times, count]: the logarithm of a machine's pace, run by run."""
    along = np.linspace(-0.5, 0.5, count)
    pace = np.log1p(scenario.drift * along) + scenario.step * (along > 0)
    place = np.arange(count)
    if not scenario.alike:
        return np.broadcast_to(pace, (times, count))
    likeness = np.power(float(scenario.alike), np.abs(place[:, None] - place))
    factor = np.linalg.cholesky(likeness + 1e-12 * np.eye(count))
    found: Values = pace + scenario.noise * chance.standard_normal((times, count)) @ factor.T
    return found


def _scatter(scenario: Scenario, times: int, count: int, chance: np.random.Generator) -> Values:
    shape = (times, count)
    drawn = chance.standard_t(scenario.tail, shape) if scenario.tail else chance.standard_normal(shape)
    slow = chance.random(shape) < scenario.outliers
    found: Values = scenario.noise * drawn + math.log(10) * slow
    return found


def _mean_log(scenario: Scenario) -> float:
    parts = (scenario.noise * (math.sqrt(2) if scenario.alike else 1), scenario.process, scenario.scene, scenario.mixed)
    return sum(part**2 for part in parts) / 2


def measure_coverage(simulations: int, note: Callable[[str], None], stop: StopFlag | None = None) -> dict[str, Any]:
    """`rows`, and `summary` with the lowest coverage of all. A set `stop` ends it with the rows so far."""
    rows: list[dict[str, Any]] = []
    listed = scenarios()
    for number, scenario in enumerate(listed):
        if stop is not None and stop.is_set():
            break
        rows.append(covered(scenario, simulations, number))
        note(f"{number + 1} of {len(listed)}: {scenario.title}, {scenario.runs} runs: {rows[-1]['coverage']:.3f}")
    return {
        "environment": {"numpy": np.__version__},
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": rows,
        "summary": {
            "lowest_coverage": min((row["coverage"] for row in rows), default=None),
            "rows": len(rows),
            "simulations": simulations,
            "is_complete": len(rows) == len(listed),
        },
    }


def covered(scenario: Scenario, simulations: int, seed: int) -> dict[str, Any]:
    """A row of the table: how often the interval contained the truth, and how wide it was."""
    found = [_interval(scenario, sides, place) for place, sides in enumerate(simulated(scenario, simulations, seed))]
    known = [interval for interval in found if interval is not None]
    truth = {"ratio": EFFECT, "difference": EFFECT - 1}.get(scenario.estimator, 1.0)
    held = sum(low <= truth <= high for low, high in known)
    return {
        "scenario": scenario.title,
        "estimator": scenario.estimator,
        "n": scenario.runs,
        "simulations": len(found),
        "without_interval": len(found) - len(known),
        "nominal": NOMINAL,
        "coverage": held / len(known) if known else 0.0,
        "coverage_ci95": list(binomial_interval(held, len(known))) if known else None,
        "width": median(high - low for low, high in known) if known else None,
    }


def _interval(scenario: Scenario, sides: Sides, place: int) -> Interval | None:
    match scenario.estimator:
        case "mean":
            mean = mean_of(sides[0])
            return mean.interval if mean else None
        case "slope":
            return _slope(sides[0], place)
        case estimator:
            found = verdict(*sides)
            if found is None:
                return None
            return found.interval if estimator == "ratio" else found.delta_interval


def _slope(base: Sequence[Observation], place: int) -> Interval | None:
    """How a figure grows over frames, each sample at a pace of its own about 1 per frame."""
    chance = np.random.default_rng([7, place])
    samples = list(dict.fromkeys(entry.sample for entry in base))
    pace = dict(zip(samples, 1 + 0.2 * chance.standard_normal(len(samples)), strict=True))
    frames, number = (1.0, 4.0, 8.0, 16.0), dict.fromkeys(samples, 0)
    across, up = [], []
    for entry in base:
        across.append(frames[number[entry.sample] % len(frames)])
        number[entry.sample] += 1
        up.append(10 * entry.value + pace[entry.sample] * across[-1])
    line = fit_line(across, up, [entry.sample for entry in base])
    return line.slope_interval if line else None


def binomial_interval(held: int, count: int) -> Interval:
    """Wilson's 95 % interval of a share (J. Am. Stat. Assoc. 22, 1927)."""
    share, square = held / count, student_quantile(1e9) ** 2
    middle = (share + square / (2 * count)) / (1 + square / count)
    reach = math.sqrt(square) / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return middle - reach, middle + reach
