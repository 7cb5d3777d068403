"""The rule for means and differences: which runs give an interval, what it contains, and when something is claimed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks.coverage import INTERLEAVED, TURNS, covered, marked_tables, row_text, scenarios
from evprof.core.run_info import Turn
from evprof.core.sample import Sample
from evprof.core.vocabulary.figures import is_clear
from evprof.metrics.arithmetic.statistics import Values
from evprof.metrics.estimates.estimates import (
    ALL_ALIKE,
    HAS_ZEROS,
    NO_COMMON_SAMPLE,
    UNKNOWN_ORDER,
    Verdict,
    marked,
    mean_of,
    verdict,
)
from evprof.metrics.estimates.observations import IMPORTED, Observation, observe
from evprof.metrics.figures.stages import Rate

BASE = [10.0, 10.4, 9.7, 10.1, 10.2]
OTHER = [12.1, 12.3, 12.0, 12.9, 12.4]
COMMAND = "`evprof suite … --repeat 5` measures both sides"


def runs(values: list[float], process: str = "p", began_s: float = 1.0, *, turns: bool = True) -> list[Observation]:
    """Repeats of one sample, in turns with those of another side or not."""
    return [
        Observation(value, process=process, began_s=began_s + n, turn=("s", n) if turns else None, run=n)
        for n, value in enumerate(values)
    ]


def apart(levels: list[float], *places: int, side: str) -> list[Observation]:
    """Two runs in each of several processes, at these places in time."""
    return [
        entry
        for place, level in zip(places, levels, strict=True)
        for entry in runs([level, level * 1.02], f"{side}{place}", 100.0 * place, turns=False)
    ]


def scenes(values: list[float], *, clips: int = 1, turns: bool = True) -> list[Observation]:
    """A sample of each scene, or so many clips of it."""
    return [
        Observation(value, (n, clip), n, "p", 1.0 + n, turn=0 if turns else None)
        for n, value in enumerate(values)
        for clip in range(clips)
    ]


def compared(base: list[Observation], other: list[Observation]) -> Verdict:
    found = verdict(base, other)
    assert found is not None
    return found


def student(values: Values) -> tuple[float, float]:
    """Student's interval; where neighbours are alike, of as many fewer values."""
    rest = values - values.mean()
    less = 1 + 2 * max(0.0, rest[1:] @ rest[:-1] / (rest @ rest) + 1 / len(values))
    return stats.t.interval(0.95, (len(values) - 1) / less, values.mean(), stats.sem(values) * np.sqrt(less))


def test_turns_in_one_process_have_students_interval_of_log_ratios() -> None:
    found = compared(runs(BASE), runs(OTHER))
    assert found.interval == pytest.approx(np.exp(student(np.log(np.array(OTHER) / BASE))), rel=1e-4)
    assert found.delta_interval == pytest.approx(student(np.array(OTHER) - BASE), rel=1e-4)
    assert found.ratio == pytest.approx(np.mean(OTHER) / np.mean(BASE))
    assert (found.unit, found.runs, found.pairs, found.reason) == ("turns", ((*range(5),),) * 2, 1, "")
    assert found.is_clear


def test_runs_outside_common_turns_are_not_compared() -> None:
    alone = runs([99.0], began_s=50, turns=False)
    found = compared([*runs(BASE), *alone], [*runs([*OTHER, 77.0]), *runs([88.0], "q")])
    assert found.means == (pytest.approx(np.mean(BASE)), pytest.approx(np.mean(OTHER)))
    assert found.counts == (5, 5)


