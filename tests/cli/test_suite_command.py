"""`evprof suite`: what it is asked, what it leaves, what it says."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from evprof.cli import build_parser
from evprof.cli.run import recorded_session
from evprof.cli.suite import command
from evprof.cli.suite.progress import SuiteProgress
from evprof.core.request import RunRequest
from evprof.core.run_info import FAILED
from evprof.loaders.bundled import bundled_sample
from evprof.run.suites.cell import SuiteConfiguration
from scripted_engine import ScriptedEngine
from scripted_pair import Script
from whole_session import load_session

Evprof = Callable[..., Any]


class FakeRoom:
    """Says of every machine what a test wants it to say."""

    is_large = True
    limit = 10_000

    def family_of(self, name: str) -> str | None:
        return "eventgpt" if "eventgpt" in name else "video_llava"

    def fits(self, cells: Any) -> bool:
        return self.is_large

    def past_context(self, cell: SuiteConfiguration) -> str | None:
        return "it is too long" if (cell.settings.frames or 0) * 37 > self.limit else None


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> FakeRoom:
    """No torch: sizes and ceilings are said, and the engine plays its script fast."""
    made = FakeRoom()
    monkeypatch.setattr(command, "make_room", lambda: made)
    monkeypatch.setattr(command, "machine_facts", lambda *_: {"ceilings": [], "models": {}})
    monkeypatch.setattr(recorded_session, "make_engine", lambda: ScriptedEngine(Script(), speed=2000.0))
    return made


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(
        'title = "Two of them"\nrepeat = 2\n[settings]\nmax_new_tokens = 4\n[axes]\nmode = ["draft", "side-by-side"]\n'
    )
    return path


@pytest.fixture
def slips(room: FakeRoom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of somebody who mistypes."""
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text("axes = [")
    Path("grid.toml").write_text("[axes]\nframes = [1]\n")
    Path("typo.json").write_text('{"axes": {"framse": [1]}}')
    Path("empty.csv").touch()
    Path("empty.json").write_text("[]\n")
    Path("columns.csv").write_text("name,evnts,vido\na,a.npy,a.mp4\n")
    Path("halves.csv").write_text("name,prompt\na,What?\n")
    Path("text.csv").write_text("some text\nwith lines\n")
    Path("list.csv").write_text("events,prompt\na.npy,What?\n")


def test_a_grid_leaves_a_session_and_two_reports(evprof: Evprof, room: FakeRoom, grid: Path, tmp_path: Path) -> None:
    found = evprof("suite", grid, "-o", tmp_path / "out", "--json")
    assert found.code == 0, found.errors
    document = found.document
    assert document["suite"]["title"] == "Two of them"
    assert document["suite"]["order"] == "interleaved"
    assert document["counts"] == {"planned": 18, "finished": 18, "failed": 0, "missing": 0}
    assert [(cell["label"], cell["role"], cell["finished"]) for cell in document["cells"]] == [
        ("draft", "draft", 6),
        ("side-by-side", "draft", 6),
        ("side-by-side", "target", 6),
    ]
    assert document["cells"][0]["total_ms"]["count"] == 6
    assert [Path(path).name for path in document["reports"]] == ["report.md", "report.html"]
    assert "Two of them" in (tmp_path / "out/report.md").read_text()
    facts = load_session(Path(document["session"])).facts
    assert {"suite", "ceilings", "models"} <= facts.keys()


def test_blocks_have_a_reference(evprof: Evprof, room: FakeRoom, grid: Path, tmp_path: Path) -> None:
    room.is_large = False
    document = evprof("suite", grid, "-o", tmp_path / "out", "--json").document
    assert document["suite"]["order"] == "blocks"
    assert document["cells"][-1]["label"] == "reference"
    assert document["cells"][-1]["finished"] == 3


