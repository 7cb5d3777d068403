"""EventArray: what it accepts, refuses, and how it is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.events import EventArray


def make(t: list[int], p: list[int] | None = None) -> EventArray:
    count = len(t)
    return EventArray.from_columns(np.arange(count) % 7, np.arange(count) % 5, t, p or [1] * count)


def test_times_of_16_bits_subtract_without_wrapping() -> None:
    events = EventArray.from_columns(
        np.array([1, 2], np.uint16), np.array([3, 4], np.uint16), np.array([50_000, 10], np.uint16), np.array([0, 1])
    )
    assert events.t_us.dtype == np.int64
    assert int(events.t_us[1] - events.t_us[0]) == -49_990
    assert events.duration_us == 49_990
    assert not events.is_sorted


@pytest.mark.parametrize("p", [[-1, 1, -1], [0, 1, 0], [False, True, False], [-1.0, 1.0, 0.0]])
def test_polarity_becomes_0_and_1(p: list[float]) -> None:
    events = EventArray.from_columns([0, 1, 2], [0, 0, 0], [0, 1, 2], np.array(p))
    assert events.p.tolist() == [0, 1, 0]
    assert events.p.dtype == np.uint8


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (([0, 1], [0], [0, 1], [0, 1]), "different lengths"),
        (([-1], [0], [0], [0]), "x runs from -1"),
        (([0], [20_000], [0], [0]), "y runs from"),
        (([0], [0], [0], [7]), "'p' runs from 7"),
        (([0], [0], [2**62], [0]), "'t' runs from"),
        (([0.5], [0], [0], [0]), "fractions"),
        (([np.nan], [0], [0], [0]), "not finite"),
        (([[0]], [0], [0], [0]), "one-dimensional"),
        ((["a"], [0], [0], [0]), "array of numbers"),
    ],
)
def test_what_is_no_recording_is_refused_by_name(columns: tuple[list[object], ...], words: str) -> None:
    with pytest.raises(UserError, match=r"street\.npy") as caught:
        EventArray.from_columns(*columns, source="street.npy")  # type: ignore[arg-type]  # wrong on purpose
    assert words in caught.value.sentence


def test_no_events_have_no_statistics() -> None:
    empty = EventArray.from_columns([], [], [], [])
    assert (len(empty), empty.width, empty.height) == (0, 0, 0)
    assert empty.duration_us is None
    assert empty.t_min_us is None


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(-5, 55), st.integers(-5, 55))
def test_a_slice_of_time_holds_just_the_events_inside(t: list[int], start: int, stop: int) -> None:
    for times in (t, sorted(t)):
        events = make(times)
        part = events.slice_time(start, stop)
        expected = [time for time in times if start <= time < stop]
        assert part.t_us.tolist() == expected


@given(st.integers(1, 200), st.integers(1, 20))
def test_equal_counts_cover_every_event_once(count: int, parts: int) -> None:
    events = make(list(range(count)))
    if count < parts:
        with pytest.raises(UserError, match="too few"):
            list(events.split_equal_count(parts))
        return
    slices = list(events.split_equal_count(parts))
    assert [len(part) for part in slices[:-1]] == [count // parts] * (parts - 1)
    assert np.concatenate([part.t_us for part in slices]).tolist() == list(range(count))


@given(st.lists(st.integers(0, 9), max_size=30))
def test_events_by_time_keep_the_files_order_within_a_microsecond(t: list[int]) -> None:
    events = EventArray.from_columns(range(len(t)), [0] * len(t), t, [1] * len(t))
    found = events.in_time_order()
    expected = sorted(zip(t, range(len(t)), strict=True))
    assert list(zip(found.t_us.tolist(), found.x.tolist(), strict=True)) == expected
    assert (found is events) == (t == sorted(t))


def test_fewer_than_one_part_is_refused() -> None:
    with pytest.raises(UserError, match="at least 1"):
        list(make([1, 2]).split_equal_count(0))


def test_13_bytes_an_event() -> None:
    events = make([1, 2, 3])
    assert sum(column.nbytes for column in (events.x, events.y, events.t_us, events.p)) == 39
