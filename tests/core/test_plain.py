from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from evprof.core.plain import Plain, UnfitError


@dataclass(frozen=True)
class Leaf(Plain):
    size: int
    share: float = 0.5
    name: str | None = None


@dataclass(frozen=True)
class Branch(Plain):
    leaf: Leaf
    by_name: dict[str, Leaf] = field(default_factory=dict)
    span: tuple[int, int] = (0, 1)
    notes: tuple[str, ...] = ()
    free: dict[str, Any] = field(default_factory=dict)
    last: Leaf | None = None


FULL = Branch(Leaf(3), {"a": Leaf(4, 1, "four")}, (2, 5), ("b", "c"), {"x": [1]}, Leaf(0))


def test_records_come_back_as_they_were_at_every_depth() -> None:
    values = FULL.to_json()
    assert Branch.from_json(values) == FULL
    assert Branch.from_json(values | {"span": [2, 5], "notes": ["b", "c"], "newer": 1}) == FULL
    assert Branch.from_json({"leaf": Leaf(3)}) == Branch(Leaf(3))


@pytest.mark.parametrize(
    "wrong",
    [
        {"leaf": {}},
        {"leaf": {"size": True}},
        {"leaf": {"size": 2.0}},
        {"leaf": {"size": 1 << 63}},
        {"leaf": {"size": 1, "share": "half"}},
        {"leaf": {"size": 1, "name": 7}},
        {"leaf": None},
        {"leaf": {"size": 1}, "by_name": {"a": {"size": "1"}}},
        {"leaf": {"size": 1}, "span": [1]},
        {"leaf": {"size": 1}, "notes": "text"},
        {"leaf": {"size": 1}, "free": []},
        {},
        [],
        "text",
    ],
)
def test_what_is_not_of_the_declared_type_is_refused(wrong: object) -> None:
    with pytest.raises(UnfitError):
        Branch.from_json(wrong)
    assert Branch.if_fitting(wrong) is None
