"""Makes Qt's enumerations in a fraction of the time that `enum` takes, which is a fifth of the window's start.

PySide makes hundreds of them, with thousands of members. Python asks of each member what all it could be; those of Qt
are whole numbers with plain names. Only such are made here, as Python makes them; it makes the others.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from enum import Enum, EnumType, IntEnum
from typing import Any

_Body = dict[str, Any]


@contextlib.contextmanager
def quick_enums() -> Iterator[None]:
    """While the context lasts `Enum(name, members)` is quick where the members are pairs of a name and an int."""
    create = vars(EnumType)["_create_"]
    empty: dict[Any, _Body] = {kind: dict(vars(create(kind, "Empty", [], module=""))) for kind in (Enum, IntEnum)}
    taken = {kind: {"mro"}.union(*(vars(base) for base in kind.__mro__)) for kind in empty}

    def create_quickly(kind: Any, class_name: str, names: Any, **told: Any) -> Any:
        module = told["module"] = told.get("module") or sys._getframe(2).f_globals.get("__name__")  # as enum finds it
        if not module or kind not in empty or told.get("type") is not None or not _are_plain(names, taken[kind]):
            return create(kind, class_name, names, **told)
        own = {"__module__": module, "__qualname__": told.get("qualname") or class_name}
        return _made(kind, class_name, names, empty[kind] | own)

    type.__setattr__(EnumType, "_create_", create_quickly)
    try:
        yield
    finally:
        type.__setattr__(EnumType, "_create_", create)


def _are_plain(members: Any, taken: set[str]) -> bool:
    """Whether all are a name that is not taken, each once, with an int."""
    if not isinstance(members, list) or not all(isinstance(one, tuple) and len(one) == 2 for one in members):
        return False
    names = dict(members)
    return (
        len(names) == len(members)
        and taken.isdisjoint(names)
        and all(type(value) is int and name[:1] != "_" for name, value in members)
    )


def _made(kind: type[Enum], name: str, members: list[tuple[str, int]], empty: _Body) -> Any:
    """The class; `empty` is what enum writes into one without members."""
    body: _Body = {key: part.copy() if isinstance(part, list | dict) else part for key, part in empty.items()}
    made: Any = type.__new__(EnumType, name, (kind,), body)
    names, by_name, by_value = body["_member_names_"], body["_member_map_"], body["_value2member_map_"]
    values = body.get("_hashable_values_", [])
    for member_name, value in members:
        member: Any = by_value.get(value)
        if member is None:
            member = by_value[value] = int.__new__(made, value) if kind is IntEnum else object.__new__(made)
            vars(member).update(_value_=value, _name_=member_name, __objclass__=made, _sort_order_=len(names))
            names.append(member_name)
            values.append(value)
        by_name[member_name] = member
        type.__setattr__(made, member_name, member)
    return made
