"""`run.py coverage`: how often our 95 % intervals hold the truth, over simulated runs of which it is known.

Every row asks the function that the product asks. Widths stand beside an oracle's: the interval of who knows all that
was simulated (the spreads, how alike neighbours are, the drift) and has only the runs' means to look up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any

import numpy as np

from benchmarks.simulated_runs import Scenario, oracle_error, oracle_error_of_mean, simulated
from evprof.core.protocols import StopFlag
from evprof.metrics.arithmetic.scaling import fit_line
from evprof.metrics.arithmetic.statistics import Interval, student_quantile
from evprof.metrics.estimates.drift import trend_of
from evprof.metrics.estimates.estimates import Observation, ProcessSpread, difference_of, mean_of, ratio_of

NOMINAL = 0.95
SIMULATIONS, QUICK_SIMULATIONS = 2000, 300
_NORMAL = 1.959963984540054

Sides = tuple[list[Observation], list[Observation]]


@dataclass(frozen=True)
class CoverageCase:
    """A row: `estimator` over runs of `scenario`; `spread_from`: fresh processes that told what processes differ by."""

    title: str
    estimator: str
    scenario: Scenario
    spread_from: int = 0

    @property
    def runs(self) -> int:
        """Of one side."""
        scenario = self.scenario
        return scenario.repeats * scenario.scenes * scenario.samples * scenario.processes


BLOCKS = Scenario()
TURNS = Scenario(has_turns=True, alike=0.5, drift=0.05)
SCENES = Scenario(repeats=3, has_turns=True, alike=0.5, scene=0.2, mixed=0.05)
APART = Scenario(is_shared=False, process=0.02, alike=0.5)


def questions() -> list[CoverageCase]:
    """All rows, in order."""
    return [*_repeats(), *_processes(), *_scenes(), *_means(), *_trends()]


def _repeats() -> Iterator[CoverageCase]:
    for alike in (0.0, 0.5, 0.8):
        for count in (3, 5, 10, 30):
            yield CoverageCase(f"blocks, alike {alike}", "ratio", replace(BLOCKS, repeats=count, alike=alike))
    for count in (3, 10, 40):
        scenario = replace(BLOCKS, repeats=count, alike=0.5, drift=0.05)
        yield CoverageCase("blocks, alike 0.5, drift 5 %", "ratio", scenario)
        yield CoverageCase("blocks, alike 0.5", "difference", replace(scenario, drift=0.0))
        yield CoverageCase("turns, alike 0.5, drift 5 %", "ratio", replace(TURNS, repeats=count))
        yield CoverageCase("turns, alike 0.5, drift 5 %", "difference", replace(TURNS, repeats=count))


def _processes() -> Iterator[CoverageCase]:
    for count in (3, 10, 30):
        scenario = replace(APART, repeats=count)
        yield CoverageCase("one process each, 2 %, spread from 10", "ratio", scenario, 10)
        yield CoverageCase("the same, drift 5 %", "ratio", replace(scenario, drift=0.05), 10)
    for count in (2, 3, 5):
        scenario = replace(APART, repeats=10, processes=count, drift=0.05)
        yield CoverageCase(f"{count} processes each, 2 %, drift 5 %", "ratio", scenario)
        shared = replace(scenario, is_shared=True, has_turns=True)
        yield CoverageCase(f"{count} processes of both, 2 %, drift 5 %", "ratio", shared)
    scenario = replace(SCENES, processes=3, is_shared=False, has_turns=False, process=0.02)
    yield CoverageCase("3 processes each, 12 scenes", "ratio", replace(scenario, scenes=12))


def _scenes() -> Iterator[CoverageCase]:
    for count in (3, 8, 20):
        yield CoverageCase(f"{count} scenes in turns", "ratio", replace(SCENES, scenes=count))
        yield CoverageCase(f"{count} scenes of 4 clips, in turns", "ratio", replace(SCENES, scenes=count, samples=4))
        yield CoverageCase(f"{count} scenes in turns", "difference", replace(SCENES, scenes=count))
        blocks = replace(SCENES, scenes=count, has_turns=False, mixed=0.0, alike=0.8)
        yield CoverageCase(f"{count} scenes once, blocks, alike 0.8", "ratio", replace(blocks, repeats=1))
        yield CoverageCase(f"{count} scenes, blocks, drift 5 %", "ratio", replace(blocks, alike=0.5, drift=0.05))
    two = replace(BLOCKS, scenes=2, scene=0.2, repeats=5, alike=0.5)
    yield CoverageCase("2 scenes, blocks, alike 0.5", "ratio", two)
    yield CoverageCase("5 clips of a scene, in turns", "ratio", replace(TURNS, samples=5, sample=0.2, repeats=3))


def _means() -> Iterator[CoverageCase]:
    for alike in (0.0, 0.5, 0.8):
        for count in (3, 10, 30):
            yield CoverageCase(f"repeats, alike {alike}", "mean", Scenario(repeats=count, alike=alike))
    for count in (3, 8, 20):
        scenario = replace(SCENES, scenes=count, mixed=0.0)
        yield CoverageCase(f"{count} scenes, 3 repeats", "mean", scenario)
        yield CoverageCase(f"{count} scenes of 4 clips, 3 repeats", "mean", replace(scenario, samples=4, sample=0.1))
    yield CoverageCase("5 processes, 2 %", "mean", replace(APART, repeats=10, processes=5))


def _trends() -> Iterator[CoverageCase]:
    for alike in (0.0, 0.5, 0.8):
        for count in (4, 10, 40):
            yield CoverageCase(f"no drift, alike {alike}", "drift", Scenario(repeats=count, alike=alike))
    for count in (3, 8, 20):
        yield CoverageCase(
            f"{count} samples, paces of their own", "slope", Scenario(repeats=8, scenes=count, mixed=0.2)
        )


@dataclass(frozen=True)
class _Answer:
    interval: Interval | None
    truth: float


def measure_coverage(simulations: int, note: Callable[[str], None], stop: StopFlag | None = None) -> dict[str, Any]:
    """`rows`, and `summary` with the lowest coverage of all. A set `stop` ends it with the rows so far."""
    rows: list[dict[str, Any]] = []
    asked = questions()
    for number, question in enumerate(asked):
        if stop is not None and stop.is_set():
            break
        rows.append(covered(question, simulations, number))
        note(f"{number + 1} of {len(asked)}: {question.estimator}, {question.title}: {rows[-1]['coverage']:.3f}")
    return {
        "environment": {"numpy": np.__version__},
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": rows,
        "summary": {
            "lowest_coverage": min((row["coverage"] for row in rows), default=None),
            "rows": len(rows),
            "simulations": simulations,
            "is_complete": len(rows) == len(asked),
        },
    }


def covered(question: CoverageCase, simulations: int, seed: int) -> dict[str, Any]:
    """A row of the table: how often the interval held the truth, and how wide it was."""
    answers = [_answer(question, sides, place) for place, sides in enumerate(_simulated(question, simulations, seed))]
    known = [answer for answer in answers if answer.interval is not None]
    widths = [answer.interval[1] - answer.interval[0] for answer in known if answer.interval is not None]
    held = sum(a.interval[0] <= a.truth <= a.interval[1] for a in known if a.interval is not None)
    width, oracle = median(widths) if widths else None, _oracle_width(question)
    return {
        "scenario": question.title,
        "estimator": question.estimator,
        "n": question.runs,
        "simulations": len(answers),
        "without_interval": len(answers) - len(known),
        "nominal": NOMINAL,
        "coverage": held / len(known) if known else 0.0,
        "coverage_ci95": list(binomial_interval(held, len(known))) if known else None,
        "width": width,
        "oracle_width": oracle,
        "width_ratio": width / oracle if width is not None and oracle else None,
    }


def _simulated(question: CoverageCase, simulations: int, seed: int) -> Iterator[Sides]:
    yield from simulated(question.scenario, simulations, seed)


def _answer(question: CoverageCase, sides: Sides, place: int) -> _Answer:
    base, other = sides
    low, high = question.scenario.levels
    match question.estimator:
        case "ratio":
            found = ratio_of(base, other, _spread(question, place))
            return _Answer(found.interval if found else None, high / low)
        case "difference":
            found = difference_of(base, other, _spread(question, place))
            return _Answer(found.interval if found else None, high - low)
        case "mean":
            found = mean_of(base)
            return _Answer(found.interval if found else None, low)
        case "drift":
            line = trend_of(
                [entry.began_s for entry in base],
                [entry.value for entry in base],
                [entry.sample for entry in base],
            )
            return _Answer(line.slope_interval if line else None, 0.0)
        case _:
            return _slope(base, place)


def _spread(question: CoverageCase, place: int) -> ProcessSpread | None:
    """What a few fresh processes would have told of how much they differ."""
    if not question.spread_from:
        return None
    degrees = question.spread_from - 1
    chance = np.random.default_rng([question.runs, place])
    return ProcessSpread(question.scenario.process * math.sqrt(chance.chisquare(degrees) / degrees), degrees)


def _slope(base: Sequence[Observation], place: int) -> _Answer:
    """How a figure grows over frames, each sample at a pace of its own about 1 per frame."""
    chance = np.random.default_rng([7, place])
    scenes = sorted({entry.sample for entry in base}, key=str)
    pace = dict(zip(scenes, 1 + 0.2 * chance.standard_normal(len(scenes)), strict=True))
    frames = [1.0, 4.0, 8.0, 16.0]
    number = dict.fromkeys(scenes, 0)
    across, up = [], []
    for entry in base:
        across.append(frames[number[entry.sample] % len(frames)])
        number[entry.sample] += 1
        up.append(10 * entry.value + pace[entry.sample] * across[-1])
    line = fit_line(across, up, [entry.sample for entry in base])
    return _Answer(line.slope_interval if line else None, 1.0)


def _oracle_width(question: CoverageCase) -> float | None:
    scenario = question.scenario
    low, high = scenario.levels
    reach = 2 * _NORMAL
    match question.estimator:
        case "ratio":
            return reach * oracle_error(scenario) * high / low
        case "difference":
            return reach * oracle_error(scenario) * math.hypot(low, high) / math.sqrt(2)
        case "mean":
            return reach * oracle_error_of_mean(scenario) * low
        case _:
            return None


def binomial_interval(held: int, count: int) -> Interval:
    """Wilson's 95 % interval of a share (J. Am. Stat. Assoc. 22, 1927)."""
    share, square = held / count, student_quantile(1e9) ** 2
    middle = (share + square / (2 * count)) / (1 + square / count)
    reach = math.sqrt(square) / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return middle - reach, middle + reach
