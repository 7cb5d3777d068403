"""EventGPT-Plus' bins against its program's own way: whole histograms, one comparison per bin and event."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.vocabulary.families import FAMILIES
from evprof.loaders.pictures.render import densest_window, draw_bin, event_bins

PLUS = FAMILIES["eventgpt_plus"]


def recording(times: list[int], seed: int = 0) -> EventArray:
    drawn = np.random.default_rng(seed)
    count = len(times)
    places = drawn.integers(0, 7, (2, count))
    return EventArray.from_columns(places[0], places[1], np.array(times), drawn.integers(0, 2, count))


def slow_bins(events: EventArray, count: int) -> list[npt.NDArray[np.int64]]:
    times = events.t_us
    first, last = times.min(), times.max()
    if last - first <= 100_000:
        edges = np.linspace(first, last, count + 1)
        return [np.sort(times[(times >= a) & (times < b)]) for a, b in pairwise(edges)]
    found = []
    times = np.sort(times)
    edges = np.linspace(first, last, count + 1)
    for a, b in pairwise(edges):
        inside = times[(times >= a) & (times <= b)]
        if len(inside):
            spent = (inside - inside[0]) // 1000
            sums = [int(((spent >= start) & (spent < start + 25)).sum()) for start in range(int(spent[-1]) + 1)]
            best = int(np.argmax(sums))
            inside = inside[(spent >= best) & (spent < best + 25)]
        found.append(inside)
    return found


TIMES = st.one_of(
    st.lists(st.integers(0, 99_999), min_size=2, max_size=60),
    st.lists(st.integers(0, 700_000), min_size=2, max_size=60),
    st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=8),
).filter(lambda times: min(times) < max(times) and (max(times) - min(times) < 10**6 or len(times) < 9))


@given(TIMES, st.sampled_from([1, 3, 4, 8]))
def test_bins_hold_what_the_programs_hold(times: list[int], count: int) -> None:
    events = recording(times)
    if max(times) - min(times) > 10**6:
        # Too long for histograms: what can be said is how many bins there are, and that each is a stretch of 25 ms.
        found = event_bins(events, count)
        assert all(len(each.events) == 0 or (each.events.duration_us or 0) < 26_000 for each in found)
    else:
        found = event_bins(events, count)
        assert [each.events.t_us.tolist() for each in found] == [each.tolist() for each in slow_bins(events, count)]
    assert len(found) == count


@given(st.lists(st.integers(0, 200), min_size=1, max_size=50).map(sorted), st.integers(1, 40))
def test_the_window_is_the_first_of_those_with_the_most(times: list[int], length: int) -> None:
    spent = np.array(times) - times[0]
    begin, end = densest_window(spent, length)
    counts = [int(((spent >= start) & (spent < start + length)).sum()) for start in range(int(spent[-1]) + 1)]
    best = int(np.argmax(counts))
    assert spent[begin:end].tolist() == spent[(spent >= best) & (spent < best + length)].tolist()


def test_brighter_is_drawn_over_darker_whatever_the_order() -> None:
    events = EventArray.from_columns([0, 1, 1, 2], [0, 0, 0, 1], [0, 1, 2, 3], [0, 1, 0, 1])
    picture = draw_bin(events, width=3, height=2)
    white, blue, red = [255, 255, 255], [0, 0, 255], [255, 0, 0]
    assert picture.tolist() == [[blue, red, white], [white, white, red]]
    assert draw_bin(events.slice_count(0, 0), width=2, height=1).tolist() == [[white, white]]
    assert draw_bin(events, width=1, height=1).tolist() == [[blue]]


def test_events_of_one_moment_make_no_bins() -> None:
    with pytest.raises(UserError, match="cannot be cut into bins"):
        event_bins(recording([5, 5, 5]), 4)


def test_the_number_of_bins_follows_the_length() -> None:
    asked = {0: 4, 100_000: 4, 100_001: 8, 4_000_000: 8, 4_000_001: 16, 16_000_000: 16, 16_000_001: 32, 10**12: 32}
    assert {length: PLUS.frames_for(length) for length in asked} == asked
    assert (PLUS.frames, PLUS.most_frames, PLUS.frames_text) == (4, 32, "4 to 32")
    other = FAMILIES["eventgpt"]
    assert (other.frames_for(10**9), other.frames_text) == (5, "5")
