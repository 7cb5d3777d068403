"""Dataclasses to and from plain values: what travels over a pipe and stays in a session file."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

_ATOMS = frozenset({str, int, float, bool, type(None), bytes})


class Plain:
    """For dataclasses of plain values and of others like them."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the pipe and the session file."""
        return plain_values(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_json`. Unknown keys are ignored, so that newer writers stay readable."""
        return cls(**read_fields(cls, values))


def plain_values(entry: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain values of their own, at every depth.

    Does what `dataclasses.asdict` does, in a third of the time: sessions may hold thousands of runs.
    """
    kind: Any = type(entry)
    return {name: _plain(getattr(entry, name)) for name in _names(kind)}


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {key: _plain(entry) for key, entry in value.items()}
    if kind is list:
        return [_plain(entry) for entry in value]
    if is_dataclass(kind):
        return plain_values(value)
    if kind is tuple:
        return tuple(_plain(entry) for entry in value)
    return copy.deepcopy(value)


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(kind))


Reader = Callable[[Any], Any]


def read_fields(kind: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The fields of the dataclass `kind` that `values` tell, dataclasses among them read at every depth.

    What is no plain value any more stays as it is; nothing is checked (see `fits`).
    """
    return {name: read(values[name]) for name, read in _readers(kind) if name in values}


@cache
def _readers(kind: Any) -> tuple[tuple[str, Reader], ...]:
    return tuple((name, _reader(hint)) for name, hint in hints_of(kind).items())


@cache
def _reader(kind: Any) -> Reader:
    origin, parts = get_origin(kind), get_args(kind)
    if is_record(kind):
        return lambda value: kind(**read_fields(kind, value)) if isinstance(value, dict) else value
    if origin in (types.UnionType, Union):
        return next((_reader(part) for part in parts if is_record(part)), _as_it_is)
    if origin is dict and is_record(parts[1]):
        read = _reader(parts[1])
        return lambda value: {key: read(entry) for key, entry in value.items()}
    return _as_it_is


def is_record(kind: Any) -> bool:
    """Whether a type is a dataclass."""
    return is_dataclass(kind)


def _as_it_is(value: Any) -> Any:
    return value


def fits(value: object, kind: Any) -> bool:
    """Whether `value`, as JSON gives it, can stand for a `kind`: a plain type, a list, a dict, a union, a dataclass."""
    return check_of(kind)(value)


Check = Callable[[Any], bool]


@cache
def check_of(kind: Any) -> Check:
    """`fits` for one kind, worked out once: a session may hold thousands of runs of a hundred values."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        return _check_union([check_of(part) for part in parts])
    if origin in (list, dict):
        return _check_container(origin, check_of(parts[-1]))
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
    hints = hints_of(kind)
    checks = [
        (entry.name, check_of(hints[entry.name]), entry.default is MISSING and entry.default_factory is MISSING)
        for entry in fields(kind)
    ]

    def check(values: Any) -> bool:
        if not isinstance(values, dict):
            return False
        return all(one(values[name]) if name in values else not is_needed for name, one, is_needed in checks)

    return check


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    """Names and types of the fields of a dataclass."""
    return get_type_hints(kind)
