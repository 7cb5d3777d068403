"""Events counted over time and region, and as points in space: nothing is lost, nothing lies elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evprof.core.events import EventArray
from evprof.view.event_rates import Rates, Region, polarity_counts, rate_words
from evprof.view.point_cloud import Box, ViewAngle, cloud_picture, projected, thinned

points = st.lists(
    st.tuples(st.integers(0, 31), st.integers(0, 23), st.integers(0, 999), st.integers(0, 1)), min_size=1, max_size=40
)
COLORS = ((0, 0, 0), (0, 0, 255), (255, 0, 0), (90, 90, 90))


def events_of(rows: list[tuple[int, int, int, int]]) -> EventArray:
    x, y, t, p = zip(*rows, strict=True)
    return EventArray.from_columns(x, y, t, p)


@given(points, st.tuples(*[st.floats(-5, 40)] * 4))
def test_a_region_holds_exactly_the_pixels_between_two_points(
    rows: list[tuple[int, int, int, int]], drag: tuple[float, float, float, float]
) -> None:
    region = Region.between(drag[:2], drag[2:], 32, 24)
    events = events_of(rows)
    if region is None:
        return
    found = region.events(events)
    inside = [row for row in rows if region.left <= row[0] < region.right and region.top <= row[1] < region.bottom]
    assert list(zip(found.x, found.y, found.t_us, found.p, strict=True)) == inside
    assert sum(polarity_counts(found)) == len(inside)
    assert region.right <= 32
    assert region.bottom <= 24
    assert Region.between(drag[2:], drag[:2], 32, 24) == region


@example(stop_us=1, bins=3, moment_us=0)
@given(stop_us=st.integers(1, 10**6), bins=st.integers(1, 50), moment_us=st.integers(0, 10**6))
def test_every_moment_lies_in_one_bin(stop_us: int, bins: int, moment_us: int) -> None:
    rates = Rates.unknown(stop_us, bins)
    place = rates.place_of(moment_us)
    holding = [n for n in range(bins) if rates.edges(n)[0] <= moment_us < rates.edges(n)[1]]
    assert ([] if place is None else [place]) == holding
    assert rates.edges(bins - 1)[1] == stop_us


def test_rates_are_counts_per_time_that_was_looked_at() -> None:
    rates = Rates(400, np.array([10, 5, 0, 0]), np.array([0, 5, 1, 0]), np.array([100, 50, 100, 0]))
    assert rates.on_per_s[:3].tolist() == [100_000, 100_000, 0]
    assert rates.off_per_s[:3].tolist() == [0, 100_000, 10_000]
    assert np.isnan(rates.on_per_s[3])
    assert rates.is_sampled
    assert not rates._replace(looked_us=np.array([100, 100, 0, 0])).is_sampled
    assert [rate_words(value) for value in (0, 12_345, 250_000, 1_230_000)] == [
        "0 /s",
        "12.3 k/s",
        "250 k/s",
        "1.2 M/s",
    ]


@given(points, st.integers(-180, 180), st.integers(-90, 90))
def test_turning_keeps_distances(rows: list[tuple[int, int, int, int]], yaw: int, pitch: int) -> None:
    events, box = events_of(rows), Box(32, 24, 0, 1000)
    lengths = []
    for turn in (ViewAngle(0, 0), ViewAngle(yaw, pitch)):
        right, down, near = projected(events.x, events.y, events.t_us, box, turn)
        lengths.append(np.sqrt(right**2 + down**2 + near**2))
    assert lengths[0] == pytest.approx(lengths[1])


def test_unturned_it_is_the_flat_picture_with_the_newest_in_front() -> None:
    events, box = events_of([(0, 0, 0, 0), (31, 23, 999, 1), (0, 0, 999, 1)]), Box(32, 24, 0, 1000)
    right, down, near = projected(events.x, events.y, events.t_us, box, ViewAngle(0, 0))
    assert right[0] == right[2] == -right[1] < 0
    assert down[0] == -down[1] < 0
    assert near[2] > near[0]
    picture = cloud_picture(events, box, ViewAngle(0, 0), size=(320, 240), colors=COLORS)
    shown = {tuple(color) for color in picture.reshape(-1, 3).tolist()}
    assert (255, 0, 0) in shown
    # The older one lies right behind the newer one.
    assert (0, 0, 255) not in shown
    assert (0, 0, 255) in {
        tuple(color)
        for color in cloud_picture(events, box, ViewAngle(60, 0), size=(320, 240), colors=COLORS)
        .reshape(-1, 3)
        .tolist()
    }


@given(points, st.integers(-180, 180), st.integers(-90, 90))
def test_every_turn_can_be_drawn(rows: list[tuple[int, int, int, int]], yaw: int, pitch: int) -> None:
    picture = cloud_picture(events_of(rows), Box(32, 24, 0, 1000), ViewAngle(yaw, pitch), size=(64, 48), colors=COLORS)
    assert picture.shape == (48, 64, 3)
    assert ((picture == (0, 0, 255)).all(axis=2) | (picture == (255, 0, 0)).all(axis=2)).any()


@given(st.integers(0, 500), st.integers(2, 100))
def test_thinning_keeps_the_order_and_spreads_evenly(count: int, most: int) -> None:
    numbers = np.arange(count)
    events = EventArray.from_columns(numbers % 30, numbers % 30, numbers, numbers % 2)
    kept = thinned(events, most).t_us
    assert len(kept) == min(count, most)
    assert (np.diff(kept) > 0).all()
    if count > most:
        assert np.diff(kept).max() <= -(-count // most)


def test_a_hand_turns_it_round_and_not_over() -> None:
    assert ViewAngle(170, 0).by(40, 0) == ViewAngle(-170, 0)
    assert ViewAngle(0, 80).by(0, 100) == ViewAngle(0, 90)
