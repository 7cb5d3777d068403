"""What a Kineto or Chrome trace holds, read as a stream: its size, and what it unpacks to, does not become ours."""

from __future__ import annotations

import gzip
import io
import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from evprof.core.budget import Budget
from evprof.core.errors import UserError
from evprof.loaders.json_text import JsonText, MendedJson
from evprof.loaders.paths import opened_file, readable_file, reason

MOST_CATEGORIES = 1000
"""Further ones are counted together: a profiler writes a dozen."""

OTHER_CATEGORIES = "(others)"

_RATIO = 50
"""Traces repeat themselves and shrink 10 to 30 times."""

_SPARE_BYTES = 16 << 20

_LONGEST_NAME = 200
_LATEST_US = 2.0**61
_DEEPEST = 64


@dataclass
class TraceFacts:
    """How many entries and profiler steps; slices by category; the time they span, None without any."""

    entries: int = 0
    steps: int = 0
    categories: dict[str, int] = field(default_factory=dict)
    _first_us: float = math.inf
    _last_us: float = -math.inf

    @property
    def duration_ms(self) -> float | None:
        """From the first slice's beginning to the last one's end."""
        return (self._last_us - self._first_us) / 1000 if self._last_us >= self._first_us else None

    def add(self, entry: dict[str, Any]) -> None:
        """One entry, of which only what is no table and no list is known."""
        self.entries += 1
        if entry.get("ph") != "X":
            return
        category = str(entry.get("cat", ""))[:_LONGEST_NAME]
        if category not in self.categories and len(self.categories) >= MOST_CATEGORIES:
            category = OTHER_CATEGORIES
        self.categories[category] = self.categories.get(category, 0) + 1
        self.steps += str(entry.get("name", "")).startswith("ProfilerStep#")
        start_us, length_us = _number(entry.get("ts")), _number(entry.get("dur", 0))
        if start_us is not None and abs(end_us := start_us + (length_us or 0.0)) < _LATEST_US:
            self._first_us = min(self._first_us, start_us)
            self._last_us = max(self._last_us, end_us)


def read_trace(path: str | Path) -> TraceFacts:
    """Reads a trace through, plain or gzipped whatever its name. Raises UserError."""
    import ijson

    found = readable_file(path)
    try:
        try:
            return _read(found, JsonText)
        except (ijson.JSONError, ValueError, OverflowError, SystemError):
            # NaN and lone surrogates, which Python writes and strict parsers refuse.
            return _read(found, MendedJson)
    except (ijson.JSONError, ValueError, OverflowError, SystemError, OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: the trace is damaged ({reason(error)}); record it again.") from None
    except _OddTraceError as error:
        raise UserError(f"{path}: {error}; it is no trace, or is damaged, so record it again.") from None


class _OddTraceError(Exception):
    """What no trace is like, as the end of a sentence about it."""


def _read(path: Path, text: type[JsonText | MendedJson]) -> TraceFacts:
    import ijson

    facts = TraceFacts()
    with opened_file(path) as file:
        is_packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        source = cast("BinaryIO", _Unpacked(file, path)) if is_packed else file
        try:
            _gather(ijson.basic_parse(text(source), use_float=True), facts)
        except UserError as error:
            # A text without an end is found by whoever knows no name.
            told = error.sentence.removeprefix(f"{path}: ")
            raise UserError(f"{path}: {told}") from None
    return facts


class _Unpacked(io.RawIOBase):
    """The bytes of a gzip file, as far as its size accounts for them."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._source = gzip.GzipFile(fileobj=file, mode="rb")
        self._budget = Budget(str(path), path.stat().st_size, _RATIO, _SPARE_BYTES)

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes more."""
        data = self._source.read(min(size, 1 << 20) if size >= 0 else 1 << 20)
        self._budget.take(len(data))
        return data


def _gather(steps: Iterable[tuple[str, Any]], facts: TraceFacts) -> None:
    """The entries: those of the list "traceEvents", or of the list that the file itself is."""
    depth, home = 0, 0
    key, entry = "", dict[str, Any]()
    for kind, value in steps:
        if kind in ("start_map", "start_array"):
            depth += 1
            if depth > _DEEPEST:
                raise _OddTraceError(f"is nested deeper than {_DEEPEST} levels")
            if kind == "start_array" and not home and (depth == 1 or (depth == 2 and key == "traceEvents")):
                home = depth
            elif depth == home + 1:
                entry = {}
        elif kind in ("end_map", "end_array"):
            if home and depth == home + 1:
                facts.add(entry)
            elif depth == home:
                home = -_DEEPEST
            depth -= 1
        elif kind == "map_key":
            key = value
            continue
        elif home and depth == home + 1 and key in _LOOKED_AT:
            entry[key] = value
        elif home and depth == home:
            facts.entries += 1
        if depth == 1:
            key = ""


_LOOKED_AT = frozenset({"ph", "cat", "name", "ts", "dur"})


def _number(value: object) -> float | None:
    """A finite number; some write times as texts."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 40:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
