"""The simulated sensor fires when and as often as its formula says, in order, and the same for the same seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders import simulation
from evprof.loaders.events.recording import joined
from evprof.loaders.simulation import LEAST_THRESHOLD, LOG_INTENSITY, ContrastSimulator

pictures = st.lists(st.lists(st.integers(0, 255), min_size=6, max_size=6), min_size=2, max_size=8)


def shown(simulator: ContrastSimulator, greys: list[list[int]], step_us: int = 1000) -> EventArray:
    return joined(
        [simulator.frame(np.array(grey, np.uint8).reshape(2, 3), index * step_us) for index, grey in enumerate(greys)]
    )


def rows(events: EventArray) -> list[tuple[int, int, int, int]]:
    return list(zip(events.t_us.tolist(), events.x.tolist(), events.y.tolist(), events.p.tolist(), strict=True))


@pytest.mark.parametrize("slope", [2.7, -2.7])
@pytest.mark.parametrize("frames", [1, 7, 100])
def test_a_ramp_of_log_intensity_fires_at_each_threshold_to_the_microsecond(slope: float, frames: int) -> None:
    simulator = ContrastSimulator(1, 1)
    events = joined(
        simulator.log_frame(np.full((1, 1), slope * index / frames), 1_000_000 * index // frames)
        for index in range(frames + 1)
    )
    times = [1_000_000 * index // frames for index in range(frames + 1)]
    expected = []
    for nth in range(1, 14):
        place = nth * 0.2 / 2.7 * frames
        low = min(int(place), frames - 1)
        expected.append(math.ceil(times[low] + (place - low) * (times[low + 1] - times[low]) - 1e-6))
    assert events.t_us.tolist() == expected
    assert events.p.tolist() == [int(slope > 0)] * 13


def test_crossings_at_whole_microseconds_are_not_rounded_away() -> None:
    simulator = ContrastSimulator(1, 1, positive=0.1)
    simulator.log_frame(np.zeros((1, 1)), 500)
    assert simulator.log_frame(np.ones((1, 1)), 1500).t_us.tolist() == list(range(600, 1501, 100))


def one_by_one(greys: list[list[int]], refractory_us: int, threshold: float, step_us: int) -> list[tuple[int, ...]]:
    """The reference: pixel by pixel, crossing by crossing."""
    found = []
    for pixel in range(6):
        level = [math.log(0.01 + grey[pixel] / 255) for grey in greys]
        reference, fired = level[0], -(10**15)
        for index in range(1, len(level)):
            sign = 1 if level[index] > reference else -1
            while abs(level[index] - reference) >= threshold * (1 - 1e-9):
                reference += sign * threshold
                share = (reference - level[index - 1]) / (level[index] - level[index - 1])
                t = (index - 1) * step_us + max(0, math.ceil(min(1, max(0, share)) * step_us - 1e-6))
                if t - fired >= refractory_us:
                    found.append((t, pixel % 3, pixel // 3, int(sign > 0)))
                    fired = t
    return sorted(found)


@given(pictures, st.sampled_from([0, 1, 30, 400, 1500, 10_000]), st.sampled_from([0.15, 0.4]))
def test_events_equal_a_loop_over_pixels_and_crossings(
    greys: list[list[int]], refractory_us: int, threshold: float
) -> None:
    simulator = ContrastSimulator(3, 2, positive=threshold, negative=threshold, refractory_us=refractory_us)
    found = rows(shown(simulator, greys))
    assert sorted(found) == one_by_one(greys, refractory_us, threshold, 1000)
    assert [t for t, *_ in found] == sorted(t for t, *_ in found)


@given(pictures, st.integers(1, 5000))
def test_a_pixel_is_silent_for_its_refractory_time(greys: list[list[int]], refractory_us: int) -> None:
    simulator = ContrastSimulator(3, 2, spread=0.05, refractory_us=refractory_us, seed=4)
    last: dict[tuple[int, int], int] = {}
    for t, x, y, _ in rows(shown(simulator, greys)):
        assert t - last.get((x, y), -(10**9)) >= refractory_us
        last[x, y] = t


@given(pictures, st.sampled_from([(0.2, 0.2), (0.1, 0.35)]))
def test_events_add_up_to_the_change_within_one_threshold(
    greys: list[list[int]], thresholds: tuple[float, float]
) -> None:
    positive, negative = thresholds
    total = np.zeros(6)
    simulator = ContrastSimulator(3, 2, positive=positive, negative=negative)
    for _, x, y, p in rows(shown(simulator, greys)):
        total[y * 3 + x] += positive if p else -negative
    change = LOG_INTENSITY[greys[-1]] - LOG_INTENSITY[greys[0]]
    assert (np.abs(change - total) <= max(thresholds) + 1e-6).all()


def moving(frames: int, width: int = 160, height: int = 120) -> list[Any]:
    random = np.random.default_rng(1)
    texture = random.integers(0, 256, (height, width * 2, 3), dtype=np.uint8)
    return [np.ascontiguousarray(texture[:, index : index + width]) for index in range(frames)]


def first_crossings(direction: int, width: int = 300, height: int = 200, **settings: float) -> np.ndarray:
    """Each pixel's threshold, brighter (1) or darker (-1): how far light that moves by 1 is at its first event."""
    simulator = ContrastSimulator(width, height, **settings)  # type: ignore[arg-type]  # the seed alone is no float
    simulator.log_frame(np.zeros((height, width)), 0)
    events = simulator.log_frame(np.full((height, width), 1.0 * direction), 1_000_000)
    assert (events.p == (direction > 0)).all()
    found = np.full((height, width), np.inf)
    np.minimum.at(found, (events.y, events.x), events.t_us / 1e6)
    return found


