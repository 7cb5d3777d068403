"""HolisticTraceAnalysis opens our traces: every slice with its length, every run as a step."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evprof.core.run_log import RunLog
from evprof.export.files import write_export
from evprof.export.report.data import Source
from evprof.metrics.figures.stages import wall_ms
from trace_check import TraceCheck

pytestmark = [pytest.mark.logs_warnings, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def analysis() -> Any:
    return pytest.importorskip("hta.trace_analysis").TraceAnalysis


@pytest.mark.parametrize("name", ["demo.pt.trace.json", "demo.pt.trace.json.gz"])
def test_it_finds_every_slice_and_every_run(runs: list[RunLog], analysis: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_export([Source(tmp_path / "demo.evprof", runs)], "chrome", path)
    opened = analysis(trace_files={0: name}, trace_dir=str(tmp_path), include_last_profiler_step=True)
    frame = opened.t.get_trace(0)
    names = opened.t.symbol_table.get_sym_table()
    found = Counter(names[number] for number in frame["name"])
    slices = Counter(entry["name"] for entry in TraceCheck(path).slices)
    assert found == slices + Counter(f"ProfilerStep#{number}" for number in range(1, len(runs) + 1))
    steps = sorted(
        (int(names[number].removeprefix("ProfilerStep#")), length)
        for number, length in zip(frame["name"], frame["dur"], strict=True)
        if names[number].startswith("ProfilerStep#")
    )
    assert [length / 1000 for _, length in steps] == pytest.approx([wall_ms(run) for run in runs], abs=0.002)
