"""A JSON file as a stream of rows and what stands around them, in bounded memory and without trusting the file.

It knows where result files keep their rows, and no family: what rows mean is `family`'s business. Numbers that are
none (NaN, Infinity), which Python writes and JSON does not know, are read as null and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from evprof.core.errors import UserError
from evprof.loaders.paths import opened_file

Place = tuple[str, ...]
"""Where a list of rows stands: the keys that lead to it; () is the file itself."""

MOST_ROWS = 100_000
"""Rows of one file: a session of more runs could not be opened again."""

MOST_DEPTH, MOST_VALUES, MOST_AROUND = 24, 100_000, 200_000
"""Nesting of a file, values of one row, and values around the rows: more than any result file has."""

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
    """One reading of a file: iterate `rows` to its end, then `around` holds everything else.

    `counts` is the number of rows of each place, `not_numbers` how many values were NaN or Infinity.
    """

    path: Path
    around: Any = None
    counts: dict[Place, int] = field(default_factory=dict)
    not_numbers: int = 0

    def rows(self) -> Iterator[tuple[Place, int, Any]]:
        """Each row with its place and its number there. Raises UserError when the file is no such JSON."""
        import ijson

        try:
            with opened_file(self.path) as file:
                stream = _Finite(file, is_needed=_has_words(file))
                builder = _Builder(self)
                for kind, value in ijson.basic_parse(stream, use_float=True):
                    if (row := builder.take(kind, value)) is not None:
                        yield row
                self.around, self.not_numbers = builder.around, stream.replaced
        except (ijson.JSONError, ValueError, OverflowError, SystemError, RecursionError) as error:
            raise UserError(f"{self.path}: is no JSON that can be read to its end ({_reason(error)}).") from None
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror or error}).") from None
        except _UnusualError as error:
            raise UserError(f"{self.path}: {error}; it is no file of results.") from None


class _UnusualError(Exception):
    """What no result file is like, as the end of a sentence about it."""


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


class _Builder:
    """Puts values together and hands rows out as soon as they are whole."""

    def __init__(self, rows: JsonRows) -> None:
        self._counts = rows.counts
        self._stack: list[Any] = []
        self._keys: list[str] = []
        self._row_depth: int | None = None
        self._place: Place = ()
        self._left = MOST_VALUES
        self._left_around = MOST_AROUND
        self.around: Any = None

    def take(self, kind: str, value: Any) -> tuple[Place, int, Any] | None:
        """One event of the parser; the row that it ends, if it does."""
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
            self._counts.setdefault(place, 0)

    def _put(self, value: Any) -> tuple[Place, int, Any] | None:
        if not self._stack:
            self.around = value
            return None
        depth = len(self._stack)
        if self._row_depth is not None and depth == self._row_depth + 1:
            number = self._counts[self._place]
            if number >= MOST_ROWS:
                raise _UnusualError(f"it holds more than {MOST_ROWS} rows in one list; divide it")
            self._counts[self._place] = number + 1
            self._left = MOST_VALUES
            return self._place, number, value
        self._spend(self._row_depth is None)
        container = self._stack[-1]
        if isinstance(container, list):
            container.append(value)
        else:
            container[self._keys[-1]] = value
        return None

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
        return place[0] in _LISTS
    return len(place) == 2 and (place[1] == _BELOW or place[0] == _OF_EACH)
