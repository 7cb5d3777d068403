"""`evprof report`: where it writes, what it refuses, and that the commands it tells make the same runs again."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from evprof.cli import build_parser
from evprof.cli.run import recorded_session
from evprof.cli.run.command import requests_of
from evprof.core.errors import FAILURE, USAGE
from evprof.export.report import writing
from scripted_engine import ScriptedEngine
from scripted_pair import Script


def shell_lines(text: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)\n```", text, re.DOTALL)[-1].splitlines()


def test_a_report_is_written_in_both_formats(evprof, session: Path, tmp_path: Path) -> None:
    for name, start in (("out.md", "# Two modes\n"), ("out.html", "<!DOCTYPE html>\n")):
        found = evprof("report", session, "-o", tmp_path / name, "--title", "Two modes")
        assert (found.code, found.output) == (0, "")
        assert found.errors == f"report saved: {tmp_path / name}\n"
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert not list(tmp_path.glob("*.part"))


def test_the_figures_are_those_of_show(evprof, session: Path, tmp_path: Path) -> None:
    assert evprof("report", session, "-o", tmp_path / "out.md").code == 0
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    table = next(part for part in text.split("\n\n") if part.startswith("| configuration | time | mean"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    totals = [float(row[2].split()[0]) for row in rows if row[1] == "total"]
    runs = evprof("show", session, "--json").document["runs"]
    assert totals == pytest.approx([run["wall_ms"] for run in runs], rel=1e-3)
    spent = [float(row[2].split()[0]) for row in rows if row[1] == "vision"]
    # Of speculation the report adds both models' stages.
    alone = [run for run in runs if run["mode"] != "speculative"]
    stages = [stage for run in alone for stage in run["stages"] if stage["name"] == "vision"]
    assert spent[: len(alone)] == pytest.approx([stage["duration_ms"] for stage in stages], rel=1e-3, abs=5e-4)


@pytest.mark.parametrize("name", ["out.pdf", "out", "out.markdown", "out.txt"])
def test_another_ending_is_refused(evprof, session: Path, tmp_path: Path, name: str) -> None:
    found = evprof("report", session, "-o", tmp_path / name)
    assert found.code == USAGE
    assert ".md or .html" in found.errors
    assert not (tmp_path / name).exists()


def test_a_session_is_never_written_over(evprof, session: Path, tmp_path: Path) -> None:
    disguised = tmp_path / "mine.md"
    disguised.write_bytes(session.read_bytes())
    found = evprof("report", session, "-o", disguised)
    assert found.code == FAILURE
    assert "is a session" in found.errors
    assert disguised.read_bytes() == session.read_bytes()


def test_over_no_finished_run_there_is_no_report(evprof, inputs, tmp_path: Path, monkeypatch) -> None:
    class Failing(ScriptedEngine):
        def run(self, request, sink, *rest):
            raise RuntimeError("The device is gone.")

    monkeypatch.setattr(recorded_session, "make_engine", lambda: Failing(Script(), speed=50.0))
    path = tmp_path / "failed.evprof"
    evprof("run", "--events", inputs[0], "-o", path)
    if not path.exists():
        pytest.skip("a run that never began leaves no session")
    found = evprof("report", path, "-o", tmp_path / "out.md")
    assert found.code == FAILURE
    assert "nothing to report" in found.errors


def test_an_answer_cannot_leave_its_place(evprof, session: Path, tmp_path: Path, monkeypatch) -> None:
    hostile = "</script><script>alert(1)</script> | \u202e \x1b[2J"
    read = writing.read_source

    def tampered(path: Path):
        source = read(path)
        for run in source.runs:
            run.info.text = hostile
            run.info.sample = replace(run.info.sample, name=hostile)
        return source

    monkeypatch.setattr(writing, "read_source", tampered)
    assert evprof("report", session, "-o", tmp_path / "out.html").code == 0
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; | ⟨U+202E⟩ ⟨U+001B⟩[2J" in page


def test_the_commands_told_ask_for_the_same_runs(evprof, scripted, inputs, tmp_path: Path) -> None:
    path = tmp_path / "it's here.evprof"
    asked = ["run", "--events", inputs[0], "--video", inputs[1], "--prompt", 'What\'s "this"; $HOME?', "--repeat", "3"]
    asked += ["--warmup", "1", "--max-new-tokens", "7", "--visual-keep", "0.5", "--no-event-markers", "--ignore-eos"]
    assert evprof(*asked, "-o", path).code == 0
    report = tmp_path / "a report.md"
    assert evprof("report", path, "-o", report, "--basis", "model-only").code == 0
    run, again = shell_lines(report.read_text(encoding="utf-8"))
    assert again == shlex.join(["evprof", "report", str(path), "-o", str(report), "--basis", "model-only"])
    (told,) = requests_of(parsed(run))
    (meant,) = requests_of(parsed(shlex.join(["evprof", *map(str, asked), "-o", str(path)])))
    assert told.settings == meant.settings
    assert (told.mode, told.sample.prompt, told.repeat, told.warmup) == ("side-by-side", meant.sample.prompt, 3, 1)
    assert (told.sample.events_path, told.sample.video_path) == (meant.sample.events_path, meant.sample.video_path)
    assert Path(parsed(run).output) == path


def parsed(line: str) -> argparse.Namespace:
    words = shlex.split(line)
    assert words[0] == "evprof"
    return build_parser().parse_args(words[1:])


def test_result_files_are_reported_directly(evprof, tmp_path: Path) -> None:
    rows = [
        {
            "prefill_len": 636,
            "kv_cache_mb": 318.0,
            "stage12_time": 0.003,
            "s3_time": 0.006,
            "s4_time": 0.066,
            "s5_time": 0.092,
            "total_time": 0.164 + number / 1000,
        }
        for number in range(4)
    ]
    side = {"stats": {}, "samples": rows}
    file = tmp_path / "benchmark.json"
    file.write_text(json.dumps({"config": {"eventgpt_frames": 1}, "eventgpt": side, "video_llava": side}))
    found = evprof("report", file, "-o", tmp_path / "out.md")
    assert found.code == 0, found.errors
    text = (tmp_path / "out.md").read_text(encoding="utf-8")
    assert "66.00 ± 0 ⁱ" in text
    assert shell_lines(text) == [shlex.join(["evprof", "report", str(file), "-o", str(tmp_path / "out.md")])]
    assert sorted(path.name for path in tmp_path.glob("*.evprof")) == []
