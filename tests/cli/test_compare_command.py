"""`evprof compare`: any number of sessions, cells, baselines, what is left out, tables."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from evprof.cli.run.recorded_session import RecordedSession
from evprof.cli.terminal.console import Console
from evprof.core.request import RunRequest
from evprof.core.run_info import Turn
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from sealed import seal

Suite = Callable[..., Path]


@pytest.fixture
def suite(scripted: None, inputs: tuple[Path, Path], tmp_path: Path) -> Suite:
    """Makes a session of configurations over samples with files of their own, by the engine that plays a script."""

    def make(name: str, samples: int = 4, repeats: int = 1, cells: tuple[str, ...] = ("8 frames", "1 frame")) -> Path:
        path = tmp_path / name
        with RecordedSession(path, Console(StringIO(), StringIO(), is_json=True)) as session:
            for place in range(samples):
                events, video = (str(shutil.copy(path, tmp_path / f"{place}{path.suffix}")) for path in inputs)
                for cell in cells:
                    sample = Sample(events, video, name=f"scene {place}")
                    settings = GenerationSettings(max_new_tokens=8 + 4 * (cell == "8 frames"), frames=int(cell[0]))
                    session.run(
                        RunRequest(
                            *("target", sample, None, ModelChoice("random"), settings),
                            repeat=repeats,
                            cell=cell,
                            warmup=1,
                            turn=Turn("series", place, 0),
                        )
                    )
        return path

    return make


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_configurations_of_a_suite_are_compared_over_samples(evprof, suite) -> None:
    path = suite("suite.evprof", samples=5)
    found = evprof("compare", path, "--json")
    assert found.code == 0
    assert "left out: 10 runs (warm-up)" in found.errors
    document = found.document
    assert [(column["label"], column["samples"], column["failures"]) for column in document["columns"]] == [
        ("8 frames", 5, 0),
        ("1 frame", 5, 0),
    ]
    total = document["rows"][0]
    assert (total["counts"], total["paired_counts"]) == ([5, 5], [None, 5])
    assert total["ci95"][1][0] <= total["ratio"][1] <= total["ci95"][1][1]
    assert document["pairs"][0]["samples"] == 5
    parts = document["pairs"][0]["contributions"]
    text = evprof("compare", path).output
    assert "A: 8 frames (5 samples), the baseline" in text
    assert "mean of 5 samples that both measured" in text
    assert all(part["stage"] in text for part in parts)
    assert sum(part["share"] for part in parts) == pytest.approx(1)


@pytest.mark.parametrize("asked", ["1 frame", "4"])
def test_a_baseline_is_any_run_of_a_configuration_or_its_name(evprof, suite, asked) -> None:
    path = suite("suite.evprof", samples=2)
    document = evprof("compare", path, "--baseline", asked, "--json").document
    assert [column["is_baseline"] for column in document["columns"]] == [False, True]
    wrong = evprof("compare", path, "--baseline", "9 frames")
    assert wrong.code == 2
    assert "did you mean 8 frames?" in wrong.errors


def test_columns_of_several_sessions_each_have_a_pair(evprof, suite) -> None:
    before, after = suite("before.evprof", samples=3), suite("after.evprof", samples=2)
    document = evprof("compare", before, after, "--json").document
    assert [Path(column["session"]).name for column in document["columns"]] == ["before.evprof"] * 2 + [
        "after.evprof"
    ] * 2
    assert [pair["samples"] for pair in document["pairs"]] == [3, 2, 2]
    assert document["contributions"] == document["pairs"][0]["contributions"]
    text = evprof("compare", before, after).output
    assert "D: 1 frame in after.evprof (2 samples)" in text
    assert "where the difference of D from A comes from (mean of 2 samples that both measured):" in text


def test_what_did_not_finish_is_told_and_counted(evprof, suite) -> None:
    import sqlite3

    path = suite("suite.evprof", samples=3)
    with sqlite3.connect(path) as connection:
        (info,) = connection.execute("SELECT info FROM runs WHERE run_id = 2").fetchone()
        changed = json.loads(info) | {"status": "failed", "error": "out of memory"}
        connection.execute("UPDATE runs SET status = 'failed', info = ? WHERE run_id = 2", (json.dumps(changed),))
        connection.execute("DELETE FROM figures WHERE run_id = 2")
    connection.close()
    seal(path)
    found = evprof("compare", path)
    assert "left out because they did not finish: run 2" in found.errors
    assert "A: 8 frames (2 samples, 1 failed), the baseline" in found.output
    assert " over 2" in found.output


def test_only_differences_are_shown_when_asked_for(evprof, suite) -> None:
    path = suite("suite.evprof", samples=5)
    whole, short = (evprof("compare", path, *more) for more in ((), ("--differences-only",)))
    assert "visual_tokens" in whole.output
    assert "visual_tokens" not in short.output
    assert "most tokens  12        8" in short.output
    document = evprof("compare", path, "--differences-only", "--json").document
    assert document["differences_only"] is True
    assert {setting["setting"] for setting in document["settings"]} == {"frames", "max_new_tokens"}
    same = evprof("compare", path, "--differences-only", "--basis", "model-only", "--json").document
    assert all(any(row["differs"]) for row in same["rows"])


def test_a_comparison_is_written_as_a_table_and_as_its_document(evprof, suite, tmp_path) -> None:
    path = suite("suite.evprof", samples=5)
    found = evprof("compare", path, "-o", tmp_path / "c.json", "--json")
    assert json.loads((tmp_path / "c.json").read_text(encoding="utf-8")) == found.document
    assert evprof("compare", path, "-o", tmp_path / "c.csv").code == 0
    with (tmp_path / "c.csv").open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    figures = [line for line in lines if line["kind"] == "figure"]
    assert len(figures) == 2 * len(found.document["rows"])
    by_name = {(line["name"], line["label"]): line for line in figures}
    total = found.document["rows"][0]
    line = by_name["total_ms", "1 frame"]
    assert float(line["value"]) == total["values"][1]
    assert [float(line[key]) for key in ("ci95_low", "ci95_high")] == total["ci95"][1]
    assert (line["count"], line["paired_count"], line["delta"]) == ("5", "5", str(total["delta"][1]))
    parts = [line for line in lines if line["kind"] == "contribution"]
    assert [line["name"] for line in parts] == [part["stage"] for part in found.document["contributions"]]
    settings = {(line["name"], line["label"]): line["value"] for line in lines if line["kind"] == "setting"}
    assert settings["frames", "8 frames"] == "8 frames"


def test_what_must_not_be_written_over_is_kept(evprof, suite, tmp_path) -> None:
    path = suite("suite.evprof", samples=1)
    assert evprof("compare", path, "-o", tmp_path / "c.txt").code == 2
    assert evprof("compare", path, "-o", tmp_path / "no" / "c.csv").code == 1
    disguised = tmp_path / "session.csv"
    shutil.copyfile(path, disguised)
    refused = evprof("compare", path, "-o", disguised)
    assert refused.code == 1
    assert digest(disguised) == digest(path)


def test_numbers_of_runs_are_not_taken_for_sessions(evprof: Any, suite: Suite) -> None:
    path = suite("one.evprof", samples=2)
    found = evprof("compare", path, "2", "4")
    assert found.code == 2
    assert f"2 is no session: all runs of {path} are compared; --baseline 2 compares them with run 2." in found.errors
    assert evprof("compare", path, "--baseline", "2").code == 0


def test_a_ratio_of_counts_has_no_more_digits_than_it_needs() -> None:
    from evprof.cli.sessions.compare import ratio_text

    assert ratio_text(1.6363636, (1.6363636, 1.6363636000000002)) == "1.64× [1.64, 1.64]"
    assert ratio_text(1.0004, (1.0001, 1.0007)) == "1.0004× [1.0001, 1.0007]"
    assert ratio_text(0.004, None) == "0.004×"