def test_samples_come_from_a_list(evprof: Evprof, room: FakeRoom, tmp_path: Path) -> None:
    sample, listed = bundled_sample(), tmp_path / "list.csv"
    listed.write_text(
        f"events,video,prompt,name\n{sample.events_path},{sample.video_path},What?,both\n"
        f"{sample.events_path},,Where?,half\n"
    )
    found = evprof("suite", listed, "--repeat", 1, "-o", tmp_path / "out", "--json")
    assert found.code == 0, found.errors
    document = found.document
    assert (document["suite"]["name"], document["suite"]["samples"]) == ("stages", 2)
    assert document["suite"]["manifest"] == str(listed)
    assert any("half" in problem and "video" in problem for problem in document["suite"]["problems"])
    assert document["counts"]["finished"] == 2
    also = evprof("suite", "speculation", "--data", listed, "--repeat", 1, "-o", tmp_path / "more", "--json").document
    assert also["suite"]["name"] == "speculation"
    assert {cell["label"]: cell["finished"] for cell in also["cells"]}["draft"] == 2


def test_the_command_that_measures_a_suite_again_has_its_settings() -> None:
    given = ["--draft-length", "heuristic", "--no-event-markers", "--draft-quant", "int8", "--gamma", "5"]
    options = build_parser().parse_args(["suite", "stages", *given, "-o", "out"])
    again = build_parser().parse_args(command.words_of(options))
    left_out = ("instance", "parser")
    assert {**vars(again), **dict.fromkeys(left_out)} == {**vars(options), **dict.fromkeys(left_out)}


class Breaking(ScriptedEngine):
    """Fails every run of the target, as a model that cannot be loaded does."""

    def run(self, request: RunRequest, sink: Any, stop: Any) -> None:
        if request.mode != "target":
            super().run(request, sink, stop)
            return
        from evprof.run.processes.open_runs import OpenRuns

        opened = OpenRuns()
        opened.begin(request)
        for message in opened.close(FAILED, "The checkpoint is damaged; copy it again."):
            sink.post(message)


def test_a_model_that_fails_costs_its_rows(evprof, room: FakeRoom, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(recorded_session, "make_engine", lambda: Breaking(Script(), speed=2000.0))
    found = evprof("suite", "speculation", "--repeat", 2, "-o", tmp_path / "out", "--json")
    assert found.code == 1
    counts = {cell["label"]: cell for cell in found.document["cells"]}
    assert (counts["target"]["finished"], counts["target"]["failed"], counts["target"]["missing"]) == (0, 6, 0)
    assert counts["target"]["total_ms"] is None
    assert counts["speculative · γ 3"]["finished"] == counts["draft"]["finished"] == 6
    assert "damaged" in found.errors


def test_stopped_and_resumed(evprof, room: FakeRoom, grid: Path, tmp_path, monkeypatch) -> None:
    ended = SuiteProgress.end
    rows: list[Any] = []

    def interrupting(self: SuiteProgress, row: Any, *rest: Any) -> None:
        ended(self, row, *rest)
        rows.append(row)
        if len(rows) == 4:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SuiteProgress, "end", interrupting)
    first = evprof("suite", grid, "-o", tmp_path / "out", "--json")
    assert first.code == 130
    assert "--resume" in first.errors.splitlines()[-1]
    assert first.document["counts"]["missing"] == 18 - first.document["counts"]["finished"] > 0
    refused = evprof("suite", grid, "-o", tmp_path / "out")
    assert refused.code == 1
    assert "--resume" in refused.errors
    other = evprof("suite", grid, "-o", tmp_path / "out", "--resume", "--warmup", 3)
    assert other.code == 1
    assert "warmup 1 then and 3 now" in other.errors
    second = evprof("suite", grid, "-o", tmp_path / "out", "--resume", "--json")
    assert second.code == 0, second.errors
    assert second.document["counts"] == {"planned": 18, "finished": 18, "failed": 0, "missing": 0}
    assert len(rows) == 12


