"""Profiled runs: NVTX ranges and torch traces."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import engines.engine
from engines.engine import plan_runs
from evprof.core.errors import USAGE, UserError
from evprof.core.records import STAGES
from evprof.core.request import RunRequest, TraceSettings
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from run_logs import runs_of


def request_for(mode: str, sample: Any, **more: Any) -> RunRequest:
    draft, target = ModelChoice("tiny-draft"), ModelChoice("tiny-target")
    return RunRequest(mode, sample, draft, target, GenerationSettings(max_new_tokens=5), **more)


def carried_out(engine: Any, request: RunRequest) -> list[RunLog]:
    return runs_of(engine, request)


def test_ranges_need_a_gpu(engine: Any, sample: Any) -> None:
    with pytest.raises(UserError, match=r"^--nvtx needs a model on a CUDA device") as refused:
        carried_out(engine, request_for("target", sample, nvtx=True))
    assert refused.value.exit_code == USAGE


def test_profiled_runs_follow_the_measured_ones_and_are_marked(sample: Any) -> None:
    request = request_for("side-by-side", sample, nvtx=True)
    plans = list(plan_runs(request, lambda _: True))
    assert [plan.extra for plan in plans] == ["", "", "ranges", "ranges"]
    assert [plan.profiled for plan in plans] == [False] * 2 + [True] * 2
    assert [plan.run_id for plan in plans] == [1, 2, 3, 4]


class Ranges:
    """NVTX's ranges: names as they are opened, by thread, and how many are open."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.open: dict[int, int] = {}

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        thread = threading.get_ident()
        self.names.append(name)
        self.open[thread] = self.open.get(thread, 0) + 1
        try:
            yield
        finally:
            self.open[thread] -= 1


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> Ranges:
    found = Ranges()
    monkeypatch.setattr(torch.cuda.nvtx, "range", found.range)
    monkeypatch.setattr(engines.engine, "has_cuda", lambda _: True)
    return found


@pytest.mark.parametrize(("mode", "step"), [("target", "token"), ("speculative", "round"), ("parallel-prefill", "")])
def test_stages_rounds_and_tokens_are_ranges(mode: str, step: str, engine: Any, sample: Any, ranges: Ranges) -> None:
    plain, looked = carried_out(engine, request_for(mode, sample, nvtx=True))
    assert (plain.info.profiled, looked.info.profiled) == (False, True)
    assert looked.info.status == "finished"
    assert set(STAGES) <= set(ranges.names)
    assert set(ranges.open.values()) == {0}
    steps = [name for name in ranges.names if step and name.startswith(f"{step} ")]
    assert steps == [f"{step} {index}" for index in range(len(steps))]
    assert len(steps) >= bool(step)
    if mode == "target":
        assert len(steps) == len(looked.tokens) - 1
    if mode == "parallel-prefill":
        assert len(ranges.open) == 2  # the draft's thread has its own


FILE_NAME = re.compile(r"[^.]+_\d+\.\d+\.pt\.trace\.json\.gz\Z")


def traced(engine: Any, sample: Any, mode: str, folder: Path, *, tokens: int = 4, stop: Any = None) -> list[RunLog]:
    request = RunRequest(
        mode,
        sample,
        ModelChoice("tiny-draft"),
        ModelChoice("tiny-target"),
        GenerationSettings(max_new_tokens=12),
        trace=TraceSettings(str(folder), tokens),
    )
    return runs_of(engine, request, stop)


def noted(path: str) -> list[tuple[str, float, float]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    found = [event for event in events if event.get("cat") == "user_annotation"]
    return sorted(((e["name"], e["ts"], e["ts"] + e["dur"]) for e in found), key=lambda part: part[1])


def test_the_trace_is_a_run_of_its_own_with_nested_stages_and_steps(engine: Any, sample: Any, tmp_path: Path) -> None:
    runs = traced(engine, sample, "target", tmp_path)
    assert [(run.info.profiled, len(run.tokens), run.info.status) for run in runs] == [
        (False, 12, "finished"),
        (True, 5, "finished"),
    ]
    assert runs[0].info.trace_path is None
    path = Path(runs[1].info.trace_path)
    assert path.parent.parent == tmp_path
    assert FILE_NAME.match(path.name)
    spans = noted(str(path))
    named = {name: (start, end) for name, start, end in spans}
    assert set(STAGES) <= set(named)
    assert [name for name, _, _ in spans if name.startswith("ProfilerStep#")] == [f"ProfilerStep#{n}" for n in range(5)]
    for _, start, end in spans:
        for _, other_start, other_end in spans:
            assert (
                end <= other_start
                or other_end <= start
                or (start <= other_start and other_end <= end)
                or (other_start <= start and end <= other_end)
            )
    for stage in STAGES[:4]:
        assert named["ProfilerStep#0"][0] <= named[stage][0]
        assert named[stage][1] <= named["ProfilerStep#0"][1]
    for step in range(1, 5):
        assert named["decode"][0] <= named[f"ProfilerStep#{step}"][0]


def test_the_tensorboard_plugin_reads_overview_operators_and_trace(engine: Any, sample: Any, tmp_path: Path) -> None:
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator

    path = traced(engine, sample, "target", tmp_path)[1].info.trace_path
    data = RunProfileData.parse("worker", "1", path, str(tmp_path))
    profile = RunGenerator("worker", "1", data).generate_run_profile()
    assert {"Overview", "Operator", "Trace"} <= {view.display_name for view in profile.views}
    assert [row[0] for row in profile.overview["steps"]["rows"]] == ["0", "1", "2", "3", "4"]
    operators = {row["name"] for row in profile.operation_table_by_name["data"]}
    assert {"aten::linear", "aten::scaled_dot_product_attention"} & operators
