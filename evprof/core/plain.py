"""Dataclasses to and from plain values: what travels over a pipe and stays in a session file."""

from __future__ import annotations

import contextlib
import copy
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

SCHEMA_VERSION = 1
"""Of the JSON documents that commands write."""

_ATOMS = frozenset({str, int, float, bool, type(None), bytes})


class UnfitError(ValueError):
    """A value that is not of the type its record declares."""


class Plain:
    """For dataclasses of plain values and of others like them."""

    def to_json(self) -> dict[str, Any]:
        return plain_values(self)

    @classmethod
    def from_json(cls, values: object) -> Self:
        """The inverse of `to_json`; see `read`."""
        found: Self = read(values, cls)
        return found

    @classmethod
    def arranged(cls, values: dict[str, Any]) -> dict[str, Any]:
        """JSON values with every key where the fields are; a record overrides it whose JSON is arranged otherwise."""
        return values

    @classmethod
    def if_fitting(cls, values: object) -> Self | None:
        """The same, or None of what is no such record."""
        with contextlib.suppress(UnfitError):
            return cls.from_json(values)
        return None


def plain_values(entry: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain values of their own, at every depth.

    Does what `dataclasses.asdict` does, in a third of the time: sessions may hold thousands of runs.
    """
    kind: Any = type(entry)
    return {name: _plain(getattr(entry, name)) for name in hints_of(kind)}


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {key: _plain(entry) for key, entry in value.items()}
    if kind is list:
        return [_plain(entry) for entry in value]
    if is_dataclass(kind):
        return value.to_json() if isinstance(value, Plain) else plain_values(value)
    if kind is tuple:
        return tuple(_plain(entry) for entry in value)
    return copy.deepcopy(value)


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {entry.name: hints[entry.name] for entry in fields(kind)}


def read(value: object, kind: Any) -> Any:
    """`value`, as JSON gives it, as a `kind`: a plain type, a dataclass, or a union or container of these
    (tuples: of one kind throughout).

    Unknown keys are ignored, so that newer writers stay readable; dataclasses that are made already stay as they are.
    Raises UnfitError for anything else.
    """
    return reader_of(kind)(value)


def fits(value: object, kind: Any) -> bool:
    try:
        read(value, kind)
    except UnfitError:
        return False
    return True


Reader = Callable[[Any], Any]


@cache
def reader_of(kind: Any) -> Reader:
    """`read` for one kind, worked out once: a session may hold thousands of runs of a hundred values."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        return _union_reader([reader_of(part) for part in parts if part is not type(None)], type(None) in parts)
    if origin is dict:
        return _dict_reader(reader_of(parts[1]))
    if origin in (list, tuple, frozenset):
        count = len(parts) if origin is tuple and parts[-1] is not Ellipsis else None
        return _row_reader(origin, reader_of(parts[0]), count)
    if is_dataclass(kind):
        return _record_reader(kind)
    return _ATOM_READERS.get(kind) or _atom_reader(kind)


def _atom_reader(kind: Any) -> Reader:
    def read_atom(value: Any) -> Any:
        if not isinstance(value, kind):
            raise UnfitError
        return value

    return read_atom


def _read_int(value: Any) -> Any:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise UnfitError
    return value


def _read_number(value: Any) -> Any:
    if type(value) not in (float, int):
        raise UnfitError
    return value


_ATOM_READERS: dict[Any, Reader] = {Any: lambda value: value, int: _read_int, float: _read_number}


def _union_reader(readers: list[Reader], has_none: bool) -> Reader:
    def read_union(value: Any) -> Any:
        if value is None and has_none:
            return None
        for one in readers[:-1]:
            with contextlib.suppress(UnfitError):
                return one(value)
        return readers[-1](value)

    return read_union


def _dict_reader(one: Reader) -> Reader:
    def read_dict(value: Any) -> Any:
        if not isinstance(value, dict):
            raise UnfitError
        return {key: one(entry) for key, entry in value.items()}

    return read_dict


def _row_reader(kind: Any, one: Reader, count: int | None) -> Reader:
    def read_row(value: Any) -> Any:
        if not isinstance(value, list | tuple | frozenset) or len(value) != (count or len(value)):
            raise UnfitError
        return kind(map(one, value))

    return read_row


def _record_reader(kind: Any) -> Reader:
    readers = [(name, reader_of(hint)) for name, hint in hints_of(kind).items()]
    arrange = kind.arranged if issubclass(kind, Plain) else dict
    needed = {entry.name for entry in fields(kind) if entry.default is MISSING and entry.default_factory is MISSING}

    def read_record(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if not isinstance(value, dict) or not needed <= value.keys():
            raise UnfitError
        value = arrange(value)
        return kind(**{name: one(value[name]) for name, one in readers if name in value})

    return read_record
