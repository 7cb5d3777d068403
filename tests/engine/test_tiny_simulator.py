"""The law of an ideal contrast sensor, on signals whose events can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from bundled_pair.attributes import Attributes
from bundled_pair.materials import ILLUMINATION, PAINT_RGB, luminance_table
from bundled_pair.recordings import EVENT_HEIGHT, EVENT_WIDTH, EVENT_WINDOW_US, NOISE_EVENTS, event_columns
from bundled_pair.scenes import Scene, draw_layout
from bundled_pair.simulator import EventColumns, simulate

THRESHOLD = 0.2


def samples(levels: list[float], step_us: float) -> list[tuple[float, NDArray[np.float32]]]:
    """A one-pixel signal."""
    return [(index * step_us, np.full((1, 1), level, np.float32)) for index, level in enumerate(levels)]


@pytest.mark.parametrize("direction", [1, -1])
def test_a_ramp_in_log_intensity_gives_evenly_spaced_events(direction: int) -> None:
    # 2.6 in 26 ms is one threshold of 0.2 every 2 ms, whatever the 4 ms sampling.
    signal = samples([direction * 0.4 * step for step in range(7)] + [direction * 2.6], 4_000.0)
    signal[-1] = (26_000.0, signal[-1][1])
    events = simulate(signal, THRESHOLD)
    assert events.t_us.tolist() == [2_000 * count for count in range(1, 14)]
    assert set(events.p.tolist()) == {1 if direction > 0 else 0}


def test_a_constant_picture_gives_no_events() -> None:
    assert len(simulate(samples([0.7] * 5, 1_000.0), THRESHOLD)) == 0


def test_events_account_for_every_change_to_within_one_threshold() -> None:
    rng = np.random.default_rng(5)
    levels = np.cumsum(rng.normal(0.0, 0.3, (20, 12, 16)), axis=0).astype(np.float32)
    events = simulate([(1_000.0 * index, level) for index, level in enumerate(levels)], THRESHOLD)
    signed = np.zeros((12, 16))
    np.add.at(signed, (events.y, events.x), np.where(events.p > 0, 1.0, -1.0))
    unexplained = levels[-1] - levels[0] - THRESHOLD * signed
    assert np.abs(unexplained).max() <= THRESHOLD * (1.0 + 1e-3)
    assert len(events) > 500


def test_events_come_in_time_order_inside_the_recording() -> None:
    events = scene_events("day", "red")
    assert (np.diff(events.t_us) >= 0).all()
    assert events.t_us[0] >= 0
    assert events.t_us[-1] <= EVENT_WINDOW_US < 100_000
    assert len(events) > 5 * NOISE_EVENTS


def test_neither_paint_nor_daylight_reaches_the_events() -> None:
    reference = scene_events("day", "red")
    for daylight in ILLUMINATION:
        for colour in PAINT_RGB:
            other = scene_events(daylight, colour)
            assert abs(len(other) - len(reference)) <= 0.002 * len(reference)
            assert (luminance_table(colour) == luminance_table("red")).all()


def test_every_fifth_of_a_recording_spans_the_sensor_to_within_two_pixels() -> None:
    events = scene_events("night", "blue")
    step = len(events) // 5
    for start in range(0, 5 * step, step):
        assert events.x[start : start + step].max() >= EVENT_WIDTH - 3
        assert events.y[start : start + step].max() >= EVENT_HEIGHT - 3


def scene_events(daylight: str, colour: str) -> EventColumns:
    layout = draw_layout(np.random.default_rng(11))
    return event_columns(Scene(Attributes("left", "trees", "bus", "approaching", daylight, colour), layout))
