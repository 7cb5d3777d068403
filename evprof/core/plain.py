"""Dataclasses to and from plain values: what travels over a pipe and stays in a session file."""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass
from typing import Any, Self

_ATOMS = frozenset({str, int, float, bool, type(None), bytes})


class Plain:
    """For dataclasses whose fields are plain already. Unknown keys are ignored, so that newer writers stay readable."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the pipe and the session file."""
        return plain_values(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        names = _names(cls)
        return cls(**{name: value for name, value in values.items() if name in names})


def plain_values(entry: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain values of their own, at every depth.

    Does what `dataclasses.asdict` does, in a third of the time: sessions may hold thousands of runs.
    """
    return {name: _plain(getattr(entry, name)) for name in _names(type(entry))}


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


_known: dict[Any, tuple[str, ...]] = {}


def _names(kind: Any) -> tuple[str, ...]:
    found = _known.get(kind)
    if found is None:
        found = _known[kind] = tuple(entry.name for entry in fields(kind))
    return found
