"""The rows of a JSON file and the values around them, for all families.

A file may contain several documents: benchmarks append a line each. NaN and Infinity are read as null and counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.loaders.legacy.rows import DEFAULT_PROMPT, finite, mapping
from evprof.loaders.paths import opened_file

Place = tuple[str, ...]
"""The keys that lead to a list of rows; () is the file itself."""

DOCUMENTS: Place = ("", "documents")
"""Each document is a row after the rows in it: the object without them."""

REQUESTS: Place = ("", "requests")
"""Rows that are columns of the previous document: an entry of each of its parallel lists."""

ERRORS: Place = ("errors",)
"""Failed samples are objects. Errors of requests are texts in a list parallel to the others."""

MOST_BYTES = 128 << 20
MOST_ROWS = 100_000

PREVIEWED = 24
"""Rows of each list in a preview."""

_SETTINGS = {"max_new_tokens": ("max_new_tokens", "max_tokens", "max_draft_tokens")}
"""A setting of ours and its names in the files."""

_LISTS = frozenset(
    {
        *("results", "errors", "baseline_per_sample", "samples", "sample_results"),
        *("eventgpt_results", "videollava_results"),
    }
)
_SIDE_LISTS = frozenset(
    {
        *("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times"),
        *("generated_texts", "errors"),
    }
)
_PASSED_LISTS = frozenset({"cached_tokens", "cached_tokens_details"})

_BELOW, _OF_EACH = "samples", "sd_per_sample"
_SPACE = re.compile(r"\s*")
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_MISSING = object()

Row = tuple[Place, int, Any]


@dataclass
class JsonRows:
    """One pass over a file. After the last of `rows`, `around` is the rest of its first document.

    `counts` is the number of rows by place, `not_numbers` the number of NaN and Infinity.
    """

    path: Path
    around: Any = None
    documents: int = 0
    counts: dict[Place, int] = field(default_factory=dict)
    not_numbers: int = 0

    def rows(self) -> Iterator[Row]:
        """Each row with its place and its number there. Raises UserError for invalid JSON."""
        try:
            for document in self._documents():
                yield from self._of_document(document)
            if not self.documents:
                raise ValueError("it is empty")
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror or error}).") from None
        except (ValueError, RecursionError) as error:
            why = "it is nested too deep" if isinstance(error, RecursionError) else str(error).splitlines()[0][:120]
            raise UserError(f"{self.path}: is no JSON that can be read to its end ({why}).") from None

    def _documents(self) -> Iterator[Any]:
        if self.path.stat().st_size > MOST_BYTES:
            raise UserError(f"{self.path}: has more than {MOST_BYTES >> 20} MiB; divide it.")
        with opened_file(self.path) as file:
            text = file.read().decode("utf-8-sig")
        has_halves = _HALF_CHARACTER.search(text) is not None
        decoder = json.JSONDecoder(parse_constant=self._not_a_number)
        place = _end_of_space(text, 0)
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            place = _end_of_space(text, place)
            yield _sound(value) if has_halves else value

    def _not_a_number(self, _: str) -> None:
        self.not_numbers += 1

    def _of_document(self, document: Any) -> Iterator[Row]:
        number, self.documents = self.documents, self.documents + 1
        if number >= MOST_ROWS:
            raise UserError(f"{self.path}: holds more than {MOST_ROWS:,} documents; divide it.")
        lists: dict[Place, list[Any]] = {}
        around = _emptied(document, (), lists)
        if not number:
            self.around = around
        side_lists: dict[str, list[Any]] = {}
        for place, entries in lists.items():
            name = place[0] if place else ""
            if name in _PASSED_LISTS:
                continue
            if name not in _SIDE_LISTS or place == ERRORS:
                self.counts.setdefault(place, 0)
            for entry in entries:
                if name in _SIDE_LISTS and (place != ERRORS or isinstance(entry, str)):
                    side_lists.setdefault(name, []).append(entry)
                else:
                    yield place, self._counted(place), entry
        if isinstance(around, dict):
            yield DOCUMENTS, number, around
        are_errors = side_lists.keys() == {ERRORS[0]}
        place = ERRORS if are_errors else REQUESTS
        for request in zip_longest(*side_lists.values(), fillvalue=_MISSING):
            row = {name: entry for name, entry in zip(side_lists, request, strict=True) if entry is not _MISSING}
            yield place, self._counted(place), row[ERRORS[0]] if are_errors else row

    def _counted(self, place: Place) -> int:
        number = self.counts.get(place, 0)
        if number >= MOST_ROWS:
            raise UserError(f"{self.path}: holds more than {MOST_ROWS:,} rows in one list; divide it.")
        self.counts[place] = number + 1
        return number


@dataclass(frozen=True)
class Preview:
    """The values around the rows of a file, the number of rows by place, and the first rows of each place."""

    path: Path
    around: Any
    counts: dict[Place, int]
    first: dict[Place, list[Any]]
    not_numbers: int = 0
    documents: int = 1

    @classmethod
    def of(cls, path: Path) -> Preview:
        reading = JsonRows(path)
        first: dict[Place, list[Any]] = {}
        for place, number, raw in reading.rows():
            if number < PREVIEWED:
                first.setdefault(place, []).append(raw)
        return cls(path, reading.around, dict(reading.counts), first, reading.not_numbers, reading.documents)

    @property
    def head(self) -> dict[str, Any]:
        return mapping(self.around)

    @property
    def config(self) -> dict[str, Any]:
        return mapping(self.head.get("config"))

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    @property
    def dataset(self) -> str:
        """The name of the samples' data set; "" if unknown."""
        names = self.head.get("dataset_name"), self.config.get("dataset_dir")
        parts = (re.split(r"[/\\\\]+", name.rstrip("/\\"))[-1] for name in names if isinstance(name, str))
        return next(filter(None, parts), "")

    @property
    def prompt(self) -> str:
        query = self.config.get("query")
        return query if isinstance(query, str) and query else DEFAULT_PROMPT

    @property
    def quantization(self) -> str | None:
        name = self.config.get("quantization")
        return name if isinstance(name, str) and name not in ("bf16", "fp16", "none") else None

    def setting(self, name: str) -> dict[str, object]:
        keys = _SETTINGS.get(name, (name,))
        value = next((finite(self.config[key]) for key in keys if key in self.config), None)
        return {name: int(value)} if value else {}

    def objects(self, place: Place) -> list[dict[str, Any]]:
        return [row for row in self.first.get(place, []) if isinstance(row, dict)]

    def first_row(self, place: Place) -> dict[str, Any]:
        return next(iter(self.objects(place)), {})


def _end_of_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _emptied(value: Any, place: Place, lists: dict[Place, list[Any]]) -> Any:
    """The value without the rows in it, which go into `lists`."""
    if isinstance(value, list) and _holds_rows(place):
        lists[place] = value
        return []
    if isinstance(value, dict) and len(place) < 2:
        return {key: _emptied(entry, (*place, key), lists) for key, entry in value.items()}
    return value


def _holds_rows(place: Place) -> bool:
    if len(place) == 2:
        return place[1] == _BELOW or place[0] == _OF_EACH
    return not place or place[0] in _LISTS | _SIDE_LISTS | _PASSED_LISTS


def _sound(value: Any) -> Any:
    """With a question mark for each half of a character, which no session can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_sound(entry) for entry in value]
    return {_sound(key): _sound(entry) for key, entry in value.items()} if isinstance(value, dict) else value
