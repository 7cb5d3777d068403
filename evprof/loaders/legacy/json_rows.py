"""A JSON file as a stream of rows and what stands around them, in bounded memory and without trusting the file.

A file may hold several documents, one after the other: benchmarks append a line each. It knows where result files keep
their rows, and no family: what rows mean is `family`'s business. Numbers that are none (NaN, Infinity), which Python
writes and JSON does not know, are read as null and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from evprof.core.errors import UserError
from evprof.loaders.legacy.side_lists import KEPT_LISTS, PASSED_LISTS, SideLists
from evprof.loaders.paths import opened_file

Place = tuple[str, ...]
"""Where a list of rows stands: the keys that lead to it; () is the file itself."""

DOCUMENTS: Place = ("", "documents")
"""The place of documents: each is a row when it is at its end, an object without the rows in it."""

REQUESTS: Place = ("", "requests")
"""The place of rows that were lists side by side in the document just told; see `side_lists`."""

ERRORS: Place = ("errors",)
"""Samples that failed are objects; of requests each has a text, in a list beside the others."""

MOST_ROWS = 100_000
"""Rows of one file: a session of more runs could not be opened again."""

MOST_DEPTH, MOST_VALUES, MOST_AROUND = 24, 100_000, 200_000
"""Nesting of a file, values of one row, and values around the rows of a document: more than any result file has."""

MOST_TEXT = 1 << 20
"""Characters of one text; bytes that may lie between two quotes."""

_LISTS = frozenset(
    {
        *("results", "errors", "baseline_per_sample", "samples", "sample_results"),
        *("eventgpt_results", "videollava_results"),
    }
)
_BELOW, _OF_EACH = "samples", "sd_per_sample"
_PIECE = 1 << 16
_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"|"|-?\bInfinity\b|-?\bNaN\b', re.DOTALL)
_LONGEST_WORD = 16


@dataclass
class JsonRows:
    """One reading of a file: iterate `rows` to its end, then `around` holds everything else of its first document.

    `counts` is the number of rows of each place, `not_numbers` how many values were NaN or Infinity. Of lists side by
    side only the first `most_requests` rows are told (None: all); all are counted.
    """

    path: Path
    most_requests: int | None = None
    around: Any = None
    documents: int = 0
    counts: dict[Place, int] = field(default_factory=dict)
    not_numbers: int = 0

    def rows(self) -> Iterator[tuple[Place, int, Any]]:
        """Each row with its place and its number there. Raises UserError when the file is no such JSON."""
        import ijson

        try:
            with opened_file(self.path) as file, closing(SideLists(self.most_requests)) as lists:
                stream = _Finite(file, is_needed=_has_words(file))
                builder = _Builder(self, lists)
                for kind, value in ijson.basic_parse(stream, use_float=True, multiple_values=True):
                    if (rows := builder.take(kind, value)) is not None:
                        yield from rows
                self.not_numbers = stream.replaced
                if not self.documents:
                    raise ValueError
        except (ijson.JSONError, ValueError, OverflowError, SystemError, RecursionError) as error:
            raise UserError(f"{self.path}: is no JSON that can be read to its end ({_reason(error)}).") from None
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror or error}).") from None
        except _UnusualError as error:
            raise UserError(f"{self.path}: {error}; it is no file of results.") from None


class _UnusualError(Exception):
    """What no result file is like, as the end of a sentence about it."""


def _too_many() -> _UnusualError:
    return _UnusualError(f"it holds more than {MOST_ROWS:,} rows in one list; divide it")


def _reason(error: Exception) -> str:
    text = error.args[0] if error.args else error
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return " ".join(words.splitlines()[0].split())[:120] if words.strip() else "it ends early"


def _has_words(file: BinaryIO) -> bool:
    """Whether NaN or Infinity stand anywhere in the file, texts too; leaves it at its beginning."""
    end = b""
    while piece := file.read(_PIECE):
        if b"NaN" in (data := end + piece) or b"Infinity" in data:
            break
        end = data[-_LONGEST_WORD:]
    file.seek(0)
    return bool(piece)


class _Finite:
    """A file whose NaN and Infinity, outside of texts, read as null; as it is unless that `is_needed`."""

    def __init__(self, file: BinaryIO, *, is_needed: bool) -> None:
        self._file = file
        self._is_needed = is_needed
        self._has_begun = False
        self._held = b""
        self._is_over = False
        self.replaced = 0

    def read(self, size: int = _PIECE) -> bytes:
        """The next piece; empty at the end only."""
        if size == 0:
            return b""
        while not self._is_over:
            piece = self._file.read(_PIECE)
            if not self._has_begun:
                self._has_begun = True
                piece = piece.removeprefix(b"\xef\xbb\xbf")
                if not piece:
                    self._is_over = True
                    return b""
            self._is_over = not piece
            if not self._is_needed:
                return piece
            if ready := self._mended(self._held + piece):
                return ready
        ready, self._held = self._held, b""
        return ready

    def _mended(self, data: bytes) -> bytes:
        """All of `data` but a text or a word that may go on in the next piece, which is held back."""
        end = len(data) if self._is_over else max(0, len(data) - _LONGEST_WORD)
        parts, last = [], 0
        for word in _WORD.finditer(data):
            text = word.group()
            if text == b'"' and not self._is_over:
                end = word.start()
                break
            if word.start() >= end:
                break
            if text[:1] == b'"':
                end = max(end, word.end())
                continue
            parts += [data[last : word.start()], b"null"]
            last = word.end()
            self.replaced += 1
            end = max(end, last)
        self._held = data[end:]
        if len(self._held) > MOST_TEXT:
            raise _UnusualError(f"a text in it is longer than {MOST_TEXT >> 20} MiB")
        return b"".join([*parts, data[last:end]])


Row = tuple[Place, int, Any]


class _Builder:
    """Puts values together and hands rows out as soon as they are whole."""

    def __init__(self, reading: JsonRows, lists: SideLists) -> None:
        self._reading = reading
        self._counts = reading.counts
        self._lists = lists
        self._stack: list[Any] = []
        self._keys: list[str] = []
        self._row_depth: int | None = None
        self._place: Place = ()
        self._left = MOST_VALUES
        self._left_around = MOST_AROUND

    def take(self, kind: str, value: Any) -> Iterable[Row] | None:
        """One event of the parser; the rows that it ends, if it does."""
        if kind == "map_key":
            if len(value) > MOST_TEXT:
                raise _UnusualError("a key in it is longer than any")
            self._keys[-1] = value
        elif kind in ("start_map", "start_array"):
            if len(self._stack) >= MOST_DEPTH:
                raise _UnusualError(f"it is nested more than {MOST_DEPTH} deep")
            self._open({} if kind == "start_map" else [])
        elif kind in ("end_map", "end_array"):
            self._keys.pop()
            closed = self._stack.pop()
            if self._row_depth == len(self._stack):
                self._row_depth = None
            return self._put(closed)
        else:
            if kind == "string" and len(value) > MOST_TEXT:
                raise _UnusualError(f"a text in it is longer than {MOST_TEXT >> 20} MiB")
            return self._put(value)
        return None

    def _open(self, container: Any) -> None:
        place = tuple(self._keys)
        self._stack.append(container)
        self._keys.append("")
        if isinstance(container, list) and self._row_depth is None and _holds_rows(place):
            self._row_depth, self._place = len(self._stack) - 1, place
            if place == ERRORS or not place or place[0] not in KEPT_LISTS | PASSED_LISTS:
                self._counts.setdefault(place, 0)

    def _put(self, value: Any) -> Iterable[Row] | None:
        if not self._stack:
            return self._document(value)
        depth = len(self._stack)
        if self._row_depth is not None and depth == self._row_depth + 1:
            self._left = MOST_VALUES
            return self._row(value)
        self._spend(self._row_depth is None)
        container = self._stack[-1]
        if isinstance(container, list):
            container.append(value)
        else:
            container[self._keys[-1]] = value
        return None

    def _row(self, value: Any) -> Iterable[Row] | None:
        name = self._place[0] if self._place else ""
        if name in PASSED_LISTS:
            return None
        if name in KEPT_LISTS and (self._place != ERRORS or isinstance(value, str)):
            if self._lists.count >= MOST_ROWS:
                raise _too_many()
            self._lists.add(name, value)
            return None
        return ((self._place, self._counted(self._place), value),)

    def _document(self, value: Any) -> Iterator[Row]:
        self._left_around = MOST_AROUND
        number = self._reading.documents
        if number >= MOST_ROWS:
            raise _UnusualError(f"it holds more than {MOST_ROWS:,} documents; divide it")
        self._reading.documents += 1
        if not number:
            self._reading.around = value
        if isinstance(value, dict):
            yield DOCUMENTS, number, value
        yield from self._requests()

    def _requests(self) -> Iterator[Row]:
        """The rows of the lists in the document; where these are errors alone, they are samples that failed."""
        # Only the first are there when only the first are wanted; all of them are counted.
        left = self._lists.count
        are_errors = self._lists.names == {ERRORS[0]}
        place = ERRORS if are_errors else REQUESTS
        for row in self._lists.rows():
            left -= 1
            yield place, self._counted(place), row[ERRORS[0]] if are_errors else row
        for _ in range(left):
            self._counted(place)
        self._lists.close()

    def _counted(self, place: Place) -> int:
        """The number of one more row of a place."""
        number = self._counts.get(place, 0)
        if number >= MOST_ROWS:
            raise _too_many()
        self._counts[place] = number + 1
        return number

    def _spend(self, is_around: bool) -> None:
        if is_around:
            self._left_around -= 1
        else:
            self._left -= 1
        if self._left < 0 or self._left_around < 0:
            raise _UnusualError("a row of it, or what stands around its rows, holds more values than any result file")


def _holds_rows(place: Place) -> bool:
    if not place:
        return True
    if len(place) == 1:
        return place[0] in _LISTS or place[0] in KEPT_LISTS or place[0] in PASSED_LISTS
    return len(place) == 2 and (place[1] == _BELOW or place[0] == _OF_EACH)
