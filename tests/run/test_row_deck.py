"""Rows handed out to places that work at once: each once, pairs on one machine, one place in the order planned."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import driven_suites
from evprof.run.suites.plan import BLOCKS, INTERLEAVED, RowDeck, SuitePlan, SuiteRow

GRID: dict[str, Any] = {"cells": [{"mode": "draft"}, {"mode": "side-by-side"}, {"mode": "target", "frames": 2}]}

PLACES = st.lists(st.integers(0, 4), max_size=400)


def plan_of(order: str, samples: int = 5, repeat: int = 2) -> SuitePlan:
    return driven_suites.plan_of(repeat, samples, order, GRID)


def dealt(plan: SuitePlan, turns: list[int], machines: list[str]) -> list[tuple[int, SuiteRow]]:
    """Who got which row when places ask in that order, and then all in turn until nothing is left."""
    deck, found = RowDeck(plan.rows, plan.order), []
    for place in [*turns, *(len(plan.rows) * len(machines) * list(range(len(machines))))]:
        row = deck.next_for(place % len(machines), machines[place % len(machines)])
        if row is not None:
            found.append((place % len(machines), row))
    assert not deck
    return found


@given(st.sampled_from([INTERLEAVED, BLOCKS]), PLACES, st.lists(st.sampled_from("ABC"), min_size=1, max_size=5))
def test_every_row_is_handed_out_once(order, turns, machines):
    plan = plan_of(order)
    assert sorted(row.keys for _, row in dealt(plan, turns, machines)) == sorted(row.keys for row in plan.rows)


@given(st.sampled_from([INTERLEAVED, BLOCKS]))
def test_one_place_gets_the_plan_as_it_is(order):
    plan = plan_of(order)
    assert [row for _, row in dealt(plan, [], ["A"])] == list(plan.rows)


@given(PLACES, st.integers(2, 5))
def test_all_configurations_of_a_turn_are_measured_at_one_place(turns, count):
    found = dealt(plan_of(INTERLEAVED), turns, [f"machine {number}" for number in range(count)])
    places: dict[tuple[str, int], set[int]] = {}
    for place, row in found:
        places.setdefault((row.sample.name, row.repeat), set()).add(place)
    assert all(len(at) == 1 for at in places.values())


@given(PLACES, st.lists(st.sampled_from("ABC"), min_size=1, max_size=5))
def test_in_blocks_a_sample_stays_with_its_machine(turns, machines):
    """Else the sides of its pairs, which are blocks apart, would be of two machines."""
    at: dict[str, set[str]] = {}
    for place, row in dealt(plan_of(BLOCKS), turns, machines):
        at.setdefault(row.sample.name, set()).add(machines[place])
    assert all(len(found) == 1 for found in at.values())


def test_an_idle_place_takes_the_repetitions_of_others_samples():
    deck = RowDeck(plan_of(INTERLEAVED, samples=1, repeat=2).rows, INTERLEAVED)
    first, second = deck.next_for(0, "A"), deck.next_for(1, "B")
    assert (first.repeat, second.repeat) == (0, 1)
    assert first.sample.name == second.sample.name


@given(st.sampled_from([INTERLEAVED, BLOCKS]), st.integers(0, 20), st.booleans())
def test_what_a_lost_place_had_goes_to_others(order, taken, is_gone):
    """The row it was at first, then the rest of its turn; samples of a machine that is gone wait for nobody."""
    plan = plan_of(order)
    deck = RowDeck(plan.rows, order)
    done = [deck.next_for(0, "A") for _ in range(taken)]
    lost = deck.next_for(0, "A")
    deck.give_back(0, lost, machine_is_gone="A" if is_gone else "")
    assert deck.next_for(1, "B") == lost
    left = []
    while (row := deck.next_for(1, "B")) is not None or (not is_gone and (row := deck.next_for(0, "A")) is not None):
        left.append(row)
    assert not deck
    assert sorted(row.keys for row in [*done, lost, *left]) == sorted(row.keys for row in plan.rows)
