"""Sides of a comparison as columns: the same to the last bit as one observation after the other."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.metrics.estimates.observations import Layout, Observation, Observations, ObservedSide, are_apart, shared

ENTRIES = st.lists(
    st.builds(
        lambda value, sample, session, began, machine: Observation(
            value, f"s{sample}", f"scene {sample % 3}", session, began, machine
        ),
        st.floats(0.1, 1e6),
        st.integers(0, 6),
        st.sampled_from(["", "a", "b"]),
        st.integers(0, 5).map(float),
        st.sampled_from(["", "one", "one", "two"]),
    ),
    min_size=1,
    max_size=40,
)


def in_time(entries: Iterable[Observation]) -> list[Observation]:
    """One engine process after the other, each in order of time."""
    processes: dict[str, list[Observation]] = {}
    for entry in entries:
        processes.setdefault(entry.session, []).append(entry)
    return [entry for listed in processes.values() for entry in sorted(listed, key=lambda entry: entry.began_s)]


def mean_by_sample(entries: Iterable[Observation]) -> dict[Hashable, float]:
    found: dict[Hashable, list[float]] = {}
    for entry in entries:
        found.setdefault(entry.sample, []).append(entry.value)
    return {sample: math.fsum(values) / len(values) for sample, values in found.items()}


@given(ENTRIES)
def test_a_side_is_what_its_observations_say(entries: list[Observation]) -> None:
    side, ordered = ObservedSide.of(entries), in_time(entries)
    means = mean_by_sample(ordered)
    assert list(side.observations) == ordered
    assert side.by_sample.tolist() == list(means.values())
    assert side.mean == fmean(means.values())
    assert side.sessions == tuple(dict.fromkeys(entry.session for entry in ordered))
    assert side.is_timed == (len({entry.began_s for entry in entries}) > 1)
    for name, value in side.by_session.items():
        assert value == fmean(mean_by_sample(entry for entry in ordered if entry.session == name).values())
    scenes: dict[Hashable, list[Hashable]] = {}
    for sample, scene in dict.fromkeys((entry.sample, entry.scene) for entry in ordered):
        scenes.setdefault(scene, []).append(sample)
    each, backwards = len(means) / len(scenes), list(reversed(scenes))
    assert list(side.scenes) == list(scenes)
    assert side.by_scene(backwards).tolist() == [
        side.mean + sum([means[sample] - side.mean for sample in scenes[scene]]) / each for scene in backwards
    ]


@given(ENTRIES, ENTRIES)
def test_both_sides_keep_what_both_have(one: list[Observation], two: list[Observation]) -> None:
    sides = [[entry._replace(machine="") for entry in side] for side in (one, two)]
    found = shared(*sides)
    for place in (3, 1):  # engine process, sample
        both = {entry[place] for entry in sides[0]} & {entry[place] for entry in sides[1]}
        if both:
            sides = [[entry for entry in side if entry[place] in both] for side in sides]
    assert [list(side.observations) for side in found] == [in_time(side) for side in sides]


@given(ENTRIES, st.data())
def test_a_figure_that_some_runs_lack_is_that_of_the_others(entries: list[Observation], data: st.DataObject) -> None:
    lacks = data.draw(st.lists(st.booleans(), min_size=len(entries), max_size=len(entries)))
    values = np.array([math.nan if lack else entry.value for entry, lack in zip(entries, lacks, strict=True)])
    layout = Layout.of_rows([entry[1:] for entry in entries])
    kept = [entry for entry, lack in zip(entries, lacks, strict=True) if not lack]
    assert list(Observations.read(values, layout)) == kept
    assert list(Observations.read(values, layout.of_one_process)) == [entry._replace(session="") for entry in kept]


def test_sides_of_different_machines_are_apart() -> None:
    one, two = ([Observation(1.0, "a", "a", "", 0.0, machine)] for machine in ("one", "two"))
    assert are_apart(one, two)
    assert not are_apart(one, one)
    assert not are_apart(one, [*two, *one])


def test_observations_are_a_sequence() -> None:
    entries = [Observation(float(value), value) for value in range(3)]
    found = Observations.of(entries)
    assert (len(found), found[1], found[-1], list(found[1:])) == (3, entries[1], entries[2], entries[1:])
    with pytest.raises(IndexError):
        found[3]