@pytest.mark.parametrize(
    ("base", "other", "reason"),
    [
        pytest.param(runs(BASE[:4]), runs(OTHER[:4]), f"not called: 4 of 5 turns. {COMMAND}", id="four turns"),
        pytest.param(
            runs(BASE, turns=False),
            runs(OTHER, turns=False),
            f"not called: the sides did not run in turns. {COMMAND}",
            id="one process without turns",
        ),
        pytest.param(runs(BASE, "p"), runs(OTHER, "q"), f"not called: one process each. {COMMAND}", id="one process"),
        pytest.param(
            apart(BASE[:3], 1, 3, 5, side="a"),
            apart(OTHER[:2], 2, 4, side="b"),
            f"not called: 3 and 2 processes. {COMMAND}",
            id="too few processes on one side",
        ),
        pytest.param(
            apart(BASE[:2], 1, 3, side="a"),
            apart(OTHER[:2], 2, 4, side="b"),
            f"not called: 2 processes each. {COMMAND}",
            id="two processes",
        ),
        pytest.param(
            apart(BASE[:3], 1, 2, 3, side="a"),
            apart(OTHER[:3], 4, 5, 6, side="b"),
            f"not called: the processes of one side ran before those of the other. {COMMAND}",
            id="one side after the other",
        ),
        pytest.param(
            [entry for n in range(3) for entry in runs(BASE, f"p{n}", 100.0 * n, turns=False)],
            [entry for n in range(3) for entry in runs(OTHER, f"p{n}", 100.0 * n + 9, turns=False)],
            f"not called: the sides did not run in turns. {COMMAND}",
            id="the baseline first in every process",
        ),
        pytest.param(
            scenes(BASE[:3], clips=2),
            scenes(OTHER[:3], clips=2),
            f"not called: 6 turns on 6 samples of 3 scenes. {COMMAND}",
            id="a turn on each sample of three scenes",
        ),
        pytest.param(
            [entry._replace(process=IMPORTED, began_s=0.0) for entry in scenes(BASE[:4], turns=False)],
            [entry._replace(process=IMPORTED, began_s=0.0) for entry in scenes(OTHER[:4], turns=False)],
            "not called: the file has 4 of 5 scenes",
            id="a file of four scenes",
        ),
        pytest.param(
            [Observation(value, "a") for value in BASE], [Observation(1.0, "b")], NO_COMMON_SAMPLE, id="other samples"
        ),
        pytest.param(runs([5.0] * 6), runs([6.0] * 6), ALL_ALIKE, id="a coarse clock"),
        pytest.param(runs([0.0, *BASE]), runs([1.0, *OTHER]), HAS_ZEROS, id="zero-inflated"),
    ],
)
def test_without_turns_processes_or_scenes_nothing_is_called(
    base: list[Observation], other: list[Observation], reason: str
) -> None:
    found = compared(base, other)
    assert (found.interval, found.delta_interval, found.p, found.unit) == (None, None, None, "")
    assert (found.reason, found.is_clear) == (reason, False)
    assert found.ratio is not None


def test_the_command_names_the_modes_of_both_sides() -> None:
    base, other = ([entry._replace(mode=mode) for entry in runs([5.0])] for mode in ("target", "speculative"))
    found = compared(base, other)
    assert found.reason.endswith("`evprof run … --mode target,speculative --repeat 5` measures both sides")


def test_processes_that_interleave_have_welchs_interval_of_log_means() -> None:
    levels, others = [10.0, 10.5, 9.8], [12.0, 13.5, 12.6, 12.2]
    found = compared(apart(levels, 1, 3, 6, side="a"), apart(others, 2, 4, 5, 7, side="b"))
    means = np.log(1.01 * np.array(levels)), np.log(1.01 * np.array(others))
    ends = stats.ttest_ind(means[1], means[0], equal_var=False).confidence_interval(0.95)
    assert found.interval == pytest.approx(tuple(np.exp(ends)), rel=2e-3)
    assert (found.counts, found.unit) == ((6, 8), "processes")


def test_samples_are_paired_and_clips_of_a_scene_count_once() -> None:
    one = compared(scenes(BASE), scenes(OTHER))
    four = compared(scenes(BASE, clips=4), scenes(OTHER, clips=4))
    assert four.interval == pytest.approx(one.interval)
    assert (one.pairs, four.pairs, one.unit) == (5, 20, "scenes")
    base, other = np.array(BASE) / np.mean(BASE), np.array(OTHER) / np.mean(OTHER)
    reach = stats.t.ppf(0.975, 4) * stats.sem(other - base)
    assert one.interval == pytest.approx((one.ratio * np.exp(-reach), one.ratio * np.exp(reach)), rel=2e-3)


