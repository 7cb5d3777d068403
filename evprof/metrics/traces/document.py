"""A trace's figures as the JSON document of `evprof show`: times in ms, sizes in bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from evprof.core.plain import SCHEMA_VERSION
from evprof.core.units import ms_from_ns
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.difference import DifferenceRow, TraceDifference
from evprof.metrics.traces.memory import MemoryFigures
from evprof.metrics.traces.modules import ModuleRow
from evprof.metrics.traces.operators import KernelRow, OperatorRow
from evprof.metrics.traces.overview import CATEGORIES, TraceOverview

MOST_ALLOCATIONS = 1000
"""The largest allocations that are listed; `allocation_count` tells of all."""


def trace_document(path: str, analysis: TraceAnalysis, difference: TraceDifference | None = None) -> dict[str, Any]:
    """The document; `difference` is to the trace named with --against."""
    seen = analysis.overview
    return {
        "schema_version": SCHEMA_VERSION,
        "path": path,
        "entries": analysis.trace.entries,
        "duration_ms": ms_from_ns(analysis.end_ns - analysis.start_ns),
        "wall_ms": None if seen is None else ms_from_ns(seen.wall_ns),
        "categories": [] if seen is None else _categories(seen),
        "steps": [] if seen is None else _steps(seen),
        "devices": [] if seen is None else _devices(seen),
        "operators": [_operator(row) for row in analysis.operators],
        "operators_by_shapes": [_operator(row) | {"shapes": row.shapes} for row in analysis.operators_by_shapes],
        "operators_by_stack": [_operator(row) | {"stack": row.stack} for row in analysis.operators_by_stack],
        "kernels": [_kernel(row) for row in analysis.kernels],
        "kernel_launches": [_launch(row) for row in analysis.kernels_by_launch],
        "memory": _memory(analysis.memory, analysis.start_ns),
        "modules": [_module(row) for row in analysis.modules],
        "stages": [
            {
                "name": stage.name,
                "start_ms": ms_from_ns(stage.start_ns - analysis.start_ns),
                "duration_ms": ms_from_ns(stage.end_ns - stage.start_ns),
                "kernels": stage.kernels,
                "kernel_ms": ms_from_ns(stage.kernel_ns),
                "device_ms": ms_from_ns(stage.device_ns),
            }
            for stage in analysis.stages
        ],
        "advice": [{"sentence": one.sentence, "option": one.option, "share": one.share} for one in analysis.advice],
        "difference": None if difference is None else _difference(difference),
        "problems": list(analysis.problems),
    }


def _categories(seen: TraceOverview) -> list[dict[str, Any]]:
    return [{"name": one.name, "ms": ms_from_ns(one.ns), "share": one.share} for one in seen.categories]


def _steps(seen: TraceOverview) -> list[dict[str, Any]]:
    return [
        {
            "name": step.name,
            "start_ms": ms_from_ns(step.start_ns - seen.start_ns),
            "duration_ms": ms_from_ns(step.duration_ns),
            "categories": {name: ms_from_ns(ns) for name, ns in zip(CATEGORIES, step.category_ns, strict=True)},
        }
        for step in seen.steps
    ]


def _devices(seen: TraceOverview) -> list[dict[str, Any]]:
    return [
        {
            "device": use.device,
            "name": use.name,
            "busy_share": use.busy,
            "kernels": use.kernels,
            "kernel_ms": ms_from_ns(use.kernel_ns),
            "sm_efficiency": use.sm_efficiency,
            "occupancy": use.occupancy,
            "tensor_core_share": use.tensor_cores,
        }
        for use in seen.devices
    ]


def _plain(row: Any, *names: str) -> dict[str, Any]:
    """Fields of a row by their names; `x_ms` is its field `x_ns` in ms."""
    return {
        name: ms_from_ns(getattr(row, f"{name.removesuffix('_ms')}_ns")) if name.endswith("_ms") else getattr(row, name)
        for name in names
    }


_TIMES = ("host_self_ms", "host_total_ms", "device_self_ms", "device_total_ms")


def _operator(row: OperatorRow) -> dict[str, Any]:
    eligible = {"tensor_core_eligible": row.is_eligible, "tensor_core_share": row.tensor_core_share}
    return _plain(row, "name", "calls", *_TIMES) | eligible


def _kernel(row: KernelRow) -> dict[str, Any]:
    return (
        _plain(row, "name", "calls", "total_ms")
        | {"mean_ms": row.mean_ns / 1e6}
        | _plain(row, "min_ms", "max_ms", "blocks_per_sm", "occupancy", "uses_tensor_cores")
    )


def _launch(row: KernelRow) -> dict[str, Any]:
    return _kernel(row) | {
        "operator": row.operator or None,
        "grid": row.grid or None,
        "block": row.block or None,
        "registers": row.registers,
        "shared_memory": row.shared_memory,
    }


def _memory(found: MemoryFigures, zero_ns: int) -> dict[str, Any]:
    def since_ms(time_ns: int | None) -> float | None:
        return None if time_ns is None else ms_from_ns(time_ns - zero_ns)

    largest = sorted(found.allocations, key=lambda one: -one.bytes)[:MOST_ALLOCATIONS]
    return {
        "devices": [
            {
                "device": curve.device,
                "peak_bytes": curve.peak_bytes,
                "peak_at_ms": since_ms(curve.peak_at_ns),
                "peak_reserved_bytes": curve.peak_reserved_bytes,
                "changes": len(curve.times_ns),
            }
            for curve in found.curves
        ],
        "allocation_count": len(found.allocations),
        "largest_allocations": [
            {
                "device": one.device,
                "operator": one.operator or None,
                "within": one.within or None,
                "bytes": one.bytes,
                "allocated_ms": since_ms(one.allocated_ns),
                "released_ms": since_ms(one.released_ns),
            }
            for one in largest
        ],
        "operators": [asdict(row) for row in found.operators],
    }


def _module(row: ModuleRow) -> dict[str, Any]:
    own = _plain(row, "name", "calls", "operators", *_TIMES)
    return own | {"modules": [_module(child) for child in row.children]}


def _difference(found: TraceDifference) -> dict[str, Any]:
    return _plain(found, "wall_ms", "against_wall_ms") | {
        "operators": _changes(found.operators),
        "modules": _changes(found.modules),
    }


def _changes(rows: Iterable[DifferenceRow]) -> list[dict[str, Any]]:
    return [
        {"name": row.name}
        | {name: _plain(side, "calls", *_TIMES) for name, side in (("now", row.now), ("against", row.against))}
        | _plain(row, "host_self_delta_ms", "device_self_delta_ms")
        for row in rows
    ]
