"""The report's section on accuracy: planted answers give planted scores, beside time, by task and in pairs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cell_runs import Cell
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.scoring import CHOICE, RIGHT, SCORING_RULES, ExpectedAnswer
from evprof.export.files import write_export
from evprof.export.report.data import Source, gather
from evprof.export.report.sections.answers import accuracy
from evprof.metrics.comparison.accuracy import accuracy_of
from evprof.metrics.comparison.document import compare_document
from evprof.metrics.configurations.gathering import configurations_of
from report_blocks import said, tables

CHOICES = ("a car", "a bus", "a bicycle")


def _cell(name: str, answers: list[str], first_run: int, **changes: Any) -> list[RunLog]:
    """A cell's answers to questions of two tasks: choices (the bus is right) and counting (three)."""
    made = Cell(name=name, samples=len(answers), is_imported=False, **changes).runs(first_run)
    for place, (run, answer) in enumerate(zip(made, answers, strict=True)):
        run.info.text = answer
        asked = (
            ("a bus", ExpectedAnswer((), CHOICES, 1, "vehicles"))
            if place % 2 == 0
            else ("three", ExpectedAnswer(("3",), task="counting"))
        )
        run.info.sample = replace(run.info.sample, reference=asked[0], expected=asked[1])
    return made


@pytest.fixture
def runs() -> list[RunLog]:
    """One cell is always right, the other in one question of eight, at twice the time."""
    good = ["B", "3", "(B)", "Three.", "B", "three", "a bus", "3"]
    poor = ["A", "4", "(B)", "none", "C", "two", "a car", "7"]
    slow = {"vision": 60.0, "prefill": 1000.0, "decode": 280.0}
    return [*_cell("good", good, 1), *_cell("poor", poor, 101, stages=slow)]


def test_scores_stand_beside_time_and_by_task(runs):
    scores, tasks = tables(accuracy(gather([Source(Path("s.evprof"), runs)])))
    rows = {row[0].text: dict(zip(scores.heads, (cell.text for cell in row), strict=True)) for row in scores.rows}
    assert rows["good"]["right answers"].startswith("100.0 %")
    assert rows["poor"]["right answers"].startswith("12.5 %")
    assert rows["good"]["right choice"].startswith("100.0 %")
    assert rows["poor"]["right choice"].startswith("25.0 %")
    assert rows["good"]["n"] == "8"
    # 8 right answers in 8 times 0.67 s, and 1 in 8 times 1.34 s
    assert float(rows["good"]["right per s"].split()[0]) == pytest.approx(1 / 0.67, rel=0.01)
    assert float(rows["poor"]["right per s"].split()[0]) == pytest.approx(0.125 / 1.34, rel=0.01)
    named = [f"{cell}, {task}" for cell in ("good", "poor") for task in ("vehicles", "counting")]
    assert [(row[0].text, row[1].text) for row in tasks.rows] == [(name, "4") for name in named]
    found = said(accuracy(gather([Source(Path("s.evprof"), runs)])))
    assert SCORING_RULES[CHOICE].sentence in found


def test_the_comparison_tells_the_same(runs):
    good, poor = configurations_of(runs)
    document = json.loads(json.dumps(compare_document([good, poor], good)))
    told = document["accuracy"]
    assert [column["scores"][RIGHT]["mean"] for column in told["columns"]] == [1.0, 0.125]
    assert [part["task"] for part in told["columns"][0]["tasks"]] == ["vehicles", "counting"]
    assert {rule["key"] for rule in told["rules"]} == set(SCORING_RULES)
    (pair,) = document["pairs"]
    counted = {key: pair["mcnemar"][key] for key in ("pairs", "both", "only_baseline", "only_other", "neither")}
    assert counted == {"pairs": 8, "both": 1, "only_baseline": 7, "only_other": 0, "neither": 0}
    assert pair["mcnemar"]["difference"] == {"mean": -0.875}
    rows = {row["metric"]: row for row in document["rows"]}
    assert rows[RIGHT]["values"] == [1.0, 0.125]


def test_predictions_are_a_line_a_run(runs, tmp_path):
    runs[3].info.warmup = True
    said: list[str] = []
    path = tmp_path / "predictions.jsonl"
    assert write_export([Source(Path("s.evprof"), runs)], "predictions", path, tell=said.append) == [path]
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 15
    assert said == ["1 run left out: warm-ups, profiled or unfinished."]
    first = lines[0]
    assert (first["id"], first["question"], first["prediction"]) == ("sample 0", "What?", "B")
    assert (first["choices"], first["right_choice"], first["named_choice"]) == (list(CHOICES), "B", "B")
    assert first["scores"] == {RIGHT: 1.0, CHOICE: 1.0}
    assert (lines[1]["reference"], lines[1]["task"]) == (["three", "3"], "counting")


def test_rates_of_lists_with_free_text_say_how_many_can_be_right_or_wrong(runs):
    long = "a very long answer that nobody can foretell to the word"
    for run in runs:
        if run.info.sample.task == "counting":
            expected = ExpectedAnswer((long,), task="counting")
            run.info.sample = replace(run.info.sample, reference=long, expected=expected)
    scores, *_ = tables(accuracy(gather([Source(Path("s.evprof"), runs)])))
    rows = {row[0].text: dict(zip(scores.heads, (cell.text for cell in row), strict=True)) for row in scores.rows}
    assert rows["good"]["n"] == "8"
    assert rows["good"]["right answers"].endswith(" of 4")
    assert " of " not in rows["good"]["token F1"]
    (column, _) = configurations_of(runs)
    told = accuracy_of(column)
    assert (told.to_json()["samples"], told.to_json()["judged"]) == (8, 4)
