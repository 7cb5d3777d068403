"""Estimates: what runs share decides what they weigh and how sure they make a figure."""

from __future__ import annotations

import numpy as np
import pytest

from evprof.core.sample import Sample
from evprof.metrics.arithmetic.statistics import mean_interval, ratio_interval
from evprof.metrics.estimates.estimates import Observation, difference_of, mean_of, observe, ratio_of


def scenes(values: list[float], session: str = "") -> list[Observation]:
    return [Observation(value, f"s{place}", f"s{place}", session) for place, value in enumerate(values)]


def test_a_sample_asked_often_weighs_no_more() -> None:
    found = mean_of([*scenes([10.0, 20.0, 30.0]), *scenes([10.0]), *scenes([10.0])])
    assert found is not None
    assert found.value == 20
    assert found.counts == (5,)


def test_clips_of_a_scene_move_together() -> None:
    """Four clips of each of three recordings are three values, not twelve."""
    levels = [10.0, 20.0, 30.0]
    clips = [Observation(level, (scene, clip), scene) for scene, level in enumerate(levels) for clip in range(4)]
    found = mean_of(clips)
    assert found is not None
    assert found.interval == pytest.approx(mean_interval(levels))


def test_ratios_are_over_the_samples_both_have_in_pairs() -> None:
    one, two = [10.0, 20.0, 30.0, 40.0], [11.0, 22.5, 32.0]
    found = ratio_of(scenes(one), scenes(two))
    assert found is not None
    assert (found.pairs, found.counts) == (3, (3, 3))
    assert found.value == pytest.approx(65.5 / 60)
    assert found.interval == pytest.approx(ratio_interval(one[:3], two, paired=True))


def test_what_both_engine_processes_share_is_compared_within_them() -> None:
    """The second process is a tenth slower on both sides: in each, the ratio is 2."""
    base = [*scenes([10.0] * 3, "a"), *scenes([11.0] * 3, "b")]
    other = [*scenes([20.0] * 3, "a"), *scenes([22.0] * 3, "b"), *scenes([90.0] * 3, "c")]
    found = ratio_of(base, other)
    assert found is not None
    assert found.sessions == (2, 2)
    assert found.interval == pytest.approx((2, 2))


def test_fewer_than_three_runs_have_no_interval() -> None:
    found = difference_of(scenes([1.0, 2.0]), scenes([3.0, 4.0]))
    assert found is not None
    assert found.value == 2
    assert (found.interval, found.note) == (None, "fewer than three runs a side")
    assert not found.differs_from(0)


def test_nothing_is_none() -> None:
    assert mean_of([]) is None
    assert ratio_of([], scenes([1.0])) is None
    assert ratio_of(scenes([0.0, 0.0, 0.0]), scenes([1.0, 1.0, 1.0])) is None


def test_runs_tell_scene_and_process(script, plain_writer) -> None:
    run = plain_writer(script(1))
    run.info.sample = Sample("d/000001_*.png", "a.mp4", "What?", "one")
    (found,) = observe([run], lambda _: 1.0, "old.evprof")
    assert (found.scene, found.sample, found.session) == ("d", ("one", "What?"), "old.evprof")
    run.info.environment = {"engine_session": "7f"}
    assert observe([run], lambda _: 1.0, "old.evprof")[0].session == "7f"


def long_series(count: int, seed: int, gap: int) -> tuple[list[Observation], list[Observation]]:
    """Two sides in turns, the second a quarter slower, on a machine whose pace wanders. Every `gap`-th turn lacks."""
    random = np.random.default_rng(seed)
    sides: tuple[list[Observation], list[Observation]] = [], []
    pace = 0.0
    for place in range(count):
        pace = 0.8 * pace + random.normal(0, 0.02)
        if place % gap:
            value = (10.0, 12.5)[place % 2] * (1 + pace + random.normal(0, 0.02))
            sides[place % 2].append(Observation(value, began_s=float(place)))
    return sides


@pytest.mark.parametrize("gap", [17, 1_000])
@pytest.mark.parametrize("count", [60, 142, 300, 500])
def test_runs_in_turns_have_an_interval_however_many_they_are(count: int, gap: int) -> None:
    found = [ratio_of(*long_series(count, seed, gap)) for seed in range(20)]
    intervals = [one.interval for one in found if one is not None and one.interval is not None]
    assert len(intervals) == 20
    assert sum(low <= 1.25 <= high for low, high in intervals) >= 16
    assert max(high - low for low, high in intervals) < 0.06


def test_few_runs_of_one_side_among_many_of_the_other_count() -> None:
    base, other = long_series(300, 1, 17)
    found = ratio_of(base, other[::50])
    assert found is not None
    assert found.interval is not None