@dataclass
class RowsMeasured:
    """Cell, sample and repeat of every row that was measured."""

    rows: list[tuple[str, str, int]] = field(default_factory=list)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> RowsMeasured:
    found, ended = RowsMeasured(), SuiteProgress.end

    def noting(self: SuiteProgress, row: Any, *rest: Any) -> None:
        found.rows.append((row.cell.label, row.sample.name, row.repeat))
        ended(self, row, *rest)

    monkeypatch.setattr(SuiteProgress, "end", noting)
    return found


@pytest.mark.parametrize("fits", [True, False])
def test_a_suite_goes_on_with_what_is_missing(
    evprof: Evprof, room: FakeRoom, measured: RowsMeasured, grid: Path, tmp_path: Path, *, fits: bool
) -> None:
    room.is_large = fits
    resumed = ("suite", grid, "-o", tmp_path / "out", "--json", "--resume")
    first = evprof(*resumed[:-1], "--limit", 1, "--repeat", 1)
    assert first.code == 0, first.errors
    begun = set(measured.rows)
    for words, samples, repeat in (
        (("--limit", 2, "--repeat", 1), 2, 1),
        (("--repeat", 1), 3, 1),
        (("--repeat", 3), 3, 3),
    ):
        grown = evprof(*resumed, *words)
        assert grown.code == 0, grown.errors
        assert (grown.document["suite"]["samples"], grown.document["suite"]["repeat"]) == (samples, repeat)
        assert grown.document["counts"]["missing"] == grown.document["counts"]["failed"] == 0
    # Every row once, and those of the beginning not again.
    whole = evprof("suite", grid, "-o", tmp_path / "whole", "--json", "--repeat", 3).document
    assert grown.document["counts"] == whole["counts"]
    halves = len(measured.rows) // 2
    assert sorted(measured.rows[:halves]) == sorted(measured.rows[halves:])
    assert begun <= set(measured.rows)
    runs = load_session(tmp_path / "out/suite.evprof").recording
    assert len(runs.messages()) > 0
    planned = grown.document["suite"]["planned_runs"]
    assert planned == whole["suite"]["planned_runs"] == whole["counts"]["planned"]
    assert f"{planned} of {planned} planned" in (tmp_path / "out/report.md").read_text()


def test_a_suite_goes_on_with_less(evprof, room: FakeRoom, measured: RowsMeasured, grid: Path, tmp_path) -> None:
    evprof("suite", grid, "-o", tmp_path / "out", "--limit", 2)
    count = len(measured.rows)
    found = evprof("suite", grid, "-o", tmp_path / "out", "--resume", "--limit", 1, "--repeat", 1, "--json")
    assert found.code == 0, found.errors
    assert len(measured.rows) == count
    assert found.document["counts"] == {"planned": 3, "finished": 3, "failed": 0, "missing": 0}
    # What was measured stays, in the session and in the report.
    suite = found.document["suite"]
    assert (suite["samples"], suite["repeat"], suite["planned_runs"]) == (2, 2, 12)
    assert "12 of 12 planned" in (tmp_path / "out/report.md").read_text()


def test_another_suite_is_refused_before_an_engine_starts(
    evprof: Evprof, room: FakeRoom, grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evprof("suite", grid, "-o", tmp_path / "out", "--limit", 1)
    monkeypatch.setattr(command, "make_room", lambda: pytest.fail("the models were looked at"))
    found = evprof("suite", grid, "-o", tmp_path / "out", "--resume", "--limit", 2, "--max-new-tokens", 9)
    assert found.code == 1
    assert found.errors.splitlines() == [
        "evprof: --resume: this is not the suite that was begun there (cell 'draft' has other settings; cell "
        "'side-by-side' has other settings); ask for the same cells and warm-ups, or take another folder."
    ]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["stage", "-o", "out"], 2, "did you mean stages"),
        (["stages"], 2, "-o"),
        (["stages", "-o", "out", "--retry-failed"], 2, "belongs to --resume"),
        (["stages", "-o", "out", "--resume"], 1, "no suite in"),
        (["stages", "-o", "out", "--repeat", "0"], 2, "at least 1"),
        (["stages", "-o", "out", "--limit", "0"], 2, "--limit must be at least 1"),
        (["stages", "-o", "out", "--data", "absent.csv"], 1, "absent.csv"),
        (["bad.toml", "-o", "out"], 1, "cannot be read as TOML"),
        (["text.csv", "-o", "out"], 2, "neither a suite"),
        (["empty.csv", "-o", "out"], 2, "neither a suite"),
        (["empty.json", "-o", "out"], 2, "neither a suite"),
        (["columns.csv", "-o", "out"], 2, "columns events and video"),
        (["typo.json", "-o", "out"], 2, "did you mean frames"),
    ],
)
def test_wrong_usage_is_one_sentence(evprof: Evprof, slips: None, words: list[str], code: int, sentence: str) -> None:
    found = evprof("suite", *words)
    assert found.code == code
    assert sentence in found.errors
    assert len(found.errors.strip().splitlines()) == 1
    assert not Path("out").exists()


