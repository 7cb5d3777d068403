"""Sessions in `evprof show` and `session merge`: remarks, deleted runs, very many runs, costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.many_runs import CONFIGURATIONS, ManyRuns, write_many_runs
from evprof.cli.sessions import show
from evprof.core.protocols import RunDescribed
from evprof.export.report.sections import times
from evprof.run.session_writer import SessionWriter
from whole_session import load_session


def test_show_tells_names_and_notes_and_no_deleted_run(evprof: Any, session: Any, tmp_path: Any) -> None:
    path = tmp_path / "remarked.evprof"
    path.write_bytes(session.read_bytes())
    recording = load_session(path).recording
    writer = SessionWriter(recording, path, waits_for_run=True, skips_existing=True)
    recording.post(RunDescribed(1, {"name": "night drive", "note": "three frames\nof rain\u202e"}))
    recording.post(RunDescribed(2, {"is_deleted": True}))
    writer.close()
    before, after = evprof("show", session), evprof("show", path)
    assert "run 1 “night drive” · " in after.output
    assert "  note: three frames\n        of rain⟨U+202E⟩" in after.output
    assert "run 2 · " in before.output
    assert "run 2 · " not in after.output
    runs = evprof("show", path, "--json").document["runs"]
    assert (runs[0]["run_id"], runs[0]["name"]) == (1, "night drive")
    assert 2 not in [run["run_id"] for run in runs]


def delete(path: Path, *run_ids: int) -> None:
    """As the window does with a session that it opened."""
    recording = load_session(path).recording
    writer = SessionWriter(recording, path, waits_for_run=True, skips_existing=True)
    for run_id in run_ids:
        recording.post(RunDescribed(run_id, {"is_deleted": True}))
    writer.close()


def test_a_deleted_run_is_said_to_be_deleted(evprof: Any, session: Path, tmp_path: Path) -> None:
    delete(session, 2)
    found = evprof("show", session, "--runs", "2")
    assert (found.code, found.errors) == (2, "evprof: --runs: run 2 was deleted.\n")
    assert evprof("show", session, "--runs", "2,3").output.startswith("run 3 ")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of each of 50 configurations."""
    path = tmp_path_factory.mktemp("many") / "many.evprof"
    write_many_runs(path, ManyRuns(150))
    return path


def test_of_very_many_runs_configurations_are_shown_and_runs_if_asked_for(evprof, many: Path, monkeypatch) -> None:
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


def test_a_report_reads_some_logs_of_many_and_says_so(evprof, many: Path, tmp_path, monkeypatch) -> None:
    def told(name: str) -> str:
        assert evprof("report", many, "-o", tmp_path / name).code == 0
        return (tmp_path / name).read_text()

    assert "of parts of stages" not in told("all.md")
    monkeypatch.setattr(times, "MOST_READ", 2)
    assert "mean times of 3 runs; times of parts of stages are means of 2 of these runs" in told("some.md")


@pytest.mark.usefixtures("computed")
def test_costs_are_told_for_people(evprof, inputs, tmp_path) -> None:
    path = tmp_path / "s.evprof"
    for frames in (2, 4):
        assert evprof("run", "--frames", frames, "--max-new-tokens", 4, "-o", path).code == 0
    told = evprof("show", path, "--costs").output
    assert "by formula, measured" in told
    assert "each of 4 frames" in told
    assert "shared by all" in told, "EventGPT's spatial means are no frame's own"
    assert "over frames: 2 runs" in told
    assert "one run at each of 2 numbers of frames: too few runs" in told
    one = evprof("show", path).output
    assert "over frames" not in one
