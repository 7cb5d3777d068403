"""Our figures of a trace are torch-tb-profiler's own, on a recorded trace and on two in the published layout.

Where they differ on purpose (docs/traces.md says why), a test shows both.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from evprof.loaders.traces.reading import read_trace
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.overview import CATEGORIES
from made_traces import ATTENTION, GEMM, MadeTrace, decode_layer


@dataclass
class TensorBoardFigures:
    """Its data and its profile of one trace; times in µs, exact where the tables it shows are rounded."""

    data: Any
    profile: Any

    @property
    def category_us(self) -> list[float]:
        """The mean step's time in the order of our categories."""
        return [float(value) for value in self.data.avg_costs.costs[: len(CATEGORIES)]]

    @property
    def step_us(self) -> list[tuple[str, list[float]]]:
        """Each step's name and times."""
        costs = [[float(value) for value in step.costs[: len(CATEGORIES)]] for step in self.data.steps_costs]
        return list(zip(self.data.steps_names, costs, strict=False))

    @property
    def memory_by_operator(self) -> dict[tuple[str, str], list[int]]:
        """By device and name: self increase, self size, self count, increase, size, count; the calls it counts."""
        found = self.profile.memory_snapshot.get_memory_statistics(self.profile.tid2tree)
        return {(device, name): values for device, rows in found.items() for name, values in rows.items()}

    @property
    def curves(self) -> dict[str, list[list[float]]]:
        """Time since its zero in µs, allocated and reserved bytes, by device."""
        return self.profile.get_memory_curve("us", "B", patch_for_step_plot=False)["rows"]

    @property
    def allocations(self) -> dict[str, list[list[Any]]]:
        """Operator, bytes, time of allocation and of release, duration, by device."""
        return self.profile.get_memory_events(time_metric="us", memory_metric="B")["rows"]


def tensorboard_figures(path: Path, folder: Path) -> TensorBoardFigures:
    """Runs its parser and its generator; what they warn of is their own affair."""
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator

    logging.getLogger("pytorch_profiler").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = RunProfileData.parse("worker", "1", str(path), str(folder))
        return TensorBoardFigures(data, RunGenerator("worker", "1", data).generate_run_profile())


EARLY_NS = 4_000_000_000
"""Where made traces begin: there a float64 of microseconds is exact to a thousandth of a nanosecond."""

HALF_NS = 0.0005
"""Half a nanosecond in µs: ours are whole."""


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


def recorded(path: Path, *, with_stack: bool = False) -> Path:
    """A CPU's trace with shapes, memory and steps, and modules if asked."""
    model = torch.nn.Sequential(Block(32), Block(32), torch.nn.Linear(32, 8))
    experimental = torch._C._profiler._ExperimentalConfig(verbose=True)
    with (
        torch.inference_mode(),
        profile(
            activities=[ProfilerActivity.CPU],
            record_shapes=True,
            profile_memory=True,
            with_stack=with_stack,
            with_modules=with_stack,
            experimental_config=experimental,
        ) as running,
    ):
        for step in range(3):
            with record_function(f"ProfilerStep#{step}"):
                model(torch.randn(4, 32)).softmax(-1).sum()
    running.export_chrome_trace(str(path))
    return path


def written(path: Path, *, runtime: str = "Runtime", stacks: bool = False, graphs: bool = False) -> Path:
    """A GPU's trace: steps of layers, copies, memory, kernels of nobody; and modules with call stacks if asked."""
    with path.open("w", encoding="utf-8") as file:
        trace = MadeTrace(file, start_ns=EARLY_NS, runtime=runtime)
        trace.launch(GEMM, 9_000)  # before the first step, of no operator
        with trace.operator("aten::zeros", [[]]) as own:
            trace.copy("", 4_096, 2_000, own, is_set=True)
        for step in range(3):
            with trace.operator(f"ProfilerStep#{step}"):
                _step(trace, step, stacks=stacks, graphs=graphs)
            trace.wait(5_000)
        trace.close()
    return path


