"""The tables of a trace, described once: the heads, keys and units of their columns, for terminal, window and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from evprof.core.plain import SCHEMA_VERSION
from evprof.core.units import bytes_text, ms_from_ns, ms_text, percent_text
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.difference import DifferenceRow, TraceDifference
from evprof.metrics.traces.memory import MemoryFigures
from evprof.metrics.traces.overview import CATEGORIES

NOTHING = "–"
MOST_ALLOCATIONS = 1000
"""The largest allocations that the document lists; `allocation_count` counts all."""

MOST_CATEGORIES = 1000
"""Further categories of slices are counted together: a profiler writes a dozen."""

OTHER_CATEGORIES = "(others)"
_SHORT_NS = 99_950


def time_of(ns: float | None) -> str:
    """A time for a cell, with three digits also for kernels of a microsecond."""
    if ns is None:
        return NOTHING
    return "0" if not ns else f"{ns / 1e3:.3g} µs" if 0 < abs(ns) < _SHORT_NS else ms_text(ns / 1e6)


def share_text(share: float | None) -> str:
    return NOTHING if share is None else percent_text(share, 1)


def _bytes(count: int) -> str:
    return f"−{bytes_text(-count)}" if count < 0 else bytes_text(count) if count else "0"


def _change(ns: int) -> str:
    return f"{'+' if ns > 0 else '−' if ns < 0 else '±'}{time_of(abs(ns))}"


_TEXTS: dict[str, Callable[[Any], str]] = {
    "text": lambda value: str(value or NOTHING),
    "count": lambda value: NOTHING if value is None else f"{value:,}",
    "ratio": lambda value: NOTHING if value is None else f"{value:,.2f}",
    "flag": lambda value: NOTHING if value is None else "yes" if value else "no",
    "time": time_of,
    "change": _change,
    "share": share_text,
    "bytes": _bytes,
}


@dataclass(frozen=True)
class Column:
    """A column: its head, its key in the document, and the kind of its values.

    The values of "time" and "change" are in ns, and in ms in the document. `field` is the attribute of a record;
    without it, the attribute has the name of the key, with `_ns` in place of `_ms`.
    """

    head: str
    key: str
    kind: str
    tip: str = ""
    field: str = ""

    def value(self, record: Any) -> Any:
        """What the column sorts by. None comes last."""
        return attrgetter(self.field or _in_ns(self.key))(record)

    def text(self, record: Any) -> str:
        return _TEXTS[self.kind](self.value(record))

    def plain(self, record: Any) -> Any:
        value = self.value(record)
        return ms_from_ns(value) if self.kind in ("time", "change") and value is not None else value

    @property
    def is_text(self) -> bool:
        return self.kind == "text"


def _in_ns(key: str) -> str:
    return f"{key.removesuffix('_ms')}_ns" if key.endswith("_ms") else key


def document_row(columns: Sequence[Column], record: Any) -> dict[str, Any]:
    return {column.key: column.plain(record) for column in columns}


_INSIDE = "with the operators inside"
HOST = (
    Column("calls", "calls", "count"),
    Column("host self", "host_self_ms", "time", "time on the host without the operators inside"),
    Column("host total", "host_total_ms", "time", f"time on the host {_INSIDE}"),
)
DEVICE_TIMES = (
    Column("device self", "device_self_ms", "time", "time of the kernels that it launched itself"),
    Column("device total", "device_total_ms", "time", "time of the kernels that it and operators inside launched"),
)
DEVICE = (
    *DEVICE_TIMES,
    Column("tensor cores", "tensor_core_share", "share", "share of its own device time in kernels that use them"),
)
_NAME = Column("operator", "name", "text")
OPERATORS = (_NAME, *HOST, *DEVICE)
OPERATORS_BY_SHAPES = (_NAME, Column("input shapes", "shapes", "text"), *HOST, *DEVICE)
KERNELS = (
    Column("kernel", "name", "text"),
    Column("calls", "calls", "count"),
    Column("total", "total_ms", "time"),
    Column("mean", "mean_ms", "time"),
    Column("least", "min_ms", "time"),
    Column("most", "max_ms", "time"),
    Column("blocks per SM", "blocks_per_sm", "ratio"),
    Column("occupancy", "occupancy", "share", "estimated share of a multiprocessor's warps, by time"),
    Column("tensor cores", "uses_tensor_cores", "flag", "derived from the kernel's name"),
)
ALLOCATIONS = (
    Column("operator", "operator", "text"),
    Column("device", "device", "text"),
    Column("bytes", "bytes", "bytes"),
    Column("allocated at", "allocated_ms", "time"),
    Column("released at", "released_ms", "time"),
    Column("held for", "held_ms", "time"),
)
OPERATOR_MEMORY = (
    _NAME,
    Column("device", "device", "text"),
    Column("calls", "calls", "count"),
    Column("kept by itself", "self_increase_bytes", "bytes", "allocated less released, without the operators inside"),
    Column("kept in all", "total_increase_bytes", "bytes", f"allocated less released, {_INSIDE}"),
    Column("allocations", "self_allocations", "count", "its own"),
    Column("allocations in all", "total_allocations", "count", _INSIDE),
    Column("allocated", "self_allocated_bytes", "bytes", "by itself, whatever was released"),
    Column("allocated in all", "total_allocated_bytes", "bytes", f"{_INSIDE}, whatever was released"),
)
DEVICES = (
    Column("GPU", "device", "count"),
    Column("name", "name", "text"),
    Column("busy", "busy_share", "share", "share of the steps' time with a kernel running", "busy"),
    Column("kernels", "kernels", "count"),
    Column("time of kernels", "kernel_ms", "time"),
    Column("SM efficiency", "sm_efficiency", "share", "estimated from the launches' blocks"),
    Column("occupancy", "occupancy", "share", "estimated share of a multiprocessor's warps"),
    Column("tensor cores", "tensor_core_share", "share", "share of the kernels' time that uses them", "tensor_cores"),
)
STAGES = (
    Column("stage", "name", "text"),
    Column("host", "duration_ms", "time"),
    Column("kernels", "kernels", "count"),
    Column("time of kernels", "kernel_ms", "time"),
    Column("device", "device_ms", "time"),
)
CATEGORY = (
    Column("category", "name", "text"),
    Column("time", "ms", "time", field="ns"),
    Column("share", "share", "share"),
)
CHANGES = (
    Column("name", "name", "text"),
    *(
        Column(head, f"{side}_calls", "count", field=f"{side}.calls")
        for side, head in (("now", "calls"), ("against", "before"))
    ),
    *(
        Column(head, f"{key}_ms", "time", field=field)
        for place in ("host", "device")
        for head, key, field in (
            (f"{place} self", f"now_{place}", f"now.{place}_self_ns"),
            ("before", f"against_{place}", f"against.{place}_self_ns"),
        )
    ),
    Column("host change", "host_self_delta_ms", "change"),
    Column("device change", "device_self_delta_ms", "change"),
)


def trace_document(path: str, analysis: TraceAnalysis, difference: TraceDifference | None = None) -> dict[str, Any]:
    """The JSON document of `evprof show`: times in ms, sizes in bytes. `difference` is to the trace of --against."""
    seen, zero = analysis.overview, analysis.start_ns
    steps = [] if seen is None else seen.steps
    return {
        "schema_version": SCHEMA_VERSION,
        "path": path,
        "entries": analysis.trace.entries,
        "duration_ms": ms_from_ns(analysis.end_ns - zero),
        "wall_ms": None if seen is None else ms_from_ns(seen.wall_ns),
        "categories": [] if seen is None else [document_row(CATEGORY, one) for one in seen.categories],
        "steps": [
            {
                "name": step.name,
                "start_ms": ms_from_ns(step.start_ns - steps[0].start_ns),
                "duration_ms": ms_from_ns(step.duration_ns),
                "categories": {name: ms_from_ns(ns) for name, ns in zip(CATEGORIES, step.category_ns, strict=True)},
            }
            for step in steps
        ],
        "devices": [] if seen is None else [document_row(DEVICES, use) for use in seen.devices],
        "operators": [document_row(OPERATORS, row) for row in analysis.operators],
        "operators_by_shapes": [document_row(OPERATORS_BY_SHAPES, row) for row in analysis.operators_by_shapes],
        "kernels": [document_row(KERNELS, row) for row in analysis.kernels],
        "memory": _memory(analysis.memory, zero),
        "stages": [
            {"start_ms": ms_from_ns(stage.start_ns - zero)} | document_row(STAGES, stage) for stage in analysis.stages
        ],
        "difference": None if difference is None else _difference(difference),
        "problems": list(analysis.problems),
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
        "allocation_count": found.allocation_count,
        "largest_allocations": [
            {
                "device": one.device,
                "operator": one.operator or None,
                "bytes": one.bytes,
                "allocated_ms": since_ms(one.allocated_ns),
                "released_ms": since_ms(one.released_ns),
            }
            for one in largest
        ],
        "operators": [document_row(OPERATOR_MEMORY, row) for row in found.operators],
    }


def _difference(found: TraceDifference) -> dict[str, Any]:
    return {
        "wall_ms": ms_from_ns(found.wall_ns),
        "against_wall_ms": ms_from_ns(found.against_wall_ns),
        "operators": [_changed(row) for row in found.operators],
    }


def _changed(row: DifferenceRow) -> dict[str, Any]:
    sides = {"now": row.now, "against": row.against}
    return (
        {"name": row.name}
        | {name: document_row((*HOST, *DEVICE_TIMES), side) for name, side in sides.items()}
        | document_row(CHANGES[-2:], row)
    )


def trace_summary(analysis: TraceAnalysis) -> dict[str, Any]:
    """A trace for `evprof inspect`: entries, their time span, slices by category, steps, and where the time went."""
    seen = analysis.overview
    counts = analysis.slice_counts
    listed = dict(list(counts.items())[:MOST_CATEGORIES])
    rest = sum(counts.values()) - sum(listed.values())
    devices = () if seen is None else seen.devices
    return {
        "entries": analysis.trace.entries,
        "duration_ms": ms_from_ns(analysis.end_ns - analysis.start_ns) if len(analysis.trace.slices) else None,
        "categories": listed | ({OTHER_CATEGORIES: rest} if rest else {}),
        "steps": sum(bool(step.name) for step in seen.steps) if seen is not None else 0,
        "recorded": list(analysis.trace.head.recorded),
        "wall_ms": None if seen is None else ms_from_ns(seen.wall_ns),
        "time_ms": {} if seen is None else {one.name: ms_from_ns(one.ns) for one in seen.categories},
        "devices": [use.name or f"GPU {use.device}" for use in devices],
        "kernels": sum(use.kernels for use in devices),
        "allocations": analysis.memory.allocation_count,
    }
