"""Peaks of stages: read between the stages, from the allocator's own figures, and what that takes is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

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


def test_a_gpus_peaks_are_asked_for_once_a_stage_and_never_flattened(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    peaks = iter([(100, 200), (50, 400), (70, 300), (20, 300)])

    def nested(device: torch.device) -> dict[str, Any]:
        asked.append(str(device))
        allocated, reserved = next(peaks)
        return {"allocated_bytes": {"all": {"peak": allocated}}, "reserved_bytes": {"all": {"peak": reserved}}}

    def flattened(*_: Any) -> None:
        raise AssertionError("the statistics are flattened")

    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", nested)
    monkeypatch.setattr(torch.cuda, "memory_stats", flattened)
    monkeypatch.setattr(torch.cuda.memory, "memory_stats", flattened)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: None)
    memory = StageMemory([torch.device("cuda:1"), torch.device("cpu"), torch.device("cuda:0")])
    for name in ("vision", "prefill"):
        with memory.stage(name):
            pass
    facts = memory.facts(7)
    assert asked == ["cuda:0", "cuda:1"] * 2
    assert facts.by_stage == {"vision": 150, "prefill": 90}
    assert (facts.peak_allocated_bytes, facts.peak_reserved_bytes) == (150, 600)