def _step(trace: MadeTrace, step: int, *, stacks: bool, graphs: bool) -> None:
    with trace.operator("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
        trace.wait(20_000)
    with trace.operator("aten::to", [[4, 8]]) as own:
        trace.memory(1 << 20, 0x1000 + step)
        trace.copy("HtoD", 1 << 20, 30_000, own)
    for layer in range(2):
        if stacks:
            with trace.module(f"Layer_{layer}", layer) as outer, trace.module("Mlp_0", 10 + layer, outer):
                decode_layer(trace, 100 + step)
                with trace.operator(
                    "aten::addmm", [[2], [2, 2], [2, 2]], stack=f"model.py({layer}): forward;run.py(1): main"
                ) as own:
                    trace.memory(512, 0x9000 + 16 * step + layer)
                    trace.launch(GEMM, 3_000, own)
        else:
            decode_layer(trace, 100 + step)
    if graphs:
        trace.launch(GEMM, 4_000, call="cudaGraphLaunch", kernels=3)
    with trace.operator("aten::add_", [[2], [2]]), trace.operator("aten::add_", [[2], [2]]) as own:
        trace.launch("void add_kernel<float>", 2_000, own, grid=(1, 1, 1), block=(64, 1, 1), blocks_per_sm=0.01)
    trace.memory(-(1 << 20), 0x1000 + step)
    trace.synchronize()


TRACES: dict[str, Callable[[Path], Path]] = {
    "recorded on a CPU": recorded,
    "of a GPU": written,
    "with modules and stacks": lambda path: written(path, stacks=True),
    "recorded with modules": lambda path: recorded(path, with_stack=True),
}


@pytest.fixture(scope="module", params=TRACES)
def both(request: Any, tmp_path_factory: Any) -> tuple[TraceAnalysis, TensorBoardFigures]:
    folder = tmp_path_factory.mktemp("trace")
    path = TRACES[request.param](folder / "worker.1.pt.trace.json")
    return TraceAnalysis(read_trace(path)), tensorboard_figures(path, folder)


def us(ns: float) -> float:
    return ns / 1000


def near(value_us: float, parts: int = 1) -> Any:
    """A sum of so many of its times: recorded ones are floats of some thousand seconds, exact to a nanosecond."""
    return pytest.approx(value_us, abs=0.002 * parts + HALF_NS, rel=1e-9)


def test_time_by_category_and_step(both: Any) -> None:
    ours, theirs = both
    seen = ours.overview
    parts = len(ours.trace.slices)
    assert [us(one.ns) / len(seen.steps) for one in seen.categories] == [
        near(value, parts) for value in theirs.category_us
    ]
    assert sum(one.ns for one in seen.categories) == seen.wall_ns
    assert [step.name for step in seen.steps] == [name for name, _ in theirs.step_us]
    for step, (_, costs) in zip(seen.steps, theirs.step_us, strict=True):
        assert [us(ns) for ns in step.category_ns] == [near(value, parts) for value in costs]
        assert sum(step.category_ns) == step.duration_ns


def test_use_of_devices(both: Any) -> None:
    ours, theirs = both
    metrics = theirs.data.gpu_metrics_parser
    assert [use.device for use in ours.overview.devices] == sorted(metrics.gpu_ids)
    for use in ours.overview.devices:
        assert use.busy == pytest.approx(metrics.gpu_utilization[use.device], rel=1e-6)
        assert use.sm_efficiency == pytest.approx(
            metrics.avg_approximated_sm_efficiency_per_device[use.device], rel=1e-6
        )
        assert use.occupancy == pytest.approx(metrics.avg_occupancy_per_device[use.device] / 100, rel=1e-6)


def check_operators(ours: Any, theirs: Any) -> None:
    assert len(ours) == len(theirs)
    for agg in theirs:
        row = ours[agg.name, agg.input_shape]
        assert row.calls == agg.calls
        assert us(row.host_total_ns) == near(agg.host_duration, agg.calls)
        assert us(row.host_self_ns) == near(agg.self_host_duration, 8 * agg.calls)
        assert us(row.device_total_ns) == near(agg.device_duration, 8 * agg.calls)
        assert us(row.device_self_ns) == near(agg.self_device_duration, 8 * agg.calls)


def test_operators_by_name(both: Any) -> None:
    ours, theirs = both
    named = theirs.data.op_list_groupby_name
    shapes = {agg.name: agg.input_shape for agg in named}
    check_operators({(row.name, shapes[row.name]): row for row in ours.operators}, named)


def test_operators_by_input_shape(both: Any) -> None:
    ours, theirs = both
    check_operators(
        {(row.name, row.shapes): row for row in ours.operators_by_shapes}, theirs.data.op_list_groupby_name_input
    )


def test_kernels_by_name(both: Any) -> None:
    ours, theirs = both
    if not theirs.data.has_kernel:
        assert ours.kernels == ()
        return
    rows = {row.name: row for row in ours.kernels}
    assert len(rows) == len(theirs.data.kernel_stat)
    for name, stat in theirs.data.kernel_stat.iterrows():
        row = rows[name]
        assert row.calls == stat["count"]
        assert us(row.total_ns) == near(stat["sum"])
        assert us(row.mean_ns) == near(stat["mean"])
        assert (us(row.max_ns), us(row.min_ns)) == (near(stat["max"]), near(stat["min"]))
        assert row.blocks_per_sm == pytest.approx(stat["blocks_per_sm"])
        assert row.occupancy == pytest.approx(stat["occupancy"] / 100)
        assert row.uses_tensor_cores == stat["tc_used"] or name == ATTENTION


def test_memory_by_operator(both: Any) -> None:
    ours, theirs = both
    rows = {(row.device.replace(" ", ""), row.name): row for row in ours.memory.operators}
    found = theirs.memory_by_operator
    assert rows.keys() == found.keys()
    for key, values in found.items():
        row = rows[key]
        assert [
            *(row.self_increase_bytes, row.self_allocated_bytes, row.self_allocations),
            *(row.total_increase_bytes, row.total_allocated_bytes, row.total_allocations),
        ] == values[:6]


def test_memory_over_time(both: Any) -> None:
    ours, theirs = both
    zero = theirs.profile.profiler_start_ts
    curves = {curve.device.replace(" ", ""): curve for curve in ours.memory.curves}
    assert curves.keys() == theirs.curves.keys()
    for device, points in theirs.curves.items():
        curve = curves[device]
        assert curve.allocated_bytes.tolist() == [point[1] for point in points]
        assert curve.reserved_bytes.tolist() == [point[2] for point in points]
        assert [us(ns) for ns in curve.times_ns.tolist()] == [near(point[0] + zero) for point in points]
    peaks = {key[1] if key[0] else -1: value for key, value in theirs.profile.memory_snapshot.get_peak_memory().items()}
    assert sorted(curve.peak_bytes for curve in curves.values()) == sorted(peaks.values())


def test_allocations_and_who_made_them(both: Any) -> None:
    """Its times are rounded to a hundredth of a microsecond."""
    ours, theirs = both
    zero = theirs.profile.profiler_start_ts
    # It names the operator around one that only makes an empty tensor, too: "aten::zeros (aten::empty)".
    found = [
        (device, name.rpartition(" (")[2].rstrip(")"), *rest)
        for device, rows in theirs.allocations.items()
        for name, *rest in (row[:4] for row in rows)
    ]
    mine = [
        (
            one.device.replace(" ", ""),
            one.operator or "<unknown>",
            one.bytes,
            *(None if at is None else us(at) - zero for at in (one.allocated_ns, one.released_ns)),
        )
        for one in ours.memory.allocations
    ]
    assert len(mine) == len(found)
    for own, other in zip(by_time(mine), by_time(found), strict=True):
        assert own == (*other[:3], *(at and pytest.approx(at, abs=0.02) for at in other[3:]))


def by_time(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: [round(next(at for at in row[3:] if at is not None)), row[:3]])


def test_the_devices_copy_of_an_annotation_is_no_work_of_the_cpu(tmp_path: Path) -> None:
    """It takes a step's mirror on the device (`gpu_user_annotation`) for a second step, of no time, and breaks off."""
    path = tmp_path / "a.1.pt.trace.json"
    written(path)
    content = json.loads(path.read_text())
    steps = [entry for entry in content["traceEvents"] if entry["name"].startswith("ProfilerStep#")]
    for entry in steps:
        entry["cat"] = "user_annotation"
    content["traceEvents"] += [{**entry, "cat": "gpu_user_annotation", "pid": 0, "tid": 7} for entry in steps]
    before = TraceAnalysis(read_trace(path)).overview
    path.write_text(json.dumps(content))
    seen = TraceAnalysis(read_trace(path)).overview
    assert (seen.categories, seen.steps) == (before.categories, before.steps)
    with pytest.raises(ZeroDivisionError):
        tensorboard_figures(path, tmp_path)


def test_time_is_not_counted_twice_where_a_category_covers_everything(tmp_path: Path) -> None:
    """Once nothing of the steps is left, it begins anew: the sum is more than the wall."""
    path = tmp_path / "a.1.pt.trace.json"
    entries: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 100, "args": {}},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0, "dur": 100, "args": {"device": 0}},
    ]
    path.write_text(json.dumps({"traceEvents": entries}))
    assert sum(tensorboard_figures(path, tmp_path).category_us) == 200
    seen = TraceAnalysis(read_trace(path)).overview
    assert [(one.name, one.ns) for one in seen.categories if one.ns] == [("Kernel", 100_000)]
    assert seen.wall_ns == 100_000


def test_all_calls_of_an_operator_that_touched_memory_are_counted(tmp_path: Path) -> None:
    """It counts calls only as far as scopes lead to them that touched memory."""
    path = written(tmp_path / "a.1.pt.trace.json", stacks=True)
    ours = TraceAnalysis(read_trace(path))
    calls = {row.name: row.calls for row in ours.operators}
    theirs = tensorboard_figures(path, tmp_path).memory_by_operator
    for row in ours.memory.operators:
        assert row.calls == calls[row.name] >= theirs[row.device.replace(" ", ""), row.name][6]


def test_kernels_of_replayed_graphs_are_told(tmp_path: Path) -> None:
    analysis = TraceAnalysis(read_trace(written(tmp_path / "a.json", graphs=True)))
    (problem,) = analysis.problems
    assert "9 kernels" in problem
    assert "CUDA graphs" in problem
    assert sum(use.kernels for use in analysis.overview.devices) == sum(row.calls for row in analysis.kernels)
