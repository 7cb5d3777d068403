"""What torch-tb-profiler and HolisticTraceAnalysis find in our traces: all operators, every run as a step."""

from __future__ import annotations

import copy
import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evprof.core.run_log import RunLog
from evprof.export.files import write_export
from evprof.export.report.data import Source
from evprof.metrics.figures.stages import unattributed_ms, wall_ms
from trace_check import TraceCheck

pytestmark = [
    pytest.mark.leaves_threads,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture(scope="module")
def profile_of() -> Any:
    """Reads a trace as the plugin does. What it finds wrong it logs, and a log of warnings fails any test here."""
    data = pytest.importorskip("torch_tb_profiler.profiler.data")
    generator = pytest.importorskip("torch_tb_profiler.profiler.run_generator")
    consts = pytest.importorskip("torch_tb_profiler.consts")

    def read(path: Path) -> Any:
        match = consts.WORKER_PATTERN.match(path.name)
        profile = data.RunProfileData.parse(match.group(1), match.group(2), str(path), str(path.parent))
        return profile, generator.RunGenerator("worker", None, profile).generate_run_profile()

    return read


def nodes(tree: Any) -> int:
    """Operators in a call tree, its root apart."""
    return sum(1 + nodes(child) for child in tree.children)


@pytest.mark.parametrize("name", ["demo.pt.trace.json", "host_12.1700000000000000000.pt.trace.json.gz"])
def test_the_plugin_sees_every_slice_of_a_session(runs: list[RunLog], profile_of, tmp_path, name: str) -> None:
    path = tmp_path / name
    write_export([Source(tmp_path / "demo.evprof", runs)], "chrome", path)
    check = TraceCheck(path)
    assert check.problems == []
    profile, views = profile_of(path)
    seen = Counter(event.type for event in profile.events)
    spans = sum(len(run.spans) for run in runs)
    assert seen == {"Operator": spans, "ProfilerStep": 3}
    assert spans == check.counts["stage"] + check.counts["part"]
    # None fell out of the call trees, which take nothing that cuts across.
    assert sum(nodes(tree) for tree in profile.tid2tree.values()) == spans + 3
    assert profile.steps_names == ["1", "2", "3"]
    assert [view.name for view in views.views] == ["overall", "operator", "trace"]


def test_a_step_lasts_as_its_run_and_leaves_what_no_stage_covers(runs: list[RunLog], profile_of, tmp_path) -> None:
    path = tmp_path / "s.pt.trace.json"
    write_export([Source(tmp_path / "demo.evprof", runs)], "chrome", path)
    profile, _ = profile_of(path)
    for run, costs in zip(runs, profile.steps_costs, strict=True):
        *_, busy_us, other_us, total_us = costs.costs
        assert total_us / 1000 == pytest.approx(wall_ms(run))
        assert other_us / 1000 == pytest.approx(unattributed_ms(run), abs=1e-3)
        assert busy_us + other_us == pytest.approx(total_us)


def test_the_head_is_pytorchs(runs: list[RunLog], tmp_path: Path) -> None:
    path = tmp_path / "s.pt.trace.json.gz"
    first = copy.deepcopy(runs[0])
    first.info.started_at = "2026-01-02T03:04:05+00:00"
    write_export([Source(tmp_path / "demo.evprof", [first, *runs[1:]])], "chrome", path)
    document = json.loads(gzip.decompress(path.read_bytes()))
    assert document["schemaVersion"] == 1
    assert document["distributedInfo"]["rank"] == 0
    assert document["deviceProperties"] == []
    assert document["baseTimeNanoseconds"] == 1_767_323_045_000_000_000
    steps = [entry for entry in document["traceEvents"] if entry["name"].startswith("ProfilerStep#")]
    assert {entry["cat"] for entry in steps} == {"user_annotation"}
    assert [re.sub(r"\D", "", entry["name"]) for entry in steps] == ["1", "2", "3"]


@pytest.fixture(scope="module")
def analysis() -> Any:
    return pytest.importorskip("hta.trace_analysis").TraceAnalysis


@pytest.mark.logs_warnings
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["demo.pt.trace.json", "demo.pt.trace.json.gz"])
def test_holistic_analysis_finds_every_slice_and_every_run(runs: list[RunLog], analysis, tmp_path, name: str) -> None:
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
