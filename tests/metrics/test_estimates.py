"""The rule for means and differences: which runs give an interval, what it contains, and when something is claimed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks.coverage import Scenario, covered, scenarios, simulated
from evprof.core.sample import Sample
from evprof.core.vocabulary.figures import is_clear, judge
from evprof.metrics.estimates.estimates import (
    ALL_ALIKE,
    HAS_ZEROS,
    NO_COMMON_SAMPLE,
    THESE_SAMPLES,
    UNCALLED,
    Observation,
    Verdict,
    mean_of,
    observe,
    verdict,
)

BASE = [10.0, 10.4, 9.7, 10.1, 10.2]
OTHER = [12.1, 12.3, 12.0, 12.9, 12.4]


def runs(values: list[float], process: str = "p", first: float = 0.0, step: float = 2.0) -> list[Observation]:
    """Repeats of one sample; a side that begins at 1 takes turns with one that begins at 0."""
    return [Observation(value, process=process, began_s=first + step * n) for n, value in enumerate(values)]


def scenes(values: list[float], process: str = "p", first: float = 0.0, clips: int = 1) -> list[Observation]:
    """A sample of each scene, or so many clips of it."""
    return [
        Observation(value, (n, clip), n, process, first + 2 * (n * clips + clip))
        for n, value in enumerate(values)
        for clip in range(clips)
    ]


def compared(base: list[Observation], other: list[Observation]) -> Verdict:
    found = verdict(base, other)
    assert found is not None
    return found


def test_turns_in_one_process_have_students_interval_of_log_ratios() -> None:
    found = compared(runs(BASE), runs(OTHER, first=1))
    logs = np.log(np.array(OTHER) / BASE)
    low, high = np.exp(stats.t.interval(0.95, 4, loc=logs.mean(), scale=stats.sem(logs)))
    assert found.interval == pytest.approx((low, high), rel=1e-4)
    differences = np.array(OTHER) - BASE
    ends = stats.t.interval(0.95, 4, loc=differences.mean(), scale=stats.sem(differences))
    assert found.delta_interval == pytest.approx(ends, rel=1e-4)
    assert found.ratio == pytest.approx(np.mean(OTHER) / np.mean(BASE))
    assert (found.counts, found.pairs, found.reason, found.is_clear) == ((5, 5), 1, "", True)


@pytest.mark.parametrize(
    ("base", "other", "reason"),
    [
        pytest.param(runs(BASE[:4]), runs(OTHER[:4], first=1), UNCALLED, id="four turns"),
        pytest.param(runs(BASE, step=1), runs(OTHER, first=9, step=1), UNCALLED, id="blocks"),
        pytest.param(runs(BASE, "p"), runs(OTHER, "q", first=1), UNCALLED, id="one process each"),
        pytest.param(
            runs(BASE[:1], "p") + runs(BASE[1:2], "q"), runs(OTHER[:1], "r") + runs(OTHER[1:2], "s"), UNCALLED, id="two"
        ),
        pytest.param(scenes(BASE, first=0), scenes(OTHER, first=99), UNCALLED, id="scenes in blocks"),
        pytest.param(scenes(BASE[:4]), scenes(OTHER[:4], first=1), UNCALLED, id="four scenes once"),
        pytest.param(
            [Observation(value, "a") for value in BASE], [Observation(1.0, "b")], NO_COMMON_SAMPLE, id="other samples"
        ),
        pytest.param(runs([5.0] * 6), runs([6.0] * 6, first=1), ALL_ALIKE, id="a coarse clock"),
        pytest.param(runs([0.0, *BASE]), runs([1.0, *OTHER], first=1), HAS_ZEROS, id="zero-inflated"),
    ],
)
def test_without_turns_processes_or_scenes_nothing_is_called(
    base: list[Observation], other: list[Observation], reason: str
) -> None:
    found = compared(base, other)
    assert (found.interval, found.delta_interval, found.reason, found.is_clear) == (None, None, reason, False)
    assert found.ratio is not None


def test_processes_have_welchs_interval_of_log_means() -> None:
    levels, others = [10.0, 10.5, 9.8], [12.0, 13.5, 12.6, 12.2]
    base = [entry for n, level in enumerate(levels) for entry in runs([level, level * 1.02], f"a{n}")]
    other = [entry for n, level in enumerate(others) for entry in runs([level, level * 1.02], f"b{n}")]
    found = compared(base, other)
    means = np.log(1.01 * np.array(levels)), np.log(1.01 * np.array(others))
    ends = stats.ttest_ind(means[1], means[0], equal_var=False).confidence_interval(0.95)
    assert found.interval == pytest.approx(tuple(np.exp(ends)), rel=2e-3)
    assert found.counts == (6, 8)


def test_what_both_processes_share_is_compared_within_them() -> None:
    base = [*runs(BASE, "a"), *runs([11.0], "b")]
    other = [*runs(OTHER, "a", first=1), *runs([90.0], "c")]
    found = compared(base, other)
    assert found.counts == (5, 5)
    assert found.ratio == pytest.approx(sum(OTHER) / sum(BASE))


def test_samples_are_paired_and_clips_of_a_scene_count_once() -> None:
    one = compared(scenes(BASE), scenes(OTHER, first=1))
    four = compared(scenes(BASE, clips=4), scenes(OTHER, first=1, clips=4))
    assert four.interval == pytest.approx(one.interval)
    assert (one.pairs, four.pairs) == (5, 20)
    base, other = np.array(BASE) / np.mean(BASE), np.array(OTHER) / np.mean(OTHER)
    reach = stats.t.ppf(0.975, 4) * stats.sem(other - base)
    assert one.interval == pytest.approx((one.ratio * np.exp(-reach), one.ratio * np.exp(reach)), rel=1e-4)


def test_turns_on_few_scenes_speak_of_these_samples_only() -> None:
    base, other = (
        [*runs(side[:3]), *[e._replace(sample=1, scene=1, began_s=e.began_s + 99) for e in runs(side)]]
        for side in (BASE, OTHER)
    )
    found = compared(base, [entry._replace(began_s=entry.began_s + 1) for entry in other])
    assert (found.reason, found.pairs) == (THESE_SAMPLES, 2)
    assert found.is_clear


def test_a_claim_needs_a_narrow_interval_without_1() -> None:
    assert is_clear((1.1, 3.2))
    assert is_clear((0.4, 0.9))
    for interval in (None, (0.9, 1.1), (1.1, 3.4), (0.2, 0.7), (1.0, 1.5)):
        assert not is_clear(interval)
        assert judge(1.2, interval, lower_is_better=True) == ""
    assert judge(1.2, (1.1, 1.3), lower_is_better=True) == "bad"
    assert judge(1.2, (1.1, 1.3), lower_is_better=False) == "good"
    assert judge(1.2, (1.1, 1.3), lower_is_better=None) == ""


def test_nothing_is_none() -> None:
    assert mean_of([]) is None
    assert verdict([], runs([1.0])) is None
    found = compared(runs([-1.0, 1.0]), runs([1.0, 2.0]))
    assert (found.ratio, found.delta) == (None, 1.5)


def test_means_need_processes_or_scenes() -> None:
    repeated = mean_of([*scenes([10.0, 20.0, 30.0]), *scenes([10.0]), *scenes([10.0])])
    assert repeated is not None
    assert (repeated.value, repeated.interval, repeated.count) == (20.0, None, 5)
    assert "processes" in repeated.note
    over = mean_of(scenes(BASE))
    assert over is not None
    assert over.interval is not None
    reach = stats.t.ppf(0.975, 4) * stats.sem(BASE) / np.mean(BASE)
    assert over.interval == pytest.approx((over.value * np.exp(-reach), over.value * np.exp(reach)), rel=1e-4)
    processes = mean_of([entry for n, value in enumerate(BASE) for entry in runs([value, value], f"p{n}")])
    assert processes is not None
    assert processes.interval == pytest.approx(over.interval)
    zeros = mean_of(scenes([0.0, *BASE]))
    assert zeros is not None
    assert (zeros.interval, zeros.note) == (None, HAS_ZEROS)


def test_runs_give_scene_and_process(script, plain_writer) -> None:
    run = plain_writer(script(1))
    run.info.sample = Sample("d/000001_*.png", "a.mp4", "What?", "one")
    (found,) = observe([run], lambda _: 1.0, "old.evprof")
    assert (found.scene, found.sample, found.process) == ("d", ("one", "What?"), "old.evprof")
    run.info.environment = {"engine_session": "7f"}
    assert observe([run], lambda _: 1.0, "old.evprof")[0].process == "7f"


@pytest.mark.parametrize("estimator", sorted({scenario.estimator for scenario in scenarios()}))
def test_intervals_contain_the_truth_in_every_row(estimator: str) -> None:
    """At least 93 %, less what 300 simulations scatter by; every row gives intervals."""
    rows = [
        covered(scenario, 300, seed)
        for seed, scenario in enumerate(scenarios())
        if scenario.estimator == estimator and scenario.runs <= 64
    ]
    assert {row["without_interval"] for row in rows} == {0}
    low = [(row["scenario"], row["n"], row["coverage"]) for row in rows if row["coverage"] < 0.91]
    assert not low


def test_equal_sides_are_rarely_called() -> None:
    """At most 5 % of pairs of equal sides, plus scatter."""
    scenario = Scenario("equal", turns=10, alike=0.5, drift=0.1)
    called = 0
    for base, other in simulated(scenario, 400, 1):
        found = verdict(base, [entry._replace(value=entry.value / 1.25) for entry in other])
        called += found is not None and found.is_clear
    assert called <= 30
