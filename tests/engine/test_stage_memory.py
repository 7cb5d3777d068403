"""Peaks of stages: read between the stages, from the allocator's own figures, and what that takes is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock
from evprof.core.recording import RecordLog
from evprof.core.records import STAGES
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice


@pytest.mark.parametrize("mode", ["target", "side-by-side", "speculative", "parallel-prefill"])
def test_no_stage_contains_the_reading_of_its_memory(
    mode: str, engine: Any, sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks: list[StageClock] = []
    opened, begin, end = StageClock.__init__, StageMemory._begin, StageMemory._end
    inside: list[bool] = []

    def make(self: StageClock, *words: Any, **named: Any) -> None:
        opened(self, *words, **named)
        clocks.append(self)

    def look() -> None:
        # A draft beside the target has a clock of its own, made after the run's.
        inside.append(next(clock for clock in clocks if clock.run_id == clocks[-1].run_id).is_inside)

    monkeypatch.setattr(StageClock, "__init__", make)
    monkeypatch.setattr(StageMemory, "_begin", lambda self: (look(), begin(self)))
    monkeypatch.setattr(StageMemory, "_end", lambda self, name: (end(self, name), look()))
    log = RecordLog()
    settings = GenerationSettings(max_new_tokens=4)
    request = RunRequest(mode, sample, ModelChoice("tiny-draft"), ModelChoice("tiny-target"), settings)
    engine.run(request, log, threading.Event())
    book = RunBook(log)
    book.update()
    assert {run.info.status for run in book.runs.values()} == {"finished"}
    assert len(inside) >= 2 * len(STAGES)
    assert not any(inside)
    assert all(run.info.memory.measuring_ms > 0 for run in book.runs.values())