def test_the_bundled_pair_for_real(evprof: Evprof, computed: None, tmp_path: Path) -> None:
    grid = tmp_path / "grid.json"
    axes = {"mode": ["target", "speculative"], "gamma": [2, 3]}
    grid.write_text(json.dumps({"settings": {"max_new_tokens": 4}, "axes": axes, "repeat": 1, "limit": 1}))
    found = evprof("suite", grid, "-o", tmp_path / "out", "--json")
    assert found.code == 0, found.errors
    document = found.document
    assert [cell["label"] for cell in document["cells"]] == ["target", "speculative · γ 2", "speculative · γ 3"]
    assert document["suite"]["order"] == "interleaved"
    assert all(cell["finished"] == 1 and cell["total_ms"]["mean"] > 0 for cell in document["cells"])
    facts = load_session(Path(document["session"])).facts
    assert set(facts["models"]) == {"evprof-tiny-eventgpt", "evprof-tiny-video-llava"}
    assert facts["ceilings"]


def test_a_grid_names_its_samples_relative_to_itself(  # noqa: PLR0917
    evprof: Evprof,
    anything_goes: None,
    room: FakeRoom,
    inputs: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "grids"
    folder.mkdir()
    (tmp_path / "list.json").write_text(
        json.dumps([{"events": inputs[0].name, "name": name, "prompt": "What?"} for name in ("one", "two", "three")])
    )
    grid = {"data": "../list.json", "root": "..", "settings": {"mode": "draft"}, "samples": ["two", "three"]}
    (folder / "grid.json").write_text(json.dumps({**grid, "limit": 1, "repeat": 1}))
    monkeypatch.chdir(folder)
    found = evprof("suite", "grid.json", "-o", tmp_path / "out", "--json")
    assert found.code == 0, found.errors
    session = load_session(tmp_path / "out/suite.evprof")
    samples = {message.info.sample.name for message in session.recording.messages()}
    assert samples == {"two"}
    assert session.environment["device"] == "scripted"
    assert session.facts["suite"]["manifest"] == str(tmp_path / "list.json")


def test_a_folder_is_cut_into_clips(evprof: Evprof, room: FakeRoom, tmp_path: Path) -> None:
    import numpy as np

    for name in ("a", "b"):
        (tmp_path / "drives" / name).mkdir(parents=True)
        t = np.arange(0, 500_001, 100)
        np.savez(tmp_path / "drives" / name / "e.npz", x=t // 9000, y=t // 7000, t=t, p=t % 2)
    grid = tmp_path / "grid.toml"
    grid.write_text('repeat = 1\nwarmup = 0\n[settings]\nmode = "draft"\nevent_source = "png"\n')
    words = ("--data", tmp_path / "drives" / "a", "--clip-ms", "100", "--clip-step-ms", "200", "--json")
    found = evprof("suite", grid, *words, "-o", tmp_path / "out")
    assert found.code == 0, found.errors
    runs = load_session(tmp_path / "out" / "suite.evprof").recording
    from evprof.core.run_log import RunBook

    book = RunBook(runs)
    book.update()
    samples = [run.info.sample for run in book.runs.values()]
    assert [sample.name for sample in samples] == ["a 0.00 s", "a 0.20 s", "a 0.40 s"]
    assert [sample.start_us for sample in samples] == [0, 200_000, 400_000]
    # Drawn from the clip, not from the whole recording: the pictures of two clips differ.
    drawn = [(Path(sample.events_path or "") / "frame_00.png").read_bytes() for sample in samples]
    assert len(list((tmp_path / "out" / "event-frames" / "5-frames").iterdir())) == 3
    assert len(set(drawn)) == 3
    several = evprof("suite", tmp_path / "drives", "--limit", "2", "-o", tmp_path / "two", "--json")
    assert (several.code, "2 samples without video took no part" in several.errors) == (1, True)


def test_cells_past_the_context_are_told_with_their_reason(evprof: Evprof, room: FakeRoom, tmp_path: Path) -> None:
    room.limit = 500
    found = evprof("suite", "token-scaling", "--repeat", 1, "--limit", 1, "-o", tmp_path / "out", "--json")
    assert found.code == 0, found.errors
    suite = found.document["suite"]
    assert [(entry["frames"], entry["reason"]) for entry in suite["left_out"]] == [
        (16, "it is too long"),
        (32, "it is too long"),
        (64, "it is too long"),
    ]
    assert all(entry["models"] == {"target": "evprof-tiny-video-llava"} for entry in suite["left_out"])
    assert "Cell 'target · 64 frames' was left out: it is too long." in suite["problems"]


def test_the_documents_are_one_suite_and_one_report(evprof, room: FakeRoom, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        command, "pair_facts", lambda plan, _: {"batches": [{"model": "m", "batch": len(plan.samples)}]}
    )
    found = evprof("suite", "documents", "--repeat", 1, "--limit", 1, "--warmup", 0, "--json", "-o", tmp_path / "out")
    assert found.code == 0, found.errors
    labels = {cell["label"] for cell in found.document["cells"]}
    assert {
        "shapes · bfloat16",
        "one-vs-eight · side-by-side",
        "parallel-prefill · hidden drafts · 20 tokens",
    } <= labels
    report = (tmp_path / "out/report.md").read_text(encoding="utf-8")
    assert [line for line in report.splitlines() if line.startswith("## ")][:2] == [
        "## The five documents",
        "## Document 000: shapes and times of stages 4 and 5",
    ]
    assert load_session(tmp_path / "out/suite.evprof").facts["batches"] == [{"model": "m", "batch": 1}]


@pytest.mark.usefixtures("room", "processes")
def test_all_rows_in_each_of_several_processes(evprof: Evprof, grid: Path, tmp_path: Path) -> None:
    grid.write_text('[settings]\nmax_new_tokens = 4\n[axes]\nmode = ["target", "speculative"]\n')
    words = ("suite", grid, "-o", tmp_path / "out", "--processes", 2, "--repeat", 1, "--limit", 2)
    found = evprof(*words, "--json")
    assert found.code == 0, found.errors
    assert "process 2 of 2" in found.errors
    runs = evprof("show", tmp_path / "out" / "suite.evprof", "--json").document["runs"]
    sessions = dict.fromkeys(run["engine_session"] for run in runs)
    assert len(sessions) == 2
    of_session = [[run for run in runs if run["engine_session"] == name] for name in sessions]
    cells = [sorted((run["cell"], run["role"]) for run in found if not run["warmup"]) for found in of_session]
    assert cells[0] == cells[1]
    assert all(not run["cold"] for found in of_session for run in found if not run["warmup"])
    drafted = [run for run in runs if run["speculation"] and not run["warmup"]]
    assert [len(run["baseline"]["run_ids"]) for run in drafted] == [2] * 4
    other = evprof("suite", grid, "-o", tmp_path / "out", "--repeat", 1, "--limit", 2, "--resume")
    assert "processes 2 then and 1 now" in other.errors
