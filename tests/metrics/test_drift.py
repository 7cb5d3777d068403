"""Trends of totals over the time they were measured in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evprof.core.run_info import REFERENCE
from evprof.metrics.comparison import document as comparison
from evprof.metrics.estimates.drift import drift_of, without_reference


@pytest.fixture
def measured(script, plain_writer):
    """Runs of one cell, one a minute: `scales` are their totals in parts of the plain run's 180 ms."""

    def make(scales, *, cell="8 frames", names=("a", "b")):
        runs = []
        for place, scale in enumerate(scales):
            run = plain_writer(script(place + 1), scale=scale)
            run.info.cell, run.info.repeat = cell, place // len(names)
            run.info.sample = replace(run.info.sample, name=names[place % len(names)])
            run.info.started_at = f"2026-01-24T20:{place:02d}:00.000+00:00"
            runs.append(run)
        return comparison.configurations_of(runs)[0]

    return make


def test_a_slowing_machine_is_seen_through_different_samples(measured):
    found = drift_of(measured([(1 + 0.02 * place) * (1 if place % 2 else 3) for place in range(12)]))
    assert found is not None
    assert found.is_seen
    assert found.line.high_x == pytest.approx(11)
    assert found.change == pytest.approx(0.2, abs=0.04)
    low, high = found.change_interval
    assert low < found.change < high


def test_scatter_is_no_drift(measured):
    chance = np.random.default_rng(3)
    seen = 0
    for _ in range(40):
        found = drift_of(measured(1 + 0.01 * chance.standard_normal(10)))
        seen += found.is_seen
    assert seen <= 8  # 5 % of 40 are two


def test_moods_that_last_some_runs_are_no_drift(measured):
    """Neighbours are alike (AR(1), 0.8): an interval for independent runs found drift in half of such courses."""
    chance = np.random.default_rng(3)
    seen = 0
    for _ in range(60):
        mood, moods = chance.standard_normal(), []
        for _ in range(16):
            mood = 0.8 * mood + 0.6 * chance.standard_normal()
            moods.append(1 + 0.01 * mood)
        seen += drift_of(measured(moods)).is_seen
    assert seen <= 6


def test_too_few_runs_or_no_times_tell_nothing(measured):
    assert drift_of(measured([1, 1.1, 1.2])) is None
    column = measured([1, 1.1, 1.2, 1.3])
    for run in column.runs:
        run.info.started_at = ""
    assert drift_of(column) is None


def test_the_reference_row_is_compared_with_nothing(measured):
    one, reference = measured([1, 1]), measured([1, 1], cell=REFERENCE)
    assert without_reference([one, reference]) == [one]
