"""Reads the rows of one result file: the base of all families, and the reader of answers by a `Shape`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, ClassVar

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import ModelFacts
from evprof.loaders.legacy.json_rows import DOCUMENTS, ERRORS, JsonRows, Place, Preview
from evprof.loaders.legacy.rows import (
    NO_TIME,
    SIDE_BY_SIDE,
    WRONG_UNIT,
    FileProblems,
    LegacyRow,
    RowCheck,
    error_kind,
    finite,
    mapping,
    sample_name,
)

Covers = dict[str, dict[str, list[str]]]
"""Role -> key in the file -> the stages that it covers; []: the key covers nothing."""


class Reading:
    """One pass over the rows of a file; `problems` is complete after the last row.

    `totals`: role -> the keys that the file's own total sums. `names`: key -> its name in the file's tables.
    """

    reads_documents: ClassVar[bool] = False
    knows_infinity: ClassVar[bool] = False
    """Infinity is a value of the format, not a finding."""

    def __init__(self, preview: Preview) -> None:
        self.preview = preview
        self.problems = FileProblems()
        self.covers: Covers = {}
        self.totals: dict[str, list[str]] = {}
        self.names: dict[str, str] = {}
        self.config: dict[str, Any] = preview.config

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """The answers in one row of the file."""
        raise NotImplementedError

    def sentences(self) -> Sequence[str]:
        """Findings about the whole file, without full stops. Called after the last row."""
        raise NotImplementedError

    def rows(self) -> Iterator[LegacyRow]:
        for place, number, raw in JsonRows(self.preview.path).rows():
            if place == DOCUMENTS and not self.reads_documents:
                continue
            rows = self.read(place, number, raw)
            notes = self.problems.taken()
            yield from (_noted(row, rows, notes) for row in rows) if notes else rows
        for sentence in self.sentences():
            self.problems.of_file(sentence)
        if self.preview.not_numbers and not self.knows_infinity:
            self.problems.of_file(
                f"{self.preview.not_numbers:,} values are NaN or Infinity, which are no numbers and were read as null"
            )

    def first_rows(self) -> list[LegacyRow]:
        """The rows of the preview. A reading that was used for it is used up."""
        return [
            row
            for place, raws in self.preview.first.items()
            if place != DOCUMENTS
            for number, raw in enumerate(raws)
            for row in self.read(place, number, raw)
        ]


def _noted(row: LegacyRow, rows: list[LegacyRow], notes: list[str]) -> LegacyRow:
    """The row with its findings: those of no other model, and not its own error."""
    others = tuple(f"{other.side}:" for other in rows if other.side != row.side)
    own = [sentence for sentence in notes if not sentence.startswith(others)]
    if row.error is not None:
        own = [sentence for sentence in own if error_kind(row.error) not in sentence]
    return replace(row, notes=tuple(f"{sentence}." for sentence in own))


Refine = Callable[[LegacyRow, RowCheck, dict[str, Any]], LegacyRow]
"""Adds what only one family has: the row so far, the check of the model's part, and the whole row of the file."""


@dataclass(frozen=True)
class Answer:
    """Where rows contain one model's answer. An empty key means that the rows do not contain the value.

    `place` is the list of the rows, `part` the key of the model's own object in a row. `covers` maps keys of times to
    their stages; those in `optional` may be missing, `total` is the key of their sum. A row without any key of
    `wanted` contains no such answer.
    """

    role: str
    side: str
    cell: str
    model: ModelFacts
    covers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    place: Place = ("results",)
    part: str = ""
    optional: frozenset[str] = frozenset()
    total: str = ""
    error: str = ""
    text: str = ""
    ids: str = ""
    count: str = ""
    length: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    wanted: tuple[str, ...] = ()
    refine: Refine | None = None

    def times(self) -> dict[str, list[str]]:
        return {key: list(stages) for key, stages in self.covers.items()}


@dataclass(frozen=True)
class Shape:
    """What the rows of one file contain. `covers` and `totals` default to the times of the answers.

    `index` are keys of a sample's name or number. `is_paired`: the answers of a row belong together, as two models
    side by side. `has_errors`: the file has a list of failed samples.
    """

    answers: Sequence[Answer]
    names: Mapping[str, str]
    sentences: Sequence[str]
    index: tuple[str, ...] = ("sample_idx",)
    is_paired: bool = True
    has_errors: bool = False
    covers: Covers | None = None
    totals: dict[str, list[str]] | None = None


