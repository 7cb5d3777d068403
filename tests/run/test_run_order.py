"""The order of a request's runs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from evprof.core.request import RunRequest
from evprof.core.run_info import Turn
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.requests import run_order

Ordered = tuple[str, int, Turn | None]


def runs_of(mode: str, loaded: set[str], *, room: int = 2, **changes: Any) -> list[Ordered]:
    """The runs that are made by an engine that has room for so many models."""
    request = RunRequest(mode, Sample(), ModelChoice("a"), ModelChoice("b"), **changes)
    held: list[Any] = [role for role in ("draft", "target") if role in loaded]
    made = []
    for role, repeat, turn in run_order(request, held.__contains__, random.Random(1)):
        held[:] = [*(other for other in held if other != role), role][-room:]
        made.append((role, repeat, turn))
    return made


def order(mode: str, loaded: set[str], **changes: Any) -> str:
    """The runs as letters: a capital one is a warm-up, and a run of a turn has the number of the turn."""
    return "".join(
        str(turn.number) if turn else role[0].upper() if repeat < 0 else role[0]
        for role, repeat, turn in runs_of(mode, loaded, **changes)
    )


@pytest.mark.parametrize(
    ("mode", "loaded", "changes", "runs"),
    [
        ("side-by-side", set(), {"warmup": None, "repeat": 2}, "DT0011"),
        ("side-by-side", {"draft"}, {"warmup": None}, "Tdt"),
        ("side-by-side", {"draft", "target"}, {"warmup": None}, "dt"),
        ("target", set(), {"warmup": None}, "Tt"),
        ("side-by-side", set(), {"warmup": 0, "repeat": 2}, "0011"),
        ("side-by-side", {"draft", "target"}, {"warmup": 2}, "DTDTdt"),
        # Without room for both, each model is repeated while it is warm.
        ("side-by-side", set(), {"room": 1, "warmup": None, "repeat": 2}, "DTttDdd"),
    ],
)
def test_warm_ups_come_where_a_model_had_to_be_loaded_or_as_asked(
    mode: str, loaded: set[str], changes: dict[str, Any], runs: str
) -> None:
    assert order(mode, loaded, **changes) == runs


def test_repetitions_of_side_by_side_are_turns_in_both_orders() -> None:
    runs = runs_of("side-by-side", {"draft", "target"}, warmup=0, repeat=20)
    turns = [turn for *_, turn in runs if turn is not None]
    assert [(turn.number, turn.place) for turn in turns] == [divmod(number, 2) for number in range(40)]
    assert [repeat for _, repeat, _ in runs] == [turn.number for turn in turns]
    assert {role for role, _, turn in runs if turn and turn.place == 0} == {"draft", "target"}
    assert len({turn.series for turn in turns}) == 1


def test_a_request_alone_is_no_turn_and_one_of_a_turn_keeps_it() -> None:
    assert [turn for *_, turn in runs_of("target", {"target"}, warmup=0, repeat=3)] == [None] * 3
    assert [turn for *_, turn in runs_of("side-by-side", {"draft", "target"}, warmup=0)] == [None, None]
    asked = Turn("series", 4, 2)
    assert [turn for *_, turn in runs_of("target", set(), warmup=1, turn=asked)] == [None, asked]
    both = runs_of("side-by-side", {"draft", "target"}, warmup=0, turn=asked)
    assert [turn for *_, turn in both] == [asked, Turn("series", 4, 3)]
