"""OpenTelemetry metrics, read back with OpenTelemetry's own classes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cell_runs import Cell
from evprof.core.run_info import FAILED, SetupFacts
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import FIGURES
from evprof.export.files import write_export
from evprof.export.otlp import BOUNDS
from evprof.export.report.data import Source
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.figures.stages import END_TO_END

NAMED = {
    "gen_ai.client.operation.duration": "s",
    "gen_ai.client.token.usage": "{token}",
    "gen_ai.server.time_per_output_token": "s",
    "gen_ai.server.time_to_first_token": "s",
}
"""What the conventions call ours, with their units."""


def read(path: Path) -> list[Any]:
    """Every line as the collector takes it: unknown fields are refused."""
    metrics = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    return [json_format.Parse(line, metrics.MetricsData()) for line in path.read_text().splitlines()]


def metrics_of(data: Any) -> dict[str, Any]:
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "evprof"
    return {metric.name: metric for metric in scope.metrics}


def attributes(point: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in point.attributes}


def exported(runs: list[RunLog], path: Path, **more: Any) -> dict[str, Any]:
    write_export([Source(Path("a.evprof"), runs)], "otlp", path, **more)
    (data,) = read(path)
    return metrics_of(data)


def test_every_figure_is_there_under_its_name(runs: list[RunLog], tmp_path: Path) -> None:
    found = exported(runs, tmp_path / "m.jsonl")
    measured = {key for key in FIGURES if any(READERS[key](run, run.info.role, END_TO_END) is not None for run in runs)}
    assert set(found) == {FIGURES[key].otel or f"evprof.{key}" for key in measured}
    assert {name: found[name].unit for name in NAMED} == NAMED
    assert {figure.otel for figure in FIGURES.values() if figure.otel} == set(NAMED) == set(BOUNDS)


def test_histograms_hold_the_runs_of_a_configuration(tmp_path: Path) -> None:
    cell = Cell(is_imported=False, stages={"prefill": 40.0, "decode": 60.0}, samples=5, prompt=600)
    runs = cell.runs()
    (point,) = exported(runs, tmp_path / "m.jsonl")["gen_ai.client.operation.duration"].histogram.data_points
    values = [READERS["total_ms"](run, "target", END_TO_END) / 1000 for run in runs]
    assert (point.count, point.sum) == (5, pytest.approx(sum(values)))
    assert (point.min, point.max) == (pytest.approx(min(values)), pytest.approx(max(values)))
    bounds = list(point.explicit_bounds)
    assert bounds == sorted(bounds)
    inside = [0] * (len(bounds) + 1)
    for value in values:
        inside[next((place for place, bound in enumerate(bounds) if value <= bound), len(bounds))] += 1
    assert list(point.bucket_counts) == inside
    told = attributes(point)
    assert told["gen_ai.request.model"] == "llava-hf/llava-1.5-7b-hf"
    assert (told["gen_ai.operation.name"], told["evprof.mode"], told["evprof.cell"]) == (
        "generate_content",
        "target",
        "cell",
    )


def test_tokens_in_and_out_are_one_metric_told_apart(runs: list[RunLog], tmp_path: Path) -> None:
    points = exported(runs, tmp_path / "m.json")["gen_ai.client.token.usage"].histogram.data_points
    found = {
        (attributes(point)["evprof.group_id"], attributes(point)["gen_ai.token.type"], point.sum) for point in points
    }
    assert (3, "output", len(runs[2].tokens)) in found
    assert (3, "input", runs[2].info.lengths["target"].input) in found


def test_gauges_have_a_point_for_each_run(runs: list[RunLog], tmp_path: Path) -> None:
    points = exported(runs, tmp_path / "m.jsonl")["evprof.decode_ms"].gauge.data_points
    values = {attributes(point)["evprof.run_id"]: point.as_double for point in points}
    assert values == {run.run_id: pytest.approx(READERS["decode_ms"](run, run.info.role, END_TO_END)) for run in runs}


def test_what_stands_in_no_figure_is_left_out_and_told(tmp_path: Path) -> None:
    warm, cold, failed, warmup = Cell(is_imported=False, samples=4).runs()
    warmup.info.warmup = True
    cold.info.setup = {"target": SetupFacts(weights_ms=900.0)}
    failed.info.status = FAILED
    told: list[str] = []
    found = exported([warm, cold, failed, warmup], tmp_path / "m.jsonl", tell=told.append)
    (point,) = found["gen_ai.client.operation.duration"].histogram.data_points
    assert point.count == 1
    assert told == ["3 runs that stand in no figure left out: warm-ups, profiled, cold or unfinished."]
    # A configuration that has cold runs alone tells of these.
    (point,) = exported([cold], tmp_path / "c.jsonl")["gen_ai.client.operation.duration"].histogram.data_points
    assert point.count == 1


def test_a_line_for_each_session_and_times_since_1970(runs: list[RunLog], tmp_path: Path) -> None:
    first = RunLog(replace(runs[0].info, started_at="2026-01-02T03:04:05+00:00"))
    for block in runs[0].blocks("spans"):
        first.take(*block)
    sources = [Source(Path(name), [first]) for name in ("a.evprof", "b.evprof")]
    (path,) = write_export(sources, "otlp", tmp_path / "m.jsonl", many=True)
    assert len(read(path)) == 2
    named = [json.loads(line)["resourceMetrics"][0]["resource"]["attributes"] for line in path.read_text().splitlines()]
    assert [{one["key"]: one["value"] for one in each}["evprof.session"]["stringValue"] for each in named] == [
        "a.evprof",
        "b.evprof",
    ]
    point = metrics_of(read(path)[0])["gen_ai.client.operation.duration"].histogram.data_points[0]
    assert point.start_time_unix_nano == 1_767_323_045_000_000_000 < point.time_unix_nano
