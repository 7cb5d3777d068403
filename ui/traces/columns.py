"""The columns of the trace window's tables: what each figure is called, sorts by and reads like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evprof.core.units import bytes_text, ms_text, percent_text
from ui.traces.column import Column

NOTHING = "–"
_SHORT_NS = 99_950


def _time(head: str, name: str, tip: str = "") -> Column:
    return Column(head, _field(name), lambda record: time_of(getattr(record, name)), tip)


def _count(head: str, name: str, tip: str = "") -> Column:
    return Column(head, _field(name), lambda record: f"{getattr(record, name):,}", tip)


def _share(head: str, name: str, tip: str = "") -> Column:
    return Column(head, _field(name), lambda record: share_text(getattr(record, name)), tip)


def _bytes(head: str, name: str, tip: str = "") -> Column:
    return Column(head, _field(name), lambda record: signed_bytes(getattr(record, name)), tip)


def _text(head: str, name: str, tip: str = "") -> Column:
    return Column(head, _field(name), lambda record: getattr(record, name) or NOTHING, tip, is_text=True)


def _number(head: str, name: str, digits: int = 0) -> Column:
    def written(record: Any) -> str:
        value = getattr(record, name)
        return NOTHING if value is None else f"{value:,.{digits}f}"

    return Column(head, _field(name), written)


def _field(name: str) -> Callable[[Any], Any]:
    return lambda record: getattr(record, name)


def time_of(ns: int | None) -> str:
    """A time for a cell: three digits of kernels that take a microsecond too."""
    if ns is None:
        return NOTHING
    return "0" if not ns else f"{ns / 1e3:.3g} µs" if ns < _SHORT_NS else ms_text(ns / 1e6)


def share_text(share: float | None) -> str:
    """A share of 0…1 for a cell."""
    return NOTHING if share is None else percent_text(share, 1)


def signed_bytes(count: int) -> str:
    """A change of memory for a cell."""
    return f"−{bytes_text(-count)}" if count < 0 else bytes_text(count) if count else "0"


HOST = (
    _count("calls", "calls"),
    _time("host self", "host_self_ns", "time on the host without the operators inside"),
    _time("host total", "host_total_ns", "time on the host with the operators inside"),
)
DEVICE = (
    _time("device self", "device_self_ns", "time of the kernels that it launched itself"),
    _time("device total", "device_total_ns", "time of the kernels that it and the operators inside launched"),
)
_CORES = _share("tensor cores", "tensor_core_share", "share of its own device time in kernels that use tensor cores")

OPERATORS = (_text("operator", "name"), *HOST, *DEVICE, _CORES)
OPERATORS_BY_SHAPES = (_text("operator", "name"), _text("input shapes", "shapes"), *HOST, *DEVICE, _CORES)
OPERATORS_BY_STACK = (_text("operator", "name"), _text("call stack", "stack"), *HOST, *DEVICE, _CORES)


def without_device(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Columns of a table for a trace in which nothing ran on a device."""
    return tuple(column for column in columns if column not in (*DEVICE, _CORES))


_LAUNCHED = (
    _count("calls", "calls"),
    _time("total", "total_ns"),
    _time("mean", "mean_ns"),
    _time("least", "min_ns"),
    _time("most", "max_ns"),
    _number("blocks per SM", "blocks_per_sm", 2),
    _share("occupancy", "occupancy", "estimated share of a multiprocessor's warps, by time"),
    Column(
        "tensor cores",
        lambda row: row.uses_tensor_cores,
        lambda row: "yes" if row.uses_tensor_cores else "no",
        "told by the kernel's name",
    ),
)
KERNELS = (_text("kernel", "name"), *_LAUNCHED)
KERNELS_BY_LAUNCH = (
    _text("kernel", "name"),
    _text("operator", "operator"),
    _text("grid", "grid"),
    _text("block", "block"),
    _number("registers", "registers"),
    _number("shared memory", "shared_memory"),
    *_LAUNCHED,
)

ALLOCATIONS = (
    _text("operator", "operator"),
    _text("inside of", "within"),
    Column("device", lambda one: one.device, lambda one: one.device),
    _bytes("bytes", "bytes"),
    _time("allocated at", "allocated_ns"),
    _time("released at", "released_ns"),
    Column(
        "held for",
        lambda one: None if None in (one.allocated_ns, one.released_ns) else one.released_ns - one.allocated_ns,
        lambda one: (
            NOTHING if None in (one.allocated_ns, one.released_ns) else time_of(one.released_ns - one.allocated_ns)
        ),
    ),
)
OPERATOR_MEMORY = (
    _text("operator", "name"),
    Column("device", lambda row: row.device, lambda row: row.device),
    _count("calls", "calls"),
    _bytes("kept by itself", "self_increase_bytes", "allocated less released, without the operators inside"),
    _bytes("kept in all", "total_increase_bytes", "allocated less released, with the operators inside"),
    _count("allocations", "self_allocations", "its own"),
    _bytes("allocated", "self_allocated_bytes", "by itself, whatever was released"),
    _bytes("allocated in all", "total_allocated_bytes", "with the operators inside, whatever was released"),
)


def _side(head: str, side: str, name: str, text: Callable[[int], str]) -> Column:
    return Column(
        head,
        lambda row: getattr(getattr(row, side), name),
        lambda row: text(getattr(getattr(row, side), name)),
    )


def _change(head: str, name: str) -> Column:
    def written(row: Any) -> str:
        delta = getattr(row, name)
        return "0" if not delta else f"{'+' if delta > 0 else '−'}{time_of(abs(delta))}"

    return Column(head, lambda row: getattr(row, name), written)


DIFFERENCES = (
    _text("name", "name"),
    _side("calls", "now", "calls", lambda count: f"{count:,}"),
    _side("calls before", "against", "calls", lambda count: f"{count:,}"),
    _side("host self", "now", "host_self_ns", time_of),
    _side("before", "against", "host_self_ns", time_of),
    _change("host change", "host_self_delta_ns"),
    _side("device self", "now", "device_self_ns", time_of),
    _side("before", "against", "device_self_ns", time_of),
    _change("device change", "device_self_delta_ns"),
)
