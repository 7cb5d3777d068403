"""A traced run knows its trace: their clocks meet at the stages, so that any stretch of the run has its operators."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from evprof.core.recording import RecordLog
from evprof.core.records import STAGES
from evprof.core.request import RunRequest, TraceSettings
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.traces.reading import read_trace
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.clock import trace_clock


@pytest.fixture
def traced(engine: Any, sample: Any, tmp_path: Path) -> tuple[RunLog, TraceAnalysis]:
    request = RunRequest(
        "speculative",
        sample,
        ModelChoice("tiny-draft"),
        ModelChoice("tiny-target"),
        GenerationSettings(max_new_tokens=12),
        trace=TraceSettings(str(tmp_path), 4),
    )
    recording = RecordLog()
    engine.run(request, recording, threading.Event())
    book = RunBook(recording)
    book.update()
    run = next(run for run in book.runs.values() if run.info.profiled)
    return run, TraceAnalysis(read_trace(run.info.trace_path))


def test_the_clocks_of_a_run_and_its_trace_meet(traced: Any) -> None:
    run, analysis = traced
    clock = trace_clock(run, analysis)
    assert {stage.name for stage in analysis.stages} == set(STAGES)
    assert clock.pairs == 2 * len(run.stages()) == 2 * len(analysis.stages)
    assert clock.zero_ns == run.info.start_ns
    spans = sorted(run.stages(), key=lambda span: span.host_start_ns)
    for span, stage in zip(spans, analysis.stages, strict=True):
        assert span.name == stage.name
        # A stage's name stands in the trace between the two times that the run noted.
        assert clock.run_ns(stage.start_ns) >= span.host_start_ns - clock.uncertainty_ns
        assert clock.run_ns(stage.end_ns) <= span.host_end_ns + clock.uncertainty_ns
        assert clock.trace_ns(clock.run_ns(stage.start_ns)) == stage.start_ns
    shortest = min(stage.end_ns - stage.start_ns for stage in analysis.stages)
    assert clock.uncertainty_ns < max(shortest, 20_000_000)


def test_a_stretch_of_the_run_has_its_operators(traced: Any) -> None:
    run, analysis = traced
    clock = trace_clock(run, analysis)
    calls = {row.name: row.calls for row in analysis.operators}
    ends = run.info.start_ns - 10**9, run.info.end_ns + 10**9
    whole = analysis.operators_between(*map(clock.trace_ns, ends))
    assert {row.name: row.calls for row in whole} == calls
    prefill = next(span for span in run.stages() if span.name == "prefill" and span.role == "target")
    inside = analysis.operators_between(*map(clock.trace_ns, (prefill.host_start_ns, prefill.host_end_ns)))
    assert {row.name for row in inside} & {"aten::linear", "aten::scaled_dot_product_attention"}
    assert sum(row.calls for row in inside) < sum(calls.values())
