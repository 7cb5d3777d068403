"""Figures of traces where torch-tb-profiler has none, or none that can be: arithmetic, odd traces, stages."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.loaders.traces.reading import read_trace
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.difference import trace_difference
from evprof.metrics.traces.overview import levels, shared_out, union
from evprof.metrics.traces.roles import COMMUNICATION, KERNEL, OTHER, slice_roles
from made_traces import GEMM, MadeTrace

STRETCHES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=8)


def ends_of(stretches: list[tuple[int, int]]) -> tuple[Any, Any]:
    starts = np.array([start for start, _ in stretches], dtype=np.int64)
    return starts, starts + np.array([length for _, length in stretches], dtype=np.int64)


def moments(stretches: list[tuple[int, int]]) -> set[int]:
    return {moment for start, length in stretches for moment in range(start, start + length)}


@given(STRETCHES, st.integers(0, 50), st.integers(0, 50))
def test_a_union_is_what_any_stretch_covers(stretches: Any, start: int, end: int) -> None:
    found = union(*ends_of(stretches))
    assert found.total_ns == len(moments(stretches))
    assert found.within_ns(start, end) == len(moments(stretches) & set(range(start, end)))
    assert (found.starts[1:] > found.ends[:-1]).all()


@given(
    st.lists(STRETCHES, min_size=1, max_size=4), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1)
)
def test_each_moment_belongs_to_the_first_layer_that_covers_it(layers: Any, steps: Any) -> None:
    bounds = [(start, start + length) for start, length in steps]
    found = shared_out([union(*ends_of(layer)) for layer in layers], bounds)
    for row, (start, end) in zip(found.tolist(), bounds, strict=True):
        left = set(range(start, end))
        expected = []
        for layer in layers:
            expected.append(len(left & moments(layer)))
            left -= moments(layer)
        assert row == [*expected, len(left)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10), st.integers(1, 5)), min_size=1, max_size=8))
def test_levels_add_what_runs_at_once(stretches: Any) -> None:
    starts, ends = ends_of([(start, length) for start, length, _ in stretches])
    edges, level = levels(starts, ends, np.array([value for _, _, value in stretches], dtype=float))
    total = float((np.diff(edges) * level[:-1]).sum())
    assert total == pytest.approx(sum(length * value for _, length, value in stretches))


@contextmanager
def made(folder: Path, **options: Any) -> Iterator[tuple[MadeTrace, Callable[[], TraceAnalysis]]]:
    text = io.StringIO()
    trace = MadeTrace(text, start_ns=1_000_000_000, **options)

    def close() -> TraceAnalysis:
        trace.close()
        path = folder / "made.pt.trace.json"
        path.write_text(text.getvalue(), encoding="utf-8")
        return TraceAnalysis(read_trace(path))

    yield trace, close


def entries(folder: Path, *found: dict[str, Any]) -> TraceAnalysis:
    path = folder / "a.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return TraceAnalysis(read_trace(path))


def scope(name: str, start: float, length: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": length, **more}


def test_kernels_of_which_nothing_is_told(tmp_path: Path) -> None:
    """They count; what was not recorded is None, not what another kernel has."""
    told = {"device": 0, "grid": [7, 1, 1], "blocks per SM": 0.5, "est. achieved occupancy %": 30}
    bare = {**scope("bare", 0, 5), "cat": "kernel"}
    alone = entries(tmp_path, bare)
    (row,) = alone.kernels
    assert (row.name, row.calls, row.blocks_per_sm, row.occupancy) == ("bare", 1, None, None)
    both = entries(tmp_path, bare, {**scope("told", 9, 5), "cat": "kernel", "args": told})
    assert {(row.name, row.blocks_per_sm) for row in both.kernels} == {("bare", None), ("told", 0.5)}


def test_what_is_unknown_is_not_a_no(tmp_path: Path) -> None:
    """Names of kernels say nothing of AMD's matrix cores; an unknown category is in no table, and counted."""
    kernel = {**scope("Cijk_Ailk", 0, 5, args={"device": 0}), "cat": "kernel"}
    path = tmp_path / "amd.json"
    events = [kernel, {**scope("MatMulV2", 9, 4), "cat": "npu"}, scope("nccl:all_to_all", 20, 4)]
    path.write_text(json.dumps({"deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X"}], "traceEvents": events}))
    analysis = TraceAnalysis(read_trace(path))
    assert analysis.kernels[0].uses_tensor_cores is None
    assert analysis.problems == ("1 of its entries have a category that evprof does not know and are in no table.",)
    roles = slice_roles(analysis.trace.texts, analysis.trace.slices.categories, analysis.trace.slices.names)
    assert roles.tolist() == [KERNEL, OTHER, COMMUNICATION]


