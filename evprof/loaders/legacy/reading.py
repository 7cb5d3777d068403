"""What every family offers and is given: a look at the file first, then a reader of its rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from evprof.loaders.legacy.checks import FileProblems, RowCheck, finite, mapping
from evprof.loaders.legacy.failures import failed_rows
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.rows import DEFAULT_PROMPT, NO_TIME, SIDE_BY_SIDE, Interval, LegacyModel, LegacyRow

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
    documents: int = 1

    @property
    def head(self) -> dict[str, Any]:
        """What stands around the rows, when it is an object."""
        return mapping(self.around)

    @property
    def config(self) -> dict[str, Any]:
        """The file's own settings."""
        return mapping(self.head.get("config"))

    @property
    def dataset(self) -> str:
        """The name of the data set that the file's samples are of; "" where it does not tell."""
        told = self.head.get("dataset_name"), self.config.get("dataset_dir")
        parts = (re.split(r"[/\\\\]+", name.rstrip("/\\"))[-1] for name in told if isinstance(name, str))
        return next(filter(None, parts), "")

    @property
    def prompt(self) -> str:
        """What the file says was asked of all samples, or what the scripts ask by default."""
        query = self.config.get("query")
        return query if isinstance(query, str) and query else DEFAULT_PROMPT

    @property
    def quantization(self) -> str | None:
        """How weights were quantized; None: not, or not told."""
        told = self.config.get("quantization")
        return told if isinstance(told, str) and told not in ("bf16", "fp16", "none") else None

    def count_setting(self, name: str, *keys: str) -> dict[str, object]:
        """The first of these keys that the settings hold, as a setting of ours."""
        value = next((finite(self.config[key]) for key in keys if key in self.config), None)
        return {} if value is None else {name: int(value)}

    def objects(self, place: Place) -> list[dict[str, Any]]:
        """The first rows of a list, those that are objects."""
        return [row for row in self.first.get(place, []) if isinstance(row, dict)]

    def first_row(self, place: Place) -> dict[str, Any]:
        """The first row of a list that is an object; an empty one when there is none."""
        return next(iter(self.objects(place)), {})

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


def averages(head: str, side: str, keys: Iterable[str], *kinds: str) -> dict[str, Statistic]:
    """`head.key_avg` for every key, or of other kinds."""
    return {f"{head}.{key}_{kind}": Statistic(side, key, kind) for key in keys for kind in kinds or ("avg",)}


@dataclass
class Published:
    """What a family's own tables count. `totals`: role -> the keys that its printed total sums, in their order.

    `names`: key -> what its tables call it. `statistics`: name among the file's statistics -> how it comes about.
    `computed`: the same worked out by the reader itself, complete after `finish`. `told`: the file's own statistics
    where they stand under keys of its own. `over_nothing`: names among them that count no row at all. `config`: the
    file's settings, where they stand elsewhere than under that name.
    """

    totals: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    statistics: dict[str, Statistic] = field(default_factory=dict)
    computed: dict[str, float] = field(default_factory=dict)
    told: dict[str, float] | None = None
    over_nothing: frozenset[str] = frozenset()
    config: dict[str, Any] | None = None


class RowReader:
    """One kind of result file, by `name`; an instance reads the rows of one file of it.

    `looks_for` says by what such files are told. `reads_documents`: a file may hold several, each of which is given to
    `read` before the requests in it; `documents_are_rows`: they are what its rows are. `covers` and `published` are
    complete from the start but for what is `computed`, which is complete after `finish`.
    """

    name: ClassVar[str]
    looks_for: ClassVar[str]
    reads_documents: ClassVar[bool] = False
    documents_are_rows: ClassVar[bool] = False

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        self._preview = preview
        self._problems = problems
        self.covers: Covers = {}
        self.published = Published()
        self.understood = 0
        """Values that are no numbers and mean something in such a file all the same, such as a rate without end."""

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """Whether the file is of this kind, by its content."""
        raise NotImplementedError

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """What one row says; tells problems on the way. Rows that say nothing give nothing."""
        raise NotImplementedError

    def finish(self) -> None:
        """Tells what can be told of the whole file only."""
        raise NotImplementedError


NO_SAMPLE = "a row is no sample of a model that is known and was left out"


class AnswerReader(RowReader):
    """Reads files whose rows are answers of models, and lists of samples that failed."""

    left_out: ClassVar[str] = "a row is no object and was left out"
    _place: Place = ("results",)
    _cells: Mapping[str, tuple[str, LegacyModel]] | None = None
    """Role -> configuration and model; None where the files have no list of errors."""

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """The answers in a row, or that its sample failed."""
        if place == ("errors",) and self._cells is not None:
            return failed_rows(raw, number, self._problems, self._cells)
        if not isinstance(raw, dict) or not self._holds_answers(place):
            self._problems.of_row(self.left_out, number)
            return []
        return self._answers(place, number, raw)

    def _holds_answers(self, place: Place) -> bool:
        return place == self._place

    def _answers(self, place: Place, number: int, raw: dict[str, Any]) -> list[LegacyRow]:
        raise NotImplementedError

    @staticmethod
    def _row_of(
        check: RowCheck, role: str, cell: str, model: LegacyModel, intervals: tuple[Interval, ...], *, sample: str
    ) -> LegacyRow:
        """What every answer's row says: whose it is, of which sample, how long it took; without times it failed."""
        return LegacyRow(
            row=check.row,
            group=check.row,
            side=check.name,
            role=role,
            mode=SIDE_BY_SIDE,
            cell=cell,
            sample=sample,
            models={role: model},
            intervals=intervals,
            values=check.numbers(),
            error=None if intervals else NO_TIME,
        )


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


MOST_GAMMA = 1000


@dataclass(frozen=True)
class Again:
    """The same figures from rows; None where their rows do not give them. Times in the file's unit."""

    matched: float | None
    compared: float | None
    draft_time: float | None
    target_time: float | None
    gamma: float | None

    @property
    def rate(self) -> float | None:
        """Equal tokens over compared ones."""
        return self.matched / self.compared if self.matched is not None and self.compared else None

    @property
    def cost(self) -> float | None:
        """The draft's mean time over the target's."""
        return self.draft_time / self.target_time if self.draft_time is not None and self.target_time else None

    @property
    def speedup(self) -> float | None:
        rate, cost, gamma = self.rate, self.cost, self.gamma
        if rate is None or cost is None or gamma is None or not 0 <= gamma <= MOST_GAMMA or not 0 <= rate <= 1:
            return None
        expected = gamma + 1 if rate == 1 else (1 - rate ** (gamma + 1)) / (1 - rate)
        return expected / (cost * gamma + 1) if cost >= 0 else None


def speculation_again(
    rows: Sequence[dict[str, Any]], counts: tuple[str, str], times: tuple[str, str], gamma: float | None
) -> Again:
    """From rows with these keys: equal and compared tokens, the draft's time and the target's."""
    columns = [[finite(row.get(key)) for row in rows] for key in (*counts, *times)]
    sums = [
        math.fsum(value for value in column if value is not None) if _is_whole(column) else None for column in columns
    ]
    means = [None if total is None else total / len(rows) for total in sums[2:]]
    return Again(sums[0], sums[1], means[0], means[1], gamma)


def _is_whole(column: Sequence[float | None]) -> bool:
    return bool(column) and all(value is not None and abs(value) < 1e15 for value in column)
