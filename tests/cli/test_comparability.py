"""Runs that were not made alike: one line above the table, and commands that refuse them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cell_runs import TINY, Cell
from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import SETTLED, SpanRecord, TokenRecord
from evprof.run.session_writer import SessionWriter


@pytest.fixture
def session(tmp_path: Path) -> Callable[..., Path]:
    """Writes a session of three runs that tell this of their machine."""

    def write(name: str, **environment: Any) -> Path:
        cell = Cell(name=name, is_imported=False, samples=3, prompt=600, environment=environment, model=TINY)
        recording = RecordLog()
        for run in cell.runs():
            recording.post(RunStarted(run.run_id, run.info))
            recording.append(SpanRecord(run.run_id, 0, -1, SETTLED, "target", "decode", 0, run.run_id * 1_000_000))
            recording.append(TokenRecord(run.run_id, "target", 0, 7, "target", -1, 0, "a"))
            recording.post(RunEnded(run.run_id, "finished", None, {}))
        path = tmp_path / f"{name}.evprof"
        SessionWriter(recording, path).close()
        return path

    return write


@pytest.fixture
def elsewhere(session) -> tuple[Path, Path]:
    """The same on two machines."""
    return (
        session("here", device="Intel Xeon", processor="Intel Xeon", torch="2.11.0"),
        session("there", device="Intel Xeon", processor="AMD EPYC", torch="2.13.0"),
    )


def sentence_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if "The runs differ in" in line]


def test_the_line_stands_once_above_the_table(evprof, elsewhere) -> None:
    found = evprof("compare", *elsewhere)
    assert found.code == 0
    (line,) = sentence_of(found.output)
    assert line.startswith("The runs differ in torch (2.11.0 or 2.13.0) and processor (Intel Xeon or AMD EPYC); only ")
    lines = found.output.splitlines()
    assert lines.index(line) < next(place for place, text in enumerate(lines) if text.startswith("decode"))
    document = evprof("compare", *elsewhere, "--json").document
    assert document["comparability"]["sentence"] == line
    assert document["comparability"]["is_comparable"] is False


@pytest.mark.parametrize("words", [["compare"], ["compare", "--json"], ["report", "-o", "REPORT"]])
def test_what_cannot_be_compared_is_refused_where_that_is_asked_for(evprof, elsewhere, tmp_path, words) -> None:
    output = tmp_path / "report.md"
    words = [output if word == "REPORT" else word for word in words]
    (told,) = sentence_of(evprof("compare", *elsewhere).output)
    found = evprof(*words[:1], *elsewhere, *words[1:], "--require-comparable")
    assert found.code == 1
    assert found.output == ""
    assert told in found.errors
    assert not output.exists()


@pytest.mark.parametrize("suffix", ["md", "html"])
def test_a_report_says_it_in_its_head(evprof, elsewhere, tmp_path, suffix) -> None:
    output = tmp_path / f"report.{suffix}"
    assert evprof("report", *elsewhere, "-o", output).code == 0
    text = output.read_text(encoding="utf-8")
    assert text.count("The runs differ in torch") == 1
    assert text.index("The runs differ in torch") < text.index("Overview")
    assert evprof("report", elsewhere[0], "-o", output, "--require-comparable").code == 0
    assert "The runs differ in" not in output.read_text(encoding="utf-8")


def test_the_table_for_data_frames_holds_what_differs(evprof, elsewhere, tmp_path) -> None:
    output = tmp_path / "comparison.csv"
    evprof("compare", *elsewhere, "-o", output)
    with output.open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["kind"] == "difference"]
    assert [(row["name"], row["value"]) for row in rows] == [
        ("torch", "2.11.0"),
        ("torch", "2.13.0"),
        ("processor", "Intel Xeon"),
        ("processor", "AMD EPYC"),
    ]