def test_operators_inside_each_other(tmp_path: Path) -> None:
    """Only children of one name are one with their parent; what crosses its neighbour is left out and told."""
    analysis = entries(
        tmp_path,
        scope("a", 0, 100),
        scope("a", 10, 50),
        scope("b", 20, 10),
        scope("c", 90, 20),
        {**scope("b", 0, 7), "tid": 2},
    )
    assert {row.name: (row.calls, row.host_self_ns, row.host_total_ns) for row in analysis.operators} == {
        "a": (1, 90_000, 100_000),
        "b": (2, 17_000, 17_000),
    }
    (problem,) = analysis.problems
    assert problem.startswith("1 scope ")


def test_operators_of_a_stretch_are_those_that_began_in_it(tmp_path: Path) -> None:
    with made(tmp_path) as (trace, close):
        for name in ("aten::a", "aten::b", "aten::b"):
            with trace.operator(name) as own:
                trace.launch("k", 50_000, own)
        analysis = close()
    starts = analysis.tree.starts.tolist()
    assert [row.name for row in analysis.operators_between(starts[0], starts[1])] == ["aten::a"]
    (row,) = analysis.operators_between(starts[1], starts[2] + 1)
    assert (row.name, row.calls, row.device_self_ns) == ("aten::b", 2, 100_000)
    assert analysis.operators_between(starts[2] + 1, starts[2] + 2) == ()


def test_a_stage_has_what_it_launched_whenever_that_ran(tmp_path: Path) -> None:
    with made(tmp_path) as (trace, close):
        with trace.annotation("vision"), trace.operator("aten::mm") as own:
            trace.launch(GEMM, 9_000_000, own)
        with trace.annotation("decode"):
            trace.copy("DtoH", 64, 2_000)
            trace.synchronize()
        analysis = close()
    vision, decode = analysis.stages
    assert (vision.name, vision.kernels, vision.kernel_ns, vision.device_ns) == ("vision", 1, 9_000_000, 9_000_000)
    assert vision.end_ns - vision.start_ns < 100_000
    assert (decode.name, decode.kernels, decode.device_ns) == ("decode", 0, 2_000)


def test_memory_that_is_given_out_twice_or_never_back(tmp_path: Path) -> None:
    with made(tmp_path) as (trace, close):
        with trace.operator("aten::zeros"):
            with trace.operator("aten::empty"):
                trace.memory(100, 1)
            trace.memory(50, 1)  # the release before it was missed
        trace.memory(-50, 1)
        trace.memory(-7, 9)  # taken before the trace began
        analysis = close()
    rows = [
        (one.operator, one.bytes, one.allocated_ns is None, one.released_ns is None)
        for one in analysis.memory.allocations
    ]
    assert rows == [
        ("aten::empty", 100, False, True),
        ("aten::zeros", 50, False, False),
        ("", 7, True, False),
    ]
    (curve,) = analysis.memory.curves
    assert curve.allocated_bytes.tolist() == [100, 150, 100, 93]
    assert (curve.peak_bytes, curve.peak_at_ns) == (150, curve.times_ns[1])


def test_a_trace_of_nothing(tmp_path: Path) -> None:
    analysis = entries(tmp_path)
    assert (analysis.overview, analysis.operators, analysis.kernels) == (None, (), ())
    assert (analysis.memory.curves, analysis.memory.allocation_count, analysis.stages) == ((), 0, ())
    assert trace_difference(analysis, analysis).operators == ()
