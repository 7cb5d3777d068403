"""A traced run: a run of its own, stages and steps nested in the trace, and readable by TensorBoard's plugin."""

from __future__ import annotations

import gzip
import json
import re
import threading
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from evprof.core.recording import RecordLog
from evprof.core.records import STAGES
from evprof.core.request import RunRequest, TraceSettings
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice

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
    recording = RecordLog()
    engine.run(request, recording, stop or threading.Event())
    book = RunBook(recording)
    book.update()
    return list(book.runs.values())


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


@pytest.mark.parametrize(("mode", "count"), [("side-by-side", 2), ("speculative", 1)])
def test_each_answer_of_a_mode_is_traced_into_its_own_folder(
    engine: Any, sample: Any, tmp_path: Path, *, mode: str, count: int
) -> None:
    runs = traced(engine, sample, mode, tmp_path, tokens=2)
    paths = [run.info.trace_path for run in runs if run.info.profiled]
    assert len(paths) == len({Path(path).parent for path in paths}) == count
    names = {name for path in paths for name, _, _ in noted(path)}
    assert set(STAGES) <= names
    assert ("verify" in names) == (mode == "speculative")


def test_a_folder_that_cannot_be_made_fails_the_trace_in_a_sentence(engine: Any, sample: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    runs = traced(engine, sample, "target", tmp_path / "file")
    assert [run.info.status for run in runs] == ["finished", "failed"]
    assert "trace folder" in runs[1].info.error


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


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=300) as answer:
        return json.load(answer)
