"""One entry of a trace, and how a piece of its list becomes entries: fast as Kineto writes it, patiently otherwise.

msgspec takes typed fields and passes over all others without making anything of them; what it refuses (NaN, control
characters, broken UTF-8, fields of odd kinds) is read once more by Python's own reader.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from evprof.core.rows.trace_columns import NONE, TraceDevice, TraceHead

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
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < 2**62 else None


def _str(value: object) -> str:
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""


NOTHING = msgspec.Raw(b"")
"""A table or list that was not written; others are kept as the text they are."""

_LONGEST_NUMBER = 40
_ODD_NUMBERS = re.compile(
    rb"(?<=[:\[,])\s*(?:N/A|[-+]?nan(?:\([^)]*\))?|[-+]?inf(?:inity)?)\s*(?=[,}\]])", re.IGNORECASE
)
"""As C++ prints what is no number, where only a value can stand."""


class Arguments(
    msgspec.Struct,
    gc=False,
    rename={
        "external_id": "External id",
        "older_external_id": "external id",
        "index": "Ev Idx",
        "shapes": "Input Dims",
        "older_shapes": "Input dims",
        "stack": "Call stack",
        "python_id": "Python id",
        "python_parent": "Python parent id",
        "module": "Python module id",
        "registers": "registers per thread",
        "shared_memory": "shared memory",
        "blocks_per_sm": "blocks per SM",
        "occupancy": "est. achieved occupancy %",
        "address": "Addr",
        "allocation": "Bytes",
        "allocated": "Total Allocated",
        "reserved": "Total Reserved",
        "device_type": "Device Type",
        "device_id": "Device Id",
    },
):
    """What is read of an entry's `args`."""

    external_id: Any = NONE
    older_external_id: Any = NONE
    correlation: Any = NONE
    index: Any = NONE
    shapes: msgspec.Raw = NOTHING
    older_shapes: msgspec.Raw = NOTHING
    stack: str | None = None
    python_id: Any = None
    python_parent: Any = NONE
    module: Any = NONE
    device: Any = None
    stream: Any = NONE
    grid: msgspec.Raw = NOTHING
    block: msgspec.Raw = NOTHING
    registers: Any = NONE
    shared_memory: Any = NONE
    blocks_per_sm: Any = math.nan
    occupancy: Any = math.nan
    bytes: Any = NONE
    address: Any = NONE
    allocation: Any = 0
    allocated: Any = NONE
    reserved: Any = NONE
    device_type: Any = NONE
    device_id: Any = NONE
    name: Any = None
    labels: Any = None


class TraceEntry(msgspec.Struct, gc=False):
    """What is read of an entry."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = 0
    id: Any = NONE
    args: Arguments | None = None


_FAST: Callable[[bytes], list[TraceEntry]] = msgspec.json.Decoder(list[TraceEntry]).decode
_RAW = {field.encode_name for field in msgspec.structs.fields(Arguments) if field.type is msgspec.Raw}
_FIELDS = {field.encode_name: field.name for field in msgspec.structs.fields(Arguments)}


def quick_entries(text: bytes) -> list[TraceEntry] | None:
    """The entries between two borders of the list; None where something is unusual, or the borders are none."""
    try:
        return _FAST(b"[%b]" % text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def with_numbers(text: bytes) -> bytes:
    """With what C++ writes for no number as null."""
    return _ODD_NUMBERS.sub(b"null", text)


def entry_of(value: object) -> TraceEntry | None:
    """An entry from what Python's reader made of it; None if it is no table."""
    if not isinstance(value, dict):
        return None
    fields: dict[str, Any] = {name: _text(value.get(name)) for name in ("ph", "cat", "name")}
    fields |= {name: value[name] for name in ("pid", "tid", "ts", "dur", "id") if name in value}
    entry = TraceEntry(**fields)
    told = value.get("args")
    if isinstance(told, dict):
        known: dict[str, Any] = {
            _FIELDS[key]: msgspec.Raw(json.dumps(found).encode()) if key in _RAW else found
            for key, found in told.items()
            if key in _FIELDS
        }
        known["stack"] = _text(known.get("stack")) or None
        entry.args = Arguments(**known)
    return entry


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)[:_LONGEST_NUMBER]


def _whole(digits: str) -> int | None:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else None


PATIENT = json.JSONDecoder(strict=False, parse_constant=lambda _: None, parse_int=_whole)
"""Reads control characters, NaN and numbers of any length, which become None."""
