"""What a trace says of itself besides its entries: base of its times, options, devices, its place among many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evprof.core.rows.trace_columns import TraceDevice, TraceHead

_OPTIONS = ("record_shapes", "with_stack", "with_modules", "with_flops", "profile_memory")

HEAD_KEYS = frozenset(
    {
        "schemaVersion",
        "baseTimeNanoseconds",
        "traceName",
        "host_name",
        "distributedInfo",
        "deviceProperties",
        *_OPTIONS,
    }
)
"""What is kept of the file's top level."""

_MOST_DEVICES = 64
_LONGEST_TEXT = 200


def head_of(told: Mapping[str, Any]) -> TraceHead:
    """From the values by key; what is missing or odd is left out."""
    distributed = told.get("distributedInfo")
    place = distributed if isinstance(distributed, dict) else {}
    devices = told.get("deviceProperties")
    return TraceHead(
        base_ns=_int(told.get("baseTimeNanoseconds")) or 0,
        schema_version=_int(told.get("schemaVersion")),
        name=_str(told.get("traceName")),
        host=_str(told.get("host_name")),
        rank=_int(place.get("rank")),
        world_size=_int(place.get("world_size")),
        recorded=tuple(option for option in _OPTIONS if told.get(option)),
        devices=tuple(
            _device(place, device)
            for place, device in enumerate(devices[:_MOST_DEVICES] if isinstance(devices, list) else [])
            if isinstance(device, dict)
        ),
    )


def _device(place: int, told: Mapping[str, Any]) -> TraceDevice:
    major, minor = _int(told.get("computeMajor")), _int(told.get("computeMinor"))
    number = _int(told.get("id"))
    return TraceDevice(
        place if number is None else number,
        _str(told.get("name")),
        _int(told.get("totalGlobalMem")),
        None if major is None or minor is None else (major, minor),
        _int(told.get("numSms")),
    )


def _int(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and abs(value) < 2**62 else None


def _str(value: object) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""
