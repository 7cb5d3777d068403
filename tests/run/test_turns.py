"""The schedule of turns, and the requests that follow it."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.request import RunRequest, TraceSettings
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.core.vocabulary.modes import mode_of
from evprof.run.requests import requests_in_turns
from evprof.run.turns import TurnSchedule

MODES = ("draft", "target", "side-by-side", "speculative")


def request_of(mode: str, repeat: int, warmup: int | None = None) -> RunRequest:
    return RunRequest(mode, Sample("e.npy", "v.mp4"), ModelChoice("d"), ModelChoice("t"), warmup=warmup, repeat=repeat)


def test_all_orders_occur_equally_often() -> None:
    schedule = TurnSchedule(random.Random(1))
    orders = Counter("".join(name for _, name in schedule.draw("abc")) for _ in range(6_000))
    assert len(orders) == 6
    assert all(900 < count < 1_100 for count in orders.values())
    assert len({TurnSchedule().start.series for _ in range(100)}) == 100


@given(st.lists(st.sampled_from(MODES), min_size=1, unique=True), st.integers(1, 8), st.integers())
def test_every_turn_holds_every_configuration_once_after_all_warm_ups(modes: list[str], turns: int, seed: int) -> None:
    listed = requests_in_turns([request_of(mode, turns) for mode in modes], random.Random(seed))
    for request in listed:
        request.validate()
    aside, measured = listed[: len(modes)], listed[len(modes) :]
    assert [(request.mode, request.repeat, request.group_id) for request in aside] == [
        (mode, 0, group) for group, mode in enumerate(modes, 1)
    ]
    places: dict[int, int] = {}
    for request in measured:
        assert (request.repeat, request.first_repeat) == (1, request.turn.number)
        assert request.turn.place == places.get(request.turn.number, 0)
        places[request.turn.number] = request.turn.place + len(mode_of(request.mode).answering)
    numbers = [request.turn.number for request in measured if request.turn]
    assert numbers == sorted(numbers)
    assert Counter((request.turn.number, request.mode) for request in measured if request.turn) == dict.fromkeys(
        ((number, mode) for number in range(turns) for mode in modes), 1
    )
    assert len({request.turn.series for request in listed if request.turn}) == 1


def test_profiled_runs_come_last_and_no_warm_up_where_none_is_asked_for() -> None:
    traced = RunRequest(
        "target", Sample(video_path="v.mp4"), target=ModelChoice("t"), warmup=None, repeat=2, trace=TraceSettings("t")
    )
    listed = requests_in_turns([traced, request_of("draft", 2, warmup=0)], random.Random(1))
    assert [request.repeat for request in listed] == [0, 1, 1, 1, 1, 0]
    assert [request.trace is not None for request in listed] == [False] * 5 + [True]
    assert [request.warmup for request in listed if request.mode == "draft"] == [0, 0]
