"""Enumerations that the window's start has made quickly are what Python makes of them."""

from __future__ import annotations

import contextlib
import enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apart import run_apart
from ui.style.quick_enums import quick_enums

KINDS = (enum.Enum, enum.IntEnum, enum.Flag, enum.IntFlag)

_plain = st.lists(st.tuples(st.sampled_from(list("ABCDEFG")), st.integers(-3, 9)), unique_by=lambda one: one[0])


def content(made: Any) -> dict[str, Any]:
    """All that stands in a class, in a form that can be compared with another of its name."""
    found: dict[str, Any] = {}
    for name, part in vars(made).items():
        if isinstance(part, made):
            found[name] = part.name, part.value, type(part).__name__, sorted(vars(part))
        elif name in ("_member_map_", "_value2member_map_"):
            found[name] = [(key, one._name_, one._sort_order_, one.__objclass__ is made) for key, one in part.items()]
        elif name != "__new__":
            found[name] = part if isinstance(part, int | str | list | dict | None) else repr(part).split(" at ")[0]
    return found | {"new": made.__new__, "order": list(map(repr, made)), "bases": made.__mro__[1:]}


def made_both_ways(kind: Any, names: Any, **told: Any) -> list[Any]:
    def outcome() -> Any:
        try:
            return content(kind("Name", names, **told))
        except (TypeError, ValueError) as error:
            return repr(error)

    plain = outcome()
    with quick_enums():
        return [plain, outcome()]


@given(st.sampled_from(KINDS), _plain, st.sampled_from([{}, {"module": "m", "qualname": "Outer.Name"}]))
def test_members_of_plain_names_are_the_same(kind, names, told):
    quick, plain = made_both_ways(kind, names, **told)
    assert quick == plain


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "names",
    [
        *([("A", 1), (name, 3)] for name in ("name", "value", "real", "mro", "_order_", "__str__", "_own", "A")),
        *([("A", value)] for value in ("x", True, 1.5, (1, 2), [1])),
        [],
        (),
        ["A", "B"],
        "A B",
        {"A": 1},
        [("A", 1, 2)],
    ],
)
def test_what_is_not_plain_is_left_to_python(kind, names):
    quick, plain = made_both_ways(kind, names)
    assert quick == plain


def test_python_makes_them_again_afterwards():
    create = vars(enum.EnumType)["_create_"]
    with contextlib.suppress(ZeroDivisionError), quick_enums():
        assert vars(enum.EnumType)["_create_"] is not create
        raise ZeroDivisionError
    assert vars(enum.EnumType)["_create_"] is create


_QT = """
import contextlib
from enum import Enum
from ui.style.quick_enums import quick_enums
with quick_enums() if {is_quick} else contextlib.nullcontext():
    from PySide6 import QtCore, QtGui, QtWidgets
    seen = set()
    for module in (QtCore, QtGui, QtWidgets):
        for owner in [getattr(module, name) for name in dir(module)]:
            for part in [getattr(owner, name, None) for name in dir(owner)] if isinstance(owner, type) else ():
                if isinstance(part, type) and issubclass(part, Enum) and part not in seen:
                    seen.add(part)
                    print(part.__module__, part.__qualname__, part.__mro__[1:], list(part), dict(part.__members__))
print(len(seen) > 250, QtCore.Qt.Key(65), QtCore.Qt.Key.Key_A + 1, QtCore.Qt.AlignmentFlag.AlignTop | 1)
"""


def test_those_of_qt_are_the_same():
    quick, plain = (run_apart(_QT.format(is_quick=is_quick)) for is_quick in (True, False))
    assert quick == plain
    assert quick.splitlines()[-1] == "True 65 66 33"
