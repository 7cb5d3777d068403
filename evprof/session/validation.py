"""Whether plain values from a file are a RunInfo: each field of the type its class declares, at every depth."""

from __future__ import annotations

import types
from collections.abc import Callable
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
    for key in ("name", "prompt", "reference"):
        # Runs are told apart by these, so they are texts where they are known.
        if not isinstance(info.sample.get(key), str | None):
            info.sample[key] = str(info.sample[key])
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
    return _check(kind)(value)


Check = Callable[[Any], bool]


@cache
def _check(kind: Any) -> Check:
    """The question for one kind, worked out once: a session may hold thousands of runs of a hundred values."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        return _check_union([_check(part) for part in parts])
    if origin in (list, dict):
        return _check_container(origin, _check(parts[-1]))
    return _check_dataclass(kind) if is_dataclass(kind) else _PLAIN.get(kind, lambda value: isinstance(value, kind))


_PLAIN: dict[Any, Check] = {
    Any: lambda _value: True,
    float: lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63,
}


def _check_container(origin: Any, entry: Check) -> Check:
    if origin is list:
        return lambda value: isinstance(value, list) and all(map(entry, value))
    return lambda value: isinstance(value, dict) and all(map(entry, value.values()))


def _check_union(checks: list[Check]) -> Check:
    def check(value: Any) -> bool:
        return any(one(value) for one in checks)

    return check


def _check_dataclass(kind: Any) -> Check:
    hints = _hints(kind)
    checks = [
        (entry.name, _check(hints[entry.name]), entry.default is MISSING and entry.default_factory is MISSING)
        for entry in fields(kind)
    ]

    def check(values: Any) -> bool:
        if not isinstance(values, dict):
            return False
        return all(one(values[name]) if name in values else not is_needed for name, one, is_needed in checks)

    return check


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
