"""What a report says of speculation: failures, break-even with document 002 beside, drafts inside the prefill."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_log import RunBook, RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.export.report.data import ReportData, Source, gather
from evprof.export.report.sections.speculation import costs, failures, hidden_drafts
from report_blocks import plots, said, tables
from scripted_engine import ScriptedEngine
from told import in_turns


@pytest.fixture(scope="module")
def runs() -> list[RunLog]:
    """The target and the draft alone, rounds, and drafts inside the prefill, five repeats of each."""
    recording = RecordLog()
    engine = ScriptedEngine(speed=400)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("target", {}),
        ("draft", {}),
        ("speculative", {}),
        ("parallel-prefill", {"hidden": 6}),
    ]
    for number, (mode, speculation) in enumerate(asked):
        request = RunRequest(
            mode,
            Sample("e.npy", "v.mp4", prompt="What?"),
            ModelChoice("draft"),
            ModelChoice("target"),
            settings=GenerationSettings(speculation=SpeculationSettings(**speculation)),
            first_run_id=1 + 10 * number,
            group_id=number,
            warmup=1,
            repeat=5,
        )
        engine.run(request, recording, threading.Event())
    book = RunBook(recording)
    book.update()
    in_turns(book.runs.values())
    return list(book.runs.values())


def data_of(runs: list[RunLog]) -> ReportData:
    return gather([Source(Path(), runs)])


def test_failures_by_kind(runs: list[RunLog]) -> None:
    section = failures(data_of(runs))
    (kinds,) = tables(section)
    assert kinds.heads[2:] == ("shifted", "surface", "content")
    rounds = [cell.text.split(" ")[0] for cell in kinds.rows[0]]
    # Ten rounds of the script: two of them accepted whole, the others fail in turn of each kind; five repeats.
    assert int(rounds[1]) == sum(map(int, rounds[2:])) > 0
    (plot,) = plots(section)
    assert len(plot.series) == 1  # hidden blocks are not among the rounds
    assert "Shifted" in said(section)


def test_break_even_beside_what_was_measured(runs: list[RunLog]) -> None:
    blocks = costs(data_of(runs))
    (table,) = tables(blocks)
    [row] = table.rows
    assert "speculative" in row[0].text
    assert row[table.heads.index("decoding, measured")].text.count("[") == 1  # with its interval
    [plot] = plots(blocks)
    predicted, measured, even = plot.series
    assert predicted.is_line
    assert len(predicted.x) == 12
    assert measured.low[0] is not None
    assert measured.y[0] is not None
    assert measured.low[0] <= measured.y[0]
    assert even.y == (1.0, 1.0)


def test_drafts_inside_the_prefill(runs: list[RunLog]) -> None:
    section = hidden_drafts(data_of(runs))
    [table] = tables(section)
    [row] = table.rows
    assert [cell.text for cell in row[4:6]] == ["6", "5"]
    assert "±" in row[1].text  # over three runs
    text = said(section)
    assert "5 of 6 hidden tokens were accepted (83 %)." in text  # three times the same
    assert "5 runs against baseline runs 2, 3, 4, 5, 6" in text
