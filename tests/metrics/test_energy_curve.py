"""Energy of a window, from a counter that goes up every 100 ms and from power; with moments of our own."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.metrics.arithmetic.energy_curve import EnergyCurve, by_sharers

MS = 1_000_000
STEP_MS = 100
MOST_W = 800

GAPS_MS = st.lists(st.integers(20, 250), min_size=4, max_size=60)
WATTS = st.lists(st.integers(0, MOST_W), min_size=1, max_size=8)
MOMENTS_MS = st.integers(-300, 12_000)
SHARES = st.lists(st.floats(0, 1), min_size=3, max_size=3)


def drawn_uj(watts: list[int], until_ms: int) -> int:
    """True energy from 0: the power changes every 700 ms, W times ms are mJ."""
    lengths = [(watts[index % len(watts)], max(0, min(700, until_ms - 700 * index))) for index in range(40)]
    return 1000 * sum(power * length for power, length in lengths)


def counter(watts: list[int], at_ms: int) -> int:
    """What it shows: the energy up to its last step."""
    return 7_000_000 + drawn_uj(watts, at_ms // STEP_MS * STEP_MS)


def sampled(watts: list[int], gaps_ms: list[int]) -> tuple[EnergyCurve, list[int]]:
    times = list(itertools.accumulate(gaps_ms, initial=0))
    return EnergyCurve.of_counter([time * MS for time in times], [counter(watts, time) for time in times]), times


def window_j(curve: EnergyCurve, *edges_ms: int) -> float | None:
    return curve.energy_j([(edges_ms[0] * MS, edges_ms[1] * MS)])


@given(WATTS, GAPS_MS, SHARES)
def test_a_window_is_off_by_a_step_of_the_counter_and_of_the_samples_at_each_end(watts, gaps, shares):
    curve, times = sampled(watts, gaps)
    start, end = sorted(round(share * times[-1]) for share in shares[:2])
    found, resolution_ns = window_j(curve, start, end), curve.resolution_ns((start * MS, end * MS))
    if found is None:
        assert resolution_ns is None or (end - start) * MS < resolution_ns
        return
    true_j = (drawn_uj(watts, end) - drawn_uj(watts, start)) / 1e6
    assert abs(found - true_j) <= 2 * MOST_W * (resolution_ns / MS + STEP_MS) / 1000


@given(WATTS, GAPS_MS, SHARES)
def test_two_windows_that_touch_are_their_sum(watts, gaps, shares):
    curve, times = sampled(watts, gaps)
    first, second, third = sorted(round(share * times[-1]) for share in shares)
    parts = [window_j(curve, first, second), window_j(curve, second, third), window_j(curve, first, third)]
    known = [part for part in parts if part is not None]
    assert min(known, default=0) >= 0
    if len(known) == len(parts):
        assert known[0] + known[1] == pytest.approx(known[2], abs=1e-6)


@given(WATTS, GAPS_MS, MOMENTS_MS, st.integers(0, STEP_MS - 1))
def test_what_is_shorter_than_a_step_is_not_known(watts, gaps, start, length):
    curve, _ = sampled(watts, gaps)
    assert window_j(curve, start, start + length) is None


@given(st.lists(st.integers(1, MOST_W), min_size=1, max_size=8), st.integers(4, 60), st.data())
def test_missing_samples_lose_no_energy(watts, count, data):
    """A counter knows what was drawn while nobody looked."""
    times = [STEP_MS * index for index in range(count)]
    counts = [counter(watts, time) for time in times]
    kept = sorted({0, 1, count - 2, count - 1, *data.draw(st.sets(st.integers(0, count - 1)))})
    whole, thinned = (
        EnergyCurve.of_counter([times[place] * MS for place in places], [counts[place] for place in places])
        for places in (range(count), kept)
    )
    assert window_j(thinned, 0, times[-1]) == pytest.approx(window_j(whole, 0, times[-1]))


def steady(watts: float, until_ms: int, every_ms: int = 100) -> tuple[list[int], list[int]]:
    times = range(0, until_ms + 1, every_ms)
    return [time * MS for time in times], [int(watts * time * 1000) for time in times]


def test_the_last_step_of_a_window_may_not_be_seen_yet_but_no_more():
    curve = EnergyCurve.of_counter(*steady(300, 2000))
    assert window_j(curve, 1000, 2090) == pytest.approx(327)
    assert window_j(curve, -90, 1000) == pytest.approx(327)
    assert window_j(curve, 1000, 2600) is None
    assert window_j(curve, -600, 1000) is None


def test_several_windows_need_a_step_each():
    curve = EnergyCurve.of_counter(*steady(300, 4000))
    assert curve.energy_j([(0, 300 * MS), (1000 * MS, 1050 * MS)]) == pytest.approx(105)
    assert curve.energy_j([(0, 120 * MS), (1000 * MS, 1050 * MS)]) is None
    assert curve.energy_j([(0, 300 * MS), (200 * MS, 400 * MS)]) == pytest.approx(120)
    assert curve.energy_j([]) is None


def test_a_counter_that_never_moves_tells_nothing():
    assert window_j(EnergyCurve.of_counter([0, 100 * MS, 200 * MS], [5, 5, 5]), 0, 200) is None
    assert window_j(EnergyCurve.of_counter([0], [5]), 0, 200) is None
    assert window_j(EnergyCurve.of_counter([], []), 0, 200) is None


def test_a_counter_that_was_begun_again_is_a_break():
    times, counts = steady(300, 4000)
    again = [count if time <= 2000 * MS else count - counts[20] for time, count in zip(times, counts, strict=True)]
    curve = EnergyCurve.of_counter(times, again)
    assert window_j(curve, 100, 1900) == pytest.approx(540)
    assert window_j(curve, 2300, 3900) == pytest.approx(480)
    assert window_j(curve, 1000, 3000) is None


def test_power_is_integrated_and_a_long_gap_is_a_break():
    times = [time * MS for time in (*range(0, 1001, 100), *range(3000, 4001, 100))]
    watts = [100_000 + 20_000 * (time >= 3000 * MS) for time in times]
    curve = EnergyCurve.of_power(times, watts)
    assert window_j(curve, 0, 1000) == pytest.approx(100)
    assert window_j(curve, 3250, 3950) == pytest.approx(84)
    assert window_j(curve, 500, 3500) is None
    rising = EnergyCurve.of_power([0, 500 * MS, 1000 * MS], [0, 100_000, 200_000])
    assert window_j(rising, 0, 1000) == pytest.approx(100)


INTERVALS = st.tuples(st.integers(0, 40), st.integers(0, 40))


@given(st.lists(st.tuples(st.sampled_from("abc"), INTERVALS), max_size=8))
def test_every_moment_has_one_set_of_sharers(named):
    found = by_sharers(named)
    for moment in range(40):
        inside = frozenset(name for name, (start, end) in named if start <= moment < end)
        holders = [names for names, parts in found.items() for start, end in parts if start <= moment < end]
        assert holders == ([inside] if inside else [])
