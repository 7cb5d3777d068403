"""The columns of the trace window's tables: head, value to sort by, and text of each figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from evprof.core.units import bytes_text, ms_text, percent_text

NOTHING = "–"
_SHORT_NS = 99_950


@dataclass(frozen=True)
class Column:
    """One column: its head, what it sorts by (None: last), and its text; texts stand left, numbers right."""

    head: str
    value: Callable[[Any], Any]
    text: Callable[[Any], str]
    tip: str = ""
    is_text: bool = False


def time_of(ns: int | None) -> str:
    """A time for a cell, with three digits for kernels that take a microsecond too."""
    if ns is None:
        return NOTHING
    return "0" if not ns else f"{ns / 1e3:.3g} µs" if ns < _SHORT_NS else ms_text(ns / 1e6)


def share_text(share: float | None) -> str:
    """A share of 0…1 for a cell."""
    return NOTHING if share is None else percent_text(share, 1)


def _count(count: int | None) -> str:
    return NOTHING if count is None else f"{count:,}"


def _ratio(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio:,.2f}"


def _bytes(count: int) -> str:
    return f"−{bytes_text(-count)}" if count < 0 else bytes_text(count) if count else "0"


def _column(head: str, field: str, written: Callable[[Any], str], tip: str = "") -> Column:
    """A column of one attribute of a record."""
    value = attrgetter(field)
    return Column(head, value, lambda record: written(value(record)), tip)


def _text(head: str, field: str) -> Column:
    value = attrgetter(field)
    return Column(head, value, lambda record: str(value(record) or NOTHING), is_text=True)


HOST = (
    _column("calls", "calls", _count),
    _column("host self", "host_self_ns", time_of, "time on the host without the operators inside"),
    _column("host total", "host_total_ns", time_of, "time on the host with the operators inside"),
)
_CORES = "share of its own device time in kernels that use tensor cores"
DEVICE = (
    _column("device self", "device_self_ns", time_of, "time of the kernels that it launched itself"),
    _column("device total", "device_total_ns", time_of, "time of the kernels that it and operators inside launched"),
    _column("tensor cores", "tensor_core_share", share_text, _CORES),
)
OPERATORS = (_text("operator", "name"), *HOST, *DEVICE)
OPERATORS_BY_SHAPES = (_text("operator", "name"), _text("input shapes", "shapes"), *HOST, *DEVICE)
OPERATORS_BY_STACK = (_text("operator", "name"), _text("call stack", "stack"), *HOST, *DEVICE)

_LAUNCHED = (
    _column("calls", "calls", _count),
    _column("total", "total_ns", time_of),
    _column("mean", "mean_ns", time_of),
    _column("least", "min_ns", time_of),
    _column("most", "max_ns", time_of),
    _column("blocks per SM", "blocks_per_sm", _ratio),
    _column("occupancy", "occupancy", share_text, "estimated share of a multiprocessor's warps, by time"),
    _column(
        "tensor cores", "uses_tensor_cores", lambda uses: "yes" if uses else "no", "derived from the kernel's name"
    ),
)
KERNELS = (_text("kernel", "name"), *_LAUNCHED)
KERNELS_BY_LAUNCH = (
    _text("kernel", "name"),
    _text("operator", "operator"),
    _text("grid", "grid"),
    _text("block", "block"),
    _column("registers", "registers", _count),
    _column("shared memory", "shared_memory", _count),
    *_LAUNCHED,
)


def _held_ns(one: Any) -> int | None:
    return None if None in (one.allocated_ns, one.released_ns) else one.released_ns - one.allocated_ns


ALLOCATIONS = (
    _text("operator", "operator"),
    _text("inside of", "within"),
    _column("device", "device", str),
    _column("bytes", "bytes", _bytes),
    _column("allocated at", "allocated_ns", time_of),
    _column("released at", "released_ns", time_of),
    Column("held for", _held_ns, lambda one: time_of(_held_ns(one))),
)
OPERATOR_MEMORY = (
    _text("operator", "name"),
    _column("device", "device", str),
    _column("calls", "calls", _count),
    _column("kept by itself", "self_increase_bytes", _bytes, "allocated less released, without the operators inside"),
    _column("kept in all", "total_increase_bytes", _bytes, "allocated less released, with the operators inside"),
    _column("allocations", "self_allocations", _count, "its own"),
    _column("allocated", "self_allocated_bytes", _bytes, "by itself, whatever was released"),
    _column("allocated in all", "total_allocated_bytes", _bytes, "with the operators inside, whatever was released"),
)