def test_thresholds_spread_as_asked_and_keep_their_floor() -> None:
    found = [first_crossings(direction, positive=0.2, negative=0.3, spread=0.03) for direction in (1, -1)]
    for thresholds, mean in zip(found, (0.2, 0.3), strict=True):
        # 60,000 draws: five standard errors of the mean and of the standard deviation.
        assert abs(thresholds.mean() - mean) < 5 * 0.03 / math.sqrt(60_000)
        assert abs(thresholds.std() - 0.03) < 5 * 0.03 / math.sqrt(120_000)
    assert abs(np.corrcoef(found[0].ravel(), found[1].ravel())[0, 1]) < 0.03
    wide = first_crossings(1, 60, 40, positive=0.02, spread=0.1)
    assert wide.min() == LEAST_THRESHOLD
    assert (first_crossings(1, 3, 2, positive=0.25) == 0.25).all()


def test_what_cannot_be_simulated_is_said() -> None:
    for options in ({"positive": 0.0}, {"negative": float("nan")}, {"spread": -1.0}, {"refractory_us": -5}):
        with pytest.raises(UserError):
            ContrastSimulator(4, 4, **options)
    with pytest.raises(UserError, match="0 x 4"):
        ContrastSimulator(0, 4)
    simulator = ContrastSimulator(4, 4)
    simulator.frame(np.zeros((4, 4), np.uint8), 10)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: simulator.frame(np.zeros((4, 5), np.uint8), 20), "one size"),
        (lambda: simulator.frame(np.zeros((4, 4), np.float32), 20), "one size"),
        (lambda: simulator.frame(np.zeros((4, 4), np.uint8), 10), "order"),
        (lambda: simulator.log_frame(np.full((4, 4), np.nan), 30), "finite"),
    ]
    for call, words in cases:
        with pytest.raises(UserError, match=words):
            call()


@pytest.mark.parametrize("refractory_us", [0, 40])
def test_a_step_of_many_events_is_taken_in_parts_with_the_same_result(monkeypatch, refractory_us: int) -> None:
    found = []
    for at_once in (2_000_000, 1000):
        monkeypatch.setattr(simulation, "_AT_ONCE", at_once)
        simulator = ContrastSimulator(160, 120, refractory_us=refractory_us)
        simulator.frame(moving(2)[0], 0)
        events = simulator.frame(moving(2)[1], 10_000)
        assert events.is_sorted
        found.append(sorted(rows(events)))
    assert len(found[0]) > 30_000
    assert found[0] == found[1]


def test_a_flash_at_tiny_thresholds_is_refused_before_it_takes_memory() -> None:
    simulator = ContrastSimulator(640, 480, positive=0.01)
    simulator.frame(np.zeros((480, 640), np.uint8), 0)
    with pytest.raises(UserError, match="larger contrast thresholds"):
        simulator.frame(np.full((480, 640), 255, np.uint8), 1000)
