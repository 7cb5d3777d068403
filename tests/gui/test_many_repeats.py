"""A list of many repeats: each line is weighed by its own runs, and only when a run that counts comes or changes."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from evprof.core.recording import RecordLog
from evprof.core.run_log import RunBook
from evprof.metrics.speculation.payoff import Payoff, payoff_over
from evprof.run.requests import demo_requests
from scripted_engine import ScriptedEngine
from ui.run_facts.figures import interval_text
from ui.runs.run_entries import RunEntries


def test_a_line_is_weighed_by_exactly_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same request, run twice and once more: every line said the speed-up over all seven runs."""
    recording, engine, first = RecordLog(), ScriptedEngine(speed=2000.0, is_warm=True), 1
    for group, (mode, repeat) in enumerate((("target", 3), ("speculative", 3), ("speculative", 3), ("speculative", 1))):
        request = replace(demo_requests()[0], mode=mode, repeat=repeat, warmup=0)
        engine.run(replace(request, first_run_id=first, group_id=group), recording, threading.Event())
        first += repeat
    book = RunBook(recording)
    book.update()
    asked: list[list[int]] = []

    def called(runs: Any, others: Any) -> Payoff | None:
        asked.append([run.run_id for run in runs])
        found = payoff_over(runs, others)
        if found is None or found.whole is None:
            return found
        whole = replace(found.whole, ratio=len(asked) + 0.5, interval=(1.4, 2.6))
        return replace(found, measured={found.basis: whole})

    monkeypatch.setattr("evprof.metrics.speculation.payoff.payoff_over", called)
    entries = RunEntries()
    lines = entries.lines(book.runs)
    assert asked == [[7, 8, 9], [4, 5, 6]]
    assert [(line.figure, line.second[:2], line.chip) for line in lines[1:3]] == [
        ("1.50×", "×3", "vs 3 runs ▾"),
        ("2.50×", "×3", "vs 3 runs ▾"),
    ]
    assert [line.tip.splitlines()[-1] for line in lines[1:3]] == [
        "figure: speed-up, mean over runs 7, 8, 9",
        "figure: speed-up, mean over runs 4, 5, 6",
    ]
    assert (lines[0].figure, lines[0].role) == ("?", "")
    assert entries.lines(book.runs) == lines
    assert len(asked) == 2, "nothing is computed again while no run counts that did not"


def test_the_ends_of_an_interval_can_be_told_apart() -> None:
    """The lane of differences said `21.8× [21.8, 21.8]`."""
    assert interval_text((0.713, 0.829)) == "[0.71, 0.83]"
    assert interval_text((21.78, 21.83)) == "[21.78, 21.83]"
    assert interval_text((1.0001, 1.0007)) == "[1.0001, 1.0007]"
    assert interval_text((1.6363636, 1.6363636000000002)) == "[1.64, 1.64]"
