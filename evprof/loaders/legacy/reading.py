"""What every family offers and is given: a look at the file first, then a reader of its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from evprof.loaders.legacy.checks import FileProblems, RowCheck, failed_rows, finite, mapping, sample_name
from evprof.loaders.legacy.json_rows import Place
from evprof.loaders.legacy.rows import DEFAULT_PROMPT, NO_TIME, SIDE_BY_SIDE, LegacyModel, LegacyRow, eventgpt_lengths

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

    @classmethod
    def recognises(cls, preview: Preview) -> bool:
        """Whether the file is of this kind, by its content."""
        raise NotImplementedError

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """What one row says; tells problems on the way. Rows that say nothing give nothing."""
        raise NotImplementedError

    def finish(self) -> None:
        """Tells what can be told of the whole file only."""
        raise NotImplementedError


NO_SAMPLE = "a row is no sample of a model that is known and was left out"


@dataclass(frozen=True)
class AnswerField:
    """Where a row keeps one model's answer. An empty key stands for a value that the rows do not hold.

    `part` is the key of the model's own object in the row. `covers` maps the keys of times to the stages they hold;
    those in `optional` may be missing. `total` is the key of their sum. `patches` is the number of visual positions in
    EventGPT's prompt.
    """

    role: str
    side: str
    cell: str
    model: LegacyModel
    covers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    part: str = ""
    total: str = ""
    error: str = ""
    text: str = ""
    ids: str = ""
    count: str = ""
    length: str = ""
    patches: int = 0
    settings: Mapping[str, object] = field(default_factory=dict)


class AnswerReader(RowReader):
    """Reads files whose rows hold answers of models, and lists of samples that failed."""

    left_out: ClassVar[str] = "a row is no object and was left out"
    _place: Place = ("results",)
    _index: str = "sample_idx"
    _is_paired = True
    _cells: Mapping[str, tuple[str, LegacyModel]] | None = None
    """Role -> configuration and model; None where the files have no list of errors."""

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """The answers in a row, or the failure of its sample."""
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

    def _publish(self, answers: Iterable[AnswerField], names: Mapping[str, str], **more: Any) -> None:
        """Sets what the times cover and the file's tables count."""
        self.covers = {answer.role: {key: list(stages) for key, stages in answer.covers.items()} for answer in answers}
        totals = {role: list(keys) for role, keys in self.covers.items()}
        self.published = Published(**{"totals": totals, "names": dict(names), **more})

    def _sample(self, raw: Mapping[str, Any], number: int) -> str:
        name = raw.get(self._index)
        return name if isinstance(name, str) else sample_name(name, number)

    def _row(self, answer: AnswerField, number: int, raw: dict[str, Any]) -> tuple[LegacyRow, RowCheck]:
        """One answer, and the check of its part of the row."""
        check = RowCheck(mapping(raw.get(answer.part)) if answer.part else raw, number, self._problems, answer.side)
        error = check.text(answer.error)
        intervals = check.intervals(answer.covers, answer.role, answer.optional if error is None else answer.covers)
        listed = check.raw.get(answer.ids)
        row = LegacyRow(
            row=number,
            group=number,
            side=answer.side,
            role=answer.role,
            mode=SIDE_BY_SIDE if self._is_paired else answer.role,
            cell=answer.cell,
            sample=self._sample(raw, number),
            models={answer.role: answer.model},
            prompt=check.text("question") or check.text("query") or self._preview.prompt,
            values=check.numbers() | ({answer.ids: float(len(listed))} if isinstance(listed, list) else {}),
            settings=dict(answer.settings),
            error=error,
        )
        if error is not None:
            return row, check
        if answer.total:
            check.adds_up(answer.total, answer.covers)
        text, ids, told = check.text(answer.text), check.ids(answer.ids), check.count(answer.count)
        count, length = check.counts_agree(told, ids, text), check.count(answer.length, most=1 << 24)
        figures = {"published_prefill_length": float(length)} if length else {}
        if count is None and (told or ids):
            figures["published_output_tokens"] = float(told or len(ids))
        row = replace(
            row,
            intervals=intervals,
            token_ids=ids if count is not None else (),
            text=text,
            output_tokens=count,
            lengths=eventgpt_lengths(length, answer.patches) if answer.patches else None,
            figures=figures,
            error=NO_TIME if answer.covers and not intervals else None,
        )
        return row, check


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