class AnswerReading(Reading):
    def __init__(self, preview: Preview, shape: Shape) -> None:
        super().__init__(preview)
        self._shape = shape
        self._seen: set[tuple[Place, int]] = set()
        self._typical: dict[str, dict[str, float]] = {}
        self.covers = shape.covers or {answer.role: answer.times() for answer in shape.answers if answer.covers}
        self.totals = shape.totals or {role: list(keys) for role, keys in self.covers.items()}
        self.names = dict(shape.names)

    def sentences(self) -> Sequence[str]:
        return self._shape.sentences

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        if place == ERRORS and self._shape.has_errors:
            return self._failed(number, raw)
        answers = [answer for answer in self._shape.answers if answer.place == place]
        if not isinstance(raw, dict) or not answers:
            self.problems.of_row("a row is no sample of a known kind and was left out", number)
            return []
        content = place, hash(repr(raw))
        if content in self._seen:
            self.problems.of_row("copies of an earlier row were left out, so that it counts once", number)
            return []
        self._seen.add(content)
        return [
            self._answer(answer, number, raw)
            for answer in answers
            if not answer.wanted or any(raw.get(key) is not None for key in answer.wanted)
        ]

    def _answer(self, answer: Answer, number: int, raw: dict[str, Any]) -> LegacyRow:
        own = mapping(raw.get(answer.part)) if answer.part else raw
        if not own:
            own = {answer.error: "the file holds nothing of this model for this sample"}
        check = RowCheck(own, number, self.problems, answer.side, self._typical_times(answer))
        error = check.text(answer.error)
        row = LegacyRow(
            row=number,
            group=number,
            side=answer.side,
            role=answer.role,
            mode=SIDE_BY_SIDE if self._shape.is_paired else answer.role,
            cell=answer.cell,
            sample=self._sample(raw, number),
            models={answer.role: answer.model},
            prompt=check.text("question") or check.text("query") or self.preview.prompt,
            settings=dict(answer.settings),
            error=error,
        )
        if error is None:
            row = _answered(row, check, answer)
        else:
            check.tell(f"failed: {error_kind(error)}")
        row = row if answer.refine is None else answer.refine(row, check, raw)
        if check.has_other_unit:
            row = replace(row, intervals=(), figures={}, error=WRONG_UNIT)
        return row

    def _typical_times(self, answer: Answer) -> Mapping[str, float]:
        """The median of each model time of the answer in the preview. A first load may take a thousand times."""
        if answer.cell not in self._typical:
            rows = self.preview.objects(answer.place)
            parts = [mapping(row.get(answer.part)) if answer.part else row for row in rows]
            keys = [key for key, stages in answer.covers.items() if not {"load", "preprocess"} & set(stages)]
            times = {key: [time for part in parts if (time := finite(part.get(key)))] for key in keys}
            self._typical[answer.cell] = {key: median(values) for key, values in times.items() if values}
        return self._typical[answer.cell]

    def _sample(self, raw: dict[str, Any], number: int) -> str:
        values = [raw.get(key) for key in self._shape.index]
        name = next((value for value in values if isinstance(value, str) and value), None)
        return name or sample_name(values[0], number)

    def _failed(self, number: int, raw: Any) -> list[LegacyRow]:
        """An entry of `errors`: a failed row per model that it names, or one row if it names none."""
        if not isinstance(raw, dict):
            self.problems.of_row("errors: an entry is no object and was left out", number)
            return []
        check = RowCheck(raw, number, self.problems, "errors")
        keys = {"egpt_error": DRAFT, "vl_error": TARGET}
        named = {role: text for key, role in keys.items() if (text := check.text(key))}
        by_role = named or {TARGET: check.text("error") or "the file says that this sample failed, and not why"}
        known = {answer.role: answer for answer in self._shape.answers} if named else {}
        for text in by_role.values():
            check.tell(f"failed samples: {error_kind(text)}")
        return [
            LegacyRow(
                row=number,
                group=number,
                side="errors",
                role=role,
                mode=SIDE_BY_SIDE,
                cell=known[role].cell if role in known else "both models",
                sample=sample_name(raw.get("sample_idx"), number),
                models={role: known[role].model} if role in known else {},
                error=text,
            )
            for role, text in by_role.items()
        ]


def _answered(row: LegacyRow, check: RowCheck, answer: Answer) -> LegacyRow:
    intervals = check.intervals(answer.covers, answer.role, answer.optional)
    if answer.total:
        check.adds_up(answer.total, answer.covers)
    text, ids, told = check.text(answer.text), check.ids(answer.ids), check.count(answer.count)
    count, length = check.counts_agree(told, ids, text), check.count(answer.length, most=1 << 24)
    figures = {"published_prefill_length": float(length)} if length else {}
    if count is None and (told or ids):
        figures["published_output_tokens"] = float(told or len(ids))
    return replace(
        row,
        intervals=intervals,
        token_ids=ids if count is not None else (),
        text=text,
        output_tokens=count,
        figures=figures,
        error=NO_TIME if answer.covers and not intervals else None,
    )
