"""`run.py coverage`: how often our 95 % intervals contain the truth, over simulated runs of which it is known.

Every row calls the function that the product calls. Values are in order of time; their logarithms are the sum of the
pace of the machine, the level of the process, of the scene, and the scatter of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.core.protocols import StopFlag
from evprof.metrics.arithmetic.statistics import Interval, Values
from evprof.metrics.estimates.estimates import marked, verdict
from evprof.metrics.estimates.observations import Observation

NOMINAL = 0.95
SIMULATIONS, QUICK_SIMULATIONS = 2000, 300
TABLE_ROWS = 8
BLOCKS, TURNS, INTERLEAVED, SHARED_BLOCKS = "blocks", "turns", "interleaved", "shared blocks"
"""How two sides are measured: all processes of one side first; in turns within each process; in processes of their own
in pairs, the first of each pair drawn; in the same processes, the baseline always first."""

Sides = tuple[list[Observation], list[Observation]]
Numbers: TypeAlias = "npt.NDArray[np.int64]"


class Runs(NamedTuple):
    """Side, engine process and place among what is asked of every run: [series, runs] in order of time."""

    sides: Numbers
    processes: Numbers
    places: Numbers

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sides.shape


Draw = Callable[[np.random.Generator, Runs], Values]
"""The logarithms of what runs take too long."""


@dataclass(frozen=True)
class Scenario:
    """`turns` runs of each of `clips` of each of `scenes` for each side in each of `processes`, scheduled by `order`.

    `noise` draws the scatter and the pace of runs. Spreads are standard deviations of logarithms: `own` of
    processes apart for each side, `scene` and `mixed` of scenes (the latter of one side more than
    of the other). `effect` is the true ratio, `clock` the step of the clock.
    """

    title: str
    noise: Draw
    order: str = TURNS
    turns: int = 5
    processes: int = 1
    scenes: int = 1
    clips: int = 1
    own: float = 0.0
    scene: float = 0.0
    mixed: float = 0.0
    effect: float = 1.0
    clock: float = 0.0
    estimator: str = "ratio"

    @property
    def runs(self) -> int:
        return self.turns * self.scenes * self.clips * self.processes


def normal(chance: np.random.Generator, runs: Runs) -> Values:
    return chance.normal(0, 0.03, runs.shape)


def student3(chance: np.random.Generator, runs: Runs) -> Values:
    return 0.05 * chance.standard_t(3, runs.shape)


def pareto(shape: float) -> Draw:
    return lambda chance, runs: np.log1p(0.05 * chance.pareto(shape, runs.shape))


def drift(change: float) -> Draw:
    return lambda chance, runs: normal(chance, runs) + np.log1p(change * np.linspace(0, 1, runs.shape[1]))


def alike(correlation: float) -> Draw:
    """AR(1) with this correlation of neighbours."""

    def draw(chance: np.random.Generator, runs: Runs) -> Values:
        found = normal(chance, runs)
        for place in range(1, runs.shape[1]):
            found[:, place] *= math.sqrt(1 - correlation**2)
            found[:, place] += correlation * found[:, place - 1]
        return found

    return draw


def warming(chance: np.random.Generator, runs: Runs) -> Values:
    """The first runs of every process take up to 10 % longer."""
    return normal(chance, runs) + 0.1 * np.exp(-(np.arange(runs.shape[1]) % _each(runs)) / 3)


def _each(runs: Runs) -> int:
    return runs.shape[1] // (int(runs.processes.max()) + 1)


def unequal(chance: np.random.Generator, runs: Runs) -> Values:
    return chance.normal(0, 1, runs.shape) * np.where(runs.sides, 0.15, 0.01)


def turbo(chance: np.random.Generator, runs: Runs) -> Values:
    """A pace of 1 or 1.2 that changes at random with the side or the process."""
    drawn, owners = chance.integers(0, 2, runs.shape), 2 * runs.processes + runs.sides
    for place in range(1, runs.shape[1]):
        is_same = owners[:, place] == owners[:, place - 1]
        drawn[is_same, place] = drawn[is_same, place - 1]
    return normal(chance, runs) + math.log(1.2) * drawn


def sticky(factor: float) -> Draw:
    """A load that takes the time times `factor`, and changes after one run in ten."""

    def draw(chance: np.random.Generator, runs: Runs) -> Values:
        changes = chance.random(runs.shape) < 0.1
        return normal(chance, runs) + math.log(factor) * (np.cumsum(changes, axis=1) % 2)

    return draw


def step(chance: np.random.Generator, runs: Runs) -> Values:
    return normal(chance, runs) + 0.1 * (np.arange(runs.shape[1]) >= runs.shape[1] / 2)


def outliers(chance: np.random.Generator, runs: Runs) -> Values:
    return normal(chance, runs) + math.log(10) * (chance.random(runs.shape) < 0.02)


NOISES: tuple[tuple[str, Draw], ...] = (
    ("lognormal 3 %", normal),
    ("Student's t3, 5 %", student3),
    ("Pareto 2.5", pareto(2.5)),
    ("Pareto 1.5", pareto(1.5)),
    ("drift 5 %", drift(0.05)),
    ("drift 20 %", drift(0.2)),
    *((f"AR(1) {number}", alike(number)) for number in (-0.6, 0.5, 0.9, 0.98)),
    ("warming up 10 %", warming),
    ("step 10 %", step),
    ("spread 15:1", unequal),
    ("turbo changes with the side", turbo),
    ("load doubles the time", sticky(2.0)),
    ("outliers 10x, 2 %", outliers),
)


def scenarios() -> list[Scenario]:
    return [*_in_turns(), *_processes(), *_scenes()]


def _in_turns() -> Iterator[Scenario]:
    for turns in (5, 10, 20):
        for title, noise in NOISES:
            yield Scenario(title, noise, turns=turns)
        yield Scenario("clock of 1 ms at 3.3 ms, ratio 0.8", normal, turns=turns, clock=1 / 3.3, effect=0.8)
        yield Scenario("difference, AR(1) 0.5", alike(0.5), turns=turns, estimator="difference")
    for share in (0.02, 0.05):
        yield Scenario(f"3 processes, {share:.0%} by side", normal, turns=3, processes=3, own=share)
    yield Scenario("3 processes, one turn each, drift 20 %", drift(0.2), turns=1, processes=3)
    yield Scenario("3 clips of a scene", alike(0.5), turns=4, clips=3, scene=0.2)


def _processes() -> Iterator[Scenario]:
    for processes in (3, 5):
        for title, noise in NOISES:
            yield Scenario(title, noise, INTERLEAVED, 5, processes, own=0.02)
        yield Scenario("lognormal, 5 %", normal, INTERLEAVED, 5, processes, own=0.05)
        coarse = Scenario("clock of 1 ms at 3.3 ms, ratio 0.8", normal, INTERLEAVED, 5, processes, clock=1 / 3.3)
        yield replace(coarse, effect=0.8)
        for title, noise in (("drift 20 %", drift(0.2)), ("turbo changes with the side", turbo)):
            for order in (BLOCKS, SHARED_BLOCKS):
                yield Scenario(title, noise, order, 5, processes)


def _scenes() -> Iterator[Scenario]:
    for scenes in (5, 8, 20):
        base = Scenario("scenes in turns", alike(0.5), turns=2, scenes=scenes, scene=0.2, mixed=0.05)
        yield base
        yield replace(base, title="scenes of 4 clips", clips=4)
        yield replace(base, title="scenes, drift 20 %", noise=drift(0.2))
        yield replace(base, title="scenes, lengths spread by 80 %", scene=0.8)
        yield replace(base, title="scenes, difference", estimator="difference")
    yield replace(base, title="scenes, processes apart", order=INTERLEAVED, processes=3, turns=1, own=0.02)
    yield replace(base, title="scenes in 3 shared processes", processes=3, turns=1, own=0.02)


def simulated(scenario: Scenario, times: int, seed: int) -> Iterator[Sides]:
    """Base and other, `times` times over; the same for the same seed."""
    chance = np.random.default_rng([20_260_601, seed])
    once = [(scene, clip) for scene in range(scenario.scenes) for clip in range(scenario.clips)]
    asked = once * scenario.turns
    each = len(asked)
    runs = _schedule(scenario, times, each, chance)
    sides, processes, places = runs
    logs = scenario.noise(chance, runs)
    own = chance.normal(0, scenario.own, (times, 2, processes.max() + 1))
    scenes = chance.normal(0, scenario.scene, (times, scenario.scenes))
    mixed = chance.normal(0, scenario.mixed, (times, 2, scenario.scenes))
    row, scene_of = np.arange(times)[:, None], np.array([scene for scene, _ in asked])[places]
    logs = logs + own[row, sides, processes] + scenes[row, scene_of]
    logs += mixed[row, sides, scene_of]
    values = np.exp(logs) * np.where(sides, scenario.effect, 1.0)
    if scenario.clock:
        values = np.maximum(np.floor(values / scenario.clock + chance.random(values.shape)), 1) * scenario.clock
    for number in range(times):
        found: Sides = ([], [])
        listed = zip(*(array[number].tolist() for array in (values, processes, sides, places)), strict=True)
        for began, (value, process, side, place) in enumerate(listed):
            turn = (process, place // len(once)) if scenario.order == TURNS else None
            found[side].append(Observation(value, asked[place], asked[place][0], f"p{process}", began + 1.0, turn=turn))
        yield found


def _schedule(scenario: Scenario, times: int, each: int, chance: np.random.Generator) -> Runs:
    count = scenario.processes
    if scenario.order == TURNS:
        first = chance.integers(0, 2, (times, count * each))
        sides = np.stack([first, 1 - first], axis=2).reshape(times, -1)
        places = np.tile(np.repeat(np.arange(each), 2), count)
        processes = np.repeat(np.arange(count), 2 * each)
    else:
        first = chance.integers(0, 2 if scenario.order == INTERLEAVED else 1, (times, count))
        owners = np.stack([first, 1 - first], axis=2).reshape(times, -1)
        if scenario.order == BLOCKS:
            owners = np.sort(owners, axis=1)
        sides = np.repeat(owners, each, axis=1)
        places = np.tile(np.arange(each), 2 * count)
        processes = np.repeat(np.arange(2 * count), each)
        if scenario.order == SHARED_BLOCKS:
            processes = processes // 2
    return Runs(sides, *(np.broadcast_to(array, sides.shape) for array in (processes, places)))


def measure_coverage(simulations: int, note: Callable[[str], None], stop: StopFlag | None = None) -> dict[str, Any]:
    """`rows`, and `summary` with the lowest coverage of all. A set `stop` ends it with the rows so far."""
    rows: list[dict[str, Any]] = []
    listed = scenarios()
    for number, scenario in enumerate(listed):
        if stop is not None and stop.is_set():
            break
        rows.append(covered(scenario, simulations, number))
        note(f"{number + 1} of {len(listed)}: {row_text(rows[-1])}")
    known = [row["coverage"] for row in rows if row["coverage"] is not None]
    return {
        "environment": {"numpy": np.__version__},
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": rows,
        "summary": {
            "lowest_coverage": min(known, default=None),
            "rows": len(rows),
            "simulations": simulations,
            "is_complete": len(rows) == len(listed),
        },
    }


def row_text(row: dict[str, Any]) -> str:
    held = "none given" if row["coverage"] is None else f"{row['coverage']:.1%} held, {row['called']:.1%} called"
    return f"{row['order']} · {row['scenario']} · {row['n']} a side · {held}, {row['without_interval']} without"


def covered(scenario: Scenario, simulations: int, seed: int) -> dict[str, Any]:
    """A row of the table: how often the interval contained the truth, and how wide it was.

    `called` is the share of all series that are called different from the truth.
    """
    found = [_interval(scenario, sides) for sides in simulated(scenario, simulations, seed)]
    known = [interval for interval in found if interval is not None]
    truth = scenario.effect if scenario.estimator == "ratio" else 0.0
    held = sum(low <= truth <= high for low, high in known)
    called = sum(not low <= truth <= high and high < 3 * low for low, high in known)
    return {
        "order": scenario.order,
        "scenario": scenario.title,
        "estimator": scenario.estimator,
        "n": scenario.runs,
        "simulations": len(found),
        "without_interval": len(found) - len(known),
        "nominal": NOMINAL,
        "coverage": held / len(known) if known else None,
        "called": called / len(found),
        "width": median(high - low for low, high in known) if known else None,
    }


def marked_tables(simulations: int, seed: int) -> float:
    """Share of tables of TABLE_ROWS rows over equal sides in which a row is marked."""
    scenario = Scenario("equal sides", normal, turns=10)
    rows = [verdict(*sides) for sides in simulated(scenario, TABLE_ROWS * simulations, seed)]
    return sum(any(marked(rows[first::simulations])) for first in range(simulations)) / simulations


def _interval(scenario: Scenario, sides: Sides) -> Interval | None:
    found = verdict(*sides)
    if found is None:
        return None
    return found.interval if scenario.estimator == "ratio" else found.delta_interval
