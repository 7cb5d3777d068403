"""Sessions of very many runs on the command line: what measures them, and what shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.many_runs import CONFIGURATIONS, ManyRuns, write_many_runs
from benchmarks.sessions import STEPS
from evprof.cli.sessions import show
from evprof.export.report.sections import stages


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of each of 50 configurations."""
    path = tmp_path_factory.mktemp("many") / "many.evprof"
    write_many_runs(path, ManyRuns(150))
    return path


def test_each_step_is_told_as_soon_as_it_is_measured(bench: Any, many: Path) -> None:
    found = bench("sessions", "--session", many, "--only", "list", "show", "compare", "--json")
    steps = [*STEPS, "show", "compare"]
    told = [line.partition(":")[0] for line in found.errors.splitlines() if " s of the processor" in line]
    assert told == steps
    assert [row["step"] for row in found.document["rows"]] == steps
    assert all(row["seconds"] > 0 and row["cpu_s"] > 0 for row in found.document["rows"])


def test_of_very_many_runs_configurations_are_shown_and_runs_if_asked_for(
    evprof: Any, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = evprof("show", many).output
    assert whole.count("\nrun ") == 149
    monkeypatch.setattr(show, "MOST_PRINTED", 149)
    found = evprof("show", many)
    assert len(found.output.splitlines()) == 1 + CONFIGURATIONS
    assert "150 runs; `--runs 1-20` prints some" in found.errors
    some = evprof("show", many, "--runs", "5,55").output
    assert some.count("run 5 · ") == some.count("run 55 · ") == 1
    assert all(part in whole for part in some.split("\n\n"))
    assert [run["run_id"] for run in evprof("show", many, "--runs", "7", "--json").document["runs"]] == [7]
    assert evprof("show", many, "--runs", "151").code == 2


def test_a_report_reads_some_logs_of_many_and_says_so(
    evprof: Any, many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(name: str) -> str:
        assert evprof("report", many, "-o", tmp_path / name).code == 0
        return (tmp_path / name).read_text()

    assert "of parts of stages" not in told("all.md")
    monkeypatch.setattr(stages, "MOST_READ", 2)
    assert "mean times of 3 runs; times of parts of stages are means of 2 of these runs" in told("some.md")
