"""A list of many repeats: one more run costs work for its configuration, not for every line."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from evprof.core.recording import RecordLog
from evprof.core.run_log import RunBook
from evprof.metrics.speculation.payoff import payoff_of, payoff_over
from evprof.run.requests import demo_requests
from scripted_engine import ScriptedEngine
from ui.run_facts.figures import interval_text
from ui.runs.run_entries import RunEntries


@pytest.fixture
def book() -> RunBook:
    """Five runs of the target alone and five speculative ones, in turns."""
    recording = RecordLog()
    for number in range(1, 11):
        mode = "target" if number % 2 else "speculative"
        request = replace(demo_requests()[0], mode=mode, repeat=1, warmup=0, first_run_id=number, group_id=number)
        ScriptedEngine(speed=2000.0, is_warm=True).run(request, recording, threading.Event())
    book = RunBook(recording)
    book.update()
    return book


def test_repeats_are_weighed_once_and_as_each_would_be(book: RunBook, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(runs: Any, *rest: Any) -> Any:
        asked.append(len(runs))
        return payoff_over(runs, *rest)

    monkeypatch.setattr("evprof.metrics.speculation.payoff.payoff_over", counted)
    entries, some = RunEntries(), {number: run for number, run in book.runs.items() if number < 10}
    list(entries.lines(some))
    assert asked == [4]
    list(entries.lines(some))
    assert asked == [4]
    found = {slot.run_ids[0]: slot.make().figure for slot in entries.slots(book.runs)}
    assert asked == [4, 5]
    for number in (2, 4, 6, 8, 10):
        alone = payoff_of(book.runs[number], book.runs.values())
        assert alone is not None
        assert alone.whole is not None
        assert found[number] == f"{alone.whole.ratio:.2f}×"


def test_the_ends_of_an_interval_can_be_told_apart() -> None:
    """The lane of differences said `21.8× [21.8, 21.8]`."""
    assert interval_text((0.713, 0.829)) == "[0.71, 0.83]"
    assert interval_text((21.78, 21.83)) == "[21.78, 21.83]"
    assert interval_text((1.0001, 1.0007)) == "[1.0001, 1.0007]"
    assert interval_text((1.6363636, 1.6363636000000002)) == "[1.64, 1.64]"
