"""Intervals over simulated runs: every row of `bench coverage` at a few hundred simulations, seeded."""

from __future__ import annotations

import threading

import pytest

from benchmarks.coverage import CoverageCase, binomial_interval, covered, measure_coverage, questions
from benchmarks.simulated_runs import Scenario, simulated
from evprof.metrics.estimates.estimates import ProcessSpread, ratio_of


@pytest.mark.parametrize("estimator", sorted({question.estimator for question in questions()}))
def test_intervals_hold_the_truth_in_every_row(estimator: str) -> None:
    rows = [
        covered(question, 200, seed)
        for seed, question in enumerate(questions())
        if question.estimator == estimator and question.runs <= 30
    ]
    assert rows
    assert {row["without_interval"] for row in rows} == {0}
    low = [(row["scenario"], row["n"], row["coverage"]) for row in rows if row["coverage"] < 0.90]
    assert not low


def test_widths_stay_near_an_oracles_where_runs_took_turns() -> None:
    """Once there are runs to learn from, not knowing the spreads costs little."""
    row = covered(CoverageCase("turns", "ratio", Scenario(repeats=20, has_turns=True, alike=0.5)), 100, 1)
    assert row["width_ratio"] < 1.3


def test_the_same_seed_gives_the_same_runs_and_pace_is_one_on_average() -> None:
    scenario = Scenario(repeats=4, scenes=2, noise=0.0, drift=0.1)
    one, other = (list(simulated(scenario, 2, 3)) for _ in range(2))
    assert one == other
    base, slowed = one[0]
    assert [entry.began_s for entry in base] == list(range(8))
    values = [entry.value for entry in base] + [entry.value / scenario.effect for entry in slowed]
    assert sum(values) / len(values) == pytest.approx(1)
    assert values == sorted(values)


def test_one_process_each_claims_nothing_until_processes_are_known() -> None:
    (base, other), *_ = simulated(Scenario(repeats=10, is_shared=False), 1, 1)
    alone = ratio_of(base, other)
    assert alone is not None
    assert alone.interval is None
    assert "not known" in alone.note
    known = ratio_of(base, other, ProcessSpread(0.02, 9))
    assert known is not None
    assert known.interval is not None
    assert "2 % are usual" in known.note


def test_it_stops_when_asked_and_says_so() -> None:
    stop, notes = threading.Event(), []

    def note(sentence: str) -> None:
        notes.append(sentence)
        stop.set()

    document = measure_coverage(20, note, stop)
    assert len(document["rows"]) == len(notes) == document["summary"]["rows"] == 1
    assert document["summary"]["is_complete"] is False
    assert document["summary"]["lowest_coverage"] == document["rows"][0]["coverage"]


def test_wilsons_interval() -> None:
    assert binomial_interval(95, 100) == pytest.approx((0.8882, 0.9785), abs=1e-3)
