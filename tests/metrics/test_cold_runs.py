"""Runs for which a model was loaded stay out of figures wherever there are others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import cell_runs
from evprof.core.run_info import SetupFacts
from evprof.core.run_log import RunLog
from evprof.metrics.configurations.gathering import configurations_of

MakeRun = Callable[..., RunLog]


@pytest.fixture
def run_of() -> MakeRun:
    """A run of one request; `weights_ms`: a model was loaded for it."""

    def make(number: int, *, weights_ms: float | None = None, warmup: bool = False) -> RunLog:
        run: RunLog = cell_runs.Cell(samples=1, is_imported=False, name="").runs(number)[0]
        run.info.group_id, run.info.repeat, run.info.warmup = 1, number, warmup
        run.info.setup = {"target": SetupFacts(weights_ms=weights_ms)}
        return run

    return make


def test_a_configuration_drops_its_cold_run_as_soon_as_it_has_a_warm_one(run_of: MakeRun) -> None:
    cold, warm = run_of(1, weights_ms=80.0), run_of(2)
    [column] = configurations_of([cold, warm])
    assert [run.run_id for run in column.runs] == [2]
    assert "cold" not in column.label


def test_a_configuration_of_cold_runs_alone_says_so(run_of: MakeRun) -> None:
    [column] = configurations_of([run_of(1, weights_ms=80.0)])
    assert column.is_cold
    assert column.label.endswith("cold")


def test_a_run_says_why_it_stands_in_no_figure(run_of: MakeRun) -> None:
    assert run_of(1, weights_ms=1.0).info.marks == ("cold",)
    assert run_of(1, weights_ms=1.0, warmup=True).info.marks == ("warm-up",)
    assert replace(run_of(1).info, profiled=True).marks == ("profiled",)
    assert run_of(1).info.marks == ()