def test_scenes_without_turns_have_no_interval_unless_their_order_is_unknown() -> None:
    found = compared(scenes(BASE, turns=False), scenes(OTHER, turns=False))
    assert found.reason.startswith("not called: the sides did not run in turns")
    listed = [
        [entry._replace(process=IMPORTED, began_s=0.0) for entry in scenes(side, turns=False)] for side in (BASE, OTHER)
    ]
    found = compared(*listed)
    assert (found.is_clear, found.reason) == (True, UNKNOWN_ORDER)
    assert compared(listed[0], listed[1][::-1]).interval == found.interval, "scenes are paired in any order"


def test_turns_on_few_scenes_speak_of_these_samples_only() -> None:
    base, other = ([*runs(side[:3]), *[e._replace(sample=1, scene=1) for e in runs(side)]] for side in (BASE, OTHER))
    found = compared(base, other)
    assert (found.reason, found.pairs) == ("about these 2 samples only: fewer than 5 scenes", 2)
    assert found.is_clear


def test_rates_are_totals_by_totals() -> None:
    """41 runs of a token and one of 100 do not weigh the same."""
    slow, fast = Observation(10.0, weight=10.0), Observation(100.0, weight=0.5)
    found = compared([slow, fast], [slow])
    assert found.means == (pytest.approx(150 / 10.5), 10.0)


def test_rows_are_marked_by_holms_correction() -> None:
    rows = [compared(runs(BASE), runs([value * factor for value in OTHER])) for factor in (1.0, 0.87, 0.826)]
    assert [row.is_clear for row in rows] == [True, True, False]
    assert marked([rows[1]]) == [True]
    assert marked([*rows, None, *[rows[2]] * 4]) == [True, False, False, False, False, False, False, False]


def test_a_claim_needs_a_narrow_interval_without_1() -> None:
    assert is_clear((1.1, 3.2))
    assert is_clear((0.4, 0.9))
    for interval in (None, (0.9, 1.1), (1.1, 3.4), (0.2, 0.7), (1.0, 1.5)):
        assert not is_clear(interval)
    slower = compared(runs(BASE), runs(OTHER))
    assert [slower.judge(lower_is_better=lower) for lower in (True, False, None)] == ["bad", "good", ""]
    assert compared(runs(BASE), runs(BASE[::-1])).judge(lower_is_better=True) == ""


def test_no_values_are_too_far_apart() -> None:
    found = compared(runs([1e-90, 1.0, 1e90, 1.0, 1.0]), runs([1e90, 1.0, 1e-90, 1.0, 2.0]))
    assert found.interval is not None
    assert not found.is_clear


def test_nothing_is_none() -> None:
    assert mean_of([]) is None
    assert verdict([], runs([1.0])) is None
    found = compared(runs([-1.0, 1.0]), runs([1.0, 2.0]))
    assert (found.ratio, found.delta) == (None, 1.5)


def test_runs_give_scene_process_and_turn(script, plain_writer) -> None:
    run = plain_writer(script(1))
    run.info.sample = Sample("d/000001_*.png", "a.mp4", "What?", "one")
    (found,) = observe([run], lambda _: 1.0, "old.evprof")
    assert (found.scene, found.sample, found.process, found.turn) == ("d", ("one", "What?"), "old.evprof", None)
    run.info.environment, run.info.turn = {"engine_session": "7f"}, Turn("series", 3, 1)
    (found,) = observe([run], Rate(lambda _: 6.0, lambda _: 2.0), "old.evprof")
    assert (found.process, found.turn, found.run, found.value, found.weight) == ("7f", ("series", 3), 1, 3.0, 2.0)


@pytest.mark.parametrize("order", sorted({scenario.order for scenario in scenarios()}))
def test_intervals_contain_the_truth_in_every_row(order: str) -> None:
    """At least 93 %, less what 200 simulations scatter by."""
    listed = [(seed, row) for seed, row in enumerate(scenarios()) if row.order == order and row.runs <= 15]
    rows = [covered(scenario, 200, seed) for seed, scenario in listed]
    low = [row_text(row) for row in rows if row["coverage"] is not None and row["coverage"] < 0.89]
    assert not low
    assert any(row["coverage"] for row in rows) == (order in (TURNS, INTERLEAVED))


def test_few_tables_of_equal_sides_have_a_mark() -> None:
    """At most 5 % of tables of 8 rows, plus scatter."""
    assert marked_tables(200, 1) <= 0.09
