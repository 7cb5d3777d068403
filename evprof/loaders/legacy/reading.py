"""What every family offers and is given: a look at the file first, then a reader of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from evprof.loaders.legacy.checks import Problems, finite, mapping
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.rows import LegacyRow

Covers = dict[str, dict[str, list[str]]]
"""Role -> key in the file -> the stages it holds; an empty list: what the key says was not measured there."""


@dataclass(frozen=True)
class Preview:
    """A file read through once: what stands around its rows, how many there are, and the first of each list."""

    path: Path
    around: Any
    counts: dict[Place, int]
    first: dict[Place, list[Any]]
    not_numbers: int = 0

    @property
    def head(self) -> dict[str, Any]:
        """What stands around the rows, when it is an object."""
        return mapping(self.around)

    @property
    def config(self) -> dict[str, Any]:
        """The file's own settings."""
        return mapping(self.head.get("config"))

    def first_row(self, place: Place) -> dict[str, Any]:
        """The first row of a list that is an object; an empty one when there is none."""
        return next((row for row in self.first.get(place, []) if isinstance(row, dict)), {})

    @property
    def rows(self) -> int:
        """All rows of all lists."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Statistic:
    """How one of the file's statistics comes from its rows.

    `kind` "avg", "std" (of the population), "max", "sum" or "count" of the values under `key` of the rows of `side`;
    "rate": their mean over the mean of those under `over`.
    """

    side: str
    key: str
    kind: str
    over: str = ""


@dataclass(frozen=True)
class Series:
    """Numbers of a file step by step, each list under its name; `axis` says what a step is: "epoch", "position"."""

    axis: str
    values: dict[str, list[float | None]]


@dataclass
class Published:
    """What a family's own tables count. `totals`: role -> the keys that its printed total sums, in their order.

    `names`: key -> what its tables call it. `statistics`: name among the file's statistics -> how it comes about.
    `computed`: the same worked out by the reader itself, complete after `finish`. `told`: the file's own statistics
    where they stand under keys of its own. `over_nothing`: names among them that count no row at all.
    """

    totals: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    statistics: dict[str, Statistic] = field(default_factory=dict)
    computed: dict[str, float] = field(default_factory=dict)
    told: dict[str, float] | None = None
    over_nothing: frozenset[str] = frozenset()
    series: Series | None = None


class RowReader(Protocol):
    """Reads the rows of one file of one family."""

    covers: Covers
    published: Published

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """What one row says; tells problems on the way. Rows that say nothing give nothing."""
        ...

    def finish(self) -> None:
        """Tells what can be told of the whole file only."""
        ...


class Family(Protocol):
    """One kind of result file."""

    name: str
    looks_for: str

    def recognises(self, preview: Preview) -> bool:
        """Whether the file is one of this family, by its content."""
        ...

    def reader(self, preview: Preview, problems: Problems) -> RowReader:
        """For the rows of this file."""
        ...


_STATISTICS = ("statistics", "aggregate", "stage_timing", "gpu_memory")


def told_statistics(head: dict[str, Any], keys: Sequence[str] = _STATISTICS) -> dict[str, float]:
    """A file's own statistics, from where most files keep them."""
    found = flattened({key: head[key] for key in keys if key in head})
    parts = {
        side: {"stats": part["stats"]} for side, part in head.items() if isinstance(part, dict) and "stats" in part
    }
    found |= flattened(parts)
    return {name: value for name, value in found.items() if name.rsplit(".", 1)[-1] != "gamma"}  # a setting


def flattened(value: Any, name: str = "", most: int = 500) -> dict[str, float]:
    """The finite numbers of nested objects as `eventgpt.s4_time_avg`; at most `most` of them, none out of lists."""
    found: dict[str, float] = {}
    if isinstance(value, dict):
        for key, entry in value.items():
            found.update(flattened(entry, f"{name}.{key}" if name else str(key)[:80], most - len(found)))
            if len(found) >= most:
                break
    elif (number := finite(value)) is not None and most > 0:
        found[name] = number
    return found
