"""The schedule of turns."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from evprof.run.turns import TurnSchedule, in_turns


@given(st.integers(1, 6), st.integers(1, 8), st.integers())
def test_every_turn_holds_every_configuration_once(count: int, turns: int, seed: int) -> None:
    runs = list(in_turns(range(count), turns, random.Random(seed)))
    assert [(turn.number, turn.place) for turn, _ in runs] == [divmod(index, count) for index in range(count * turns)]
    for number in range(turns):
        assert sorted(name for turn, name in runs if turn.number == number) == list(range(count))
    assert len({turn.series for turn, _ in runs}) == 1


def test_all_orders_occur_equally_often() -> None:
    schedule = TurnSchedule(random.Random(1))
    orders = Counter("".join(name for _, name in schedule.draw("abc")) for _ in range(6_000))
    assert len(orders) == 6
    assert all(900 < count < 1_100 for count in orders.values())


def test_places_count_runs_and_series_differ() -> None:
    places = [
        (turn.place, name) for turn, name in TurnSchedule(random.Random(1)).draw("ab", {"a": 2, "b": 1}.__getitem__)
    ]
    assert sorted(places) in ([(0, "a"), (2, "b")], [(0, "b"), (1, "a")])
    assert len({next(in_turns("a", 1))[0].series for _ in range(100)}) == 100
