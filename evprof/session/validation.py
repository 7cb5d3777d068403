"""Whether plain values from a file are a RunInfo: each field of the type its class declares, at every depth."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RUNNING, RunInfo


def run_info_from(values: object) -> RunInfo | None:
    """The RunInfo of plain values, or None when they are not one."""
    if not isinstance(values, dict) or not fits(values, RunInfo):
        return None
    info = RunInfo.from_json(values)
    is_known = info.role in (DRAFT, TARGET) and info.status in (RUNNING, FINISHED, CANCELLED, FAILED)
    return info if is_known else None


def fitting(info: RunInfo) -> tuple[dict[str, Any], list[str]]:
    """The plain values of `info` as a reader accepts them, and the names of fields that had to be left out.

    A fact of a wrong type is a defect of whoever reported it; it costs that fact, not the session.
    """
    values, hints = info.to_json(), _hints(RunInfo)
    wrong = [name for name, value in values.items() if not fits(value, hints[name])]
    return {name: value for name, value in values.items() if name not in wrong}, wrong


def fits(value: object, kind: Any) -> bool:
    """Whether `value`, as JSON gives it, can stand for a `kind`: a plain type, a list, a dict, a union, a dataclass."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        does = True
    elif origin in (types.UnionType, Union):
        does = any(fits(value, part) for part in parts)
    elif origin is list:
        does = isinstance(value, list) and all(fits(entry, parts[0]) for entry in value)
    elif origin is dict:
        does = isinstance(value, dict) and all(fits(entry, parts[1]) for entry in value.values())
    elif is_dataclass(kind):
        does = isinstance(value, dict) and _fits_dataclass(value, kind)
    elif kind is float:
        does = isinstance(value, int | float) and not isinstance(value, bool)
    elif kind is int:
        does = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
    else:
        does = isinstance(value, kind)
    return does


def _fits_dataclass(values: dict[str, Any], kind: Any) -> bool:
    hints = _hints(kind)
    for entry in fields(kind):
        if entry.name not in values:
            if entry.default is MISSING and entry.default_factory is MISSING:
                return False
        elif not fits(values[entry.name], hints[entry.name]):
            return False
    return True


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
