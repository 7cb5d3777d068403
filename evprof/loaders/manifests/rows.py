"""Reads the rows of a list of samples from CSV, JSON or JSON lines, one at a time, within limits."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from evprof.core.errors import UserError
from evprof.core.texts import unguarded
from evprof.loaders.manifests.cells import shown
from evprof.loaders.paths import opened_file, reason

TOLD = 50
"""Sentences of one kind that are told in full."""


@dataclass
class _Kind:
    sentences: list[str] = field(default_factory=list)
    count: int = 0


class ManifestProblems:
    """Sentences by kind, in the order in which the kinds were first met. Memory does not grow with the file."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    def add(self, kind: str, sentence: str) -> None:
        """One problem; `kind` says what many of them are, as "rows without a video"."""
        found = self._kinds.setdefault(kind, _Kind())
        found.count += 1
        if len(found.sentences) < TOLD:
            found.sentences.append(sentence)

    def once(self, sentence: str) -> None:
        """A problem that is told a single time, however often it is met."""
        if sentence not in self._kinds:
            self._kinds[sentence] = _Kind([sentence], 1)

    def sentences(self) -> tuple[str, ...]:
        """All of them; of a kind met more than TOLD times the rest is a number."""
        told: list[str] = []
        for name, kind in self._kinds.items():
            told += kind.sentences
            if kind.count > len(kind.sentences):
                told.append(f"… and {kind.count - len(kind.sentences):,} more {name}.")
        return tuple(told)


CSV, JSON = "csv", "json"

MAX_FILE_BYTES = 512 << 20
MAX_DEPTH = 32
MAX_VALUES = 100_000
"""Values in one row, nested ones counted."""

MAX_TEXT_BYTES = 4 << 20
"""The parser needs time in the square of the length of a text."""

MAX_DIGITS = 1_000
_MANY_DIGITS = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))

HEAD_BYTES = 65_536

_BOM = b"\xef\xbb\xbf"
_DELIMITERS = ",;\t"

Step = tuple[str, Any]


def text_format(head: bytes) -> str | None:
    """CSV or JSON by the first bytes of a file; None when they are no text."""
    if b"\0" in head:
        return None
    return JSON if head.removeprefix(_BOM).lstrip()[:1] in (b"{", b"[") else CSV


def read_rows(path: Path, form: str) -> Generator[object, None, None]:
    """The rows of a file, dicts in a valid list. Raises UserError, also while rows are read."""
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise UserError(f"{path}: has {size >> 20:,} MiB, more than the {MAX_FILE_BYTES >> 20} MiB allowed; split it.")
    with opened_file(path) as file:
        yield from _json_rows(path, file) if form == JSON else _csv_rows(path, file)


def first_row(head: bytes, form: str) -> dict[str, Any] | None:
    """The first row of a file of which only the beginning is read, or for CSV its header; None without one."""
    import ijson

    with suppress(UserError, ValueError, OverflowError, SystemError, csv.Error, ijson.JSONError):
        if form == JSON:
            row = next(_json_values(_Checked(io.BytesIO(head.removeprefix(_BOM)))), None)
            return row if isinstance(row, dict) else None
        text = head.removeprefix(_BOM).decode("utf-8", errors="replace")
        line = next((line for line in text.splitlines() if line.strip()), "")
        return dict.fromkeys(_cells(line, _delimiter(line)))
    return None


def _csv_rows(path: Path, file: BinaryIO) -> Iterator[dict[str, str]]:
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        number = 0
        try:
            first = next((line for line in text if line.strip()), "")
            reader = csv.reader(chain([first], text), delimiter=_delimiter(first), strict=True)
            header = [cell.strip() for cell in next(reader, [])]
            names = [name for name in header if name]
            if len(set(names)) < len(names):
                raise UserError(f"{path}: has two columns of one name; give each its own.")
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                number += 1
                if any(cell.strip() for cell in cells[len(header) :]):
                    raise UserError(f"{path}: row {number} has more cells than there are columns; quote its commas.")
                yield {name: unguarded(cell) for name, cell in zip(header, cells, strict=False) if name}
        except UnicodeError:
            raise UserError(f"{path}: is not UTF-8 text near row {number + 1}; save it as UTF-8.") from None
        except csv.Error as error:
            raise UserError(
                f"{path}: is no valid CSV in row {number + 1} ({reason(error)}); correct the quotes there."
            ) from None


def _delimiter(line: str) -> str:
    """The delimiter of a header: the candidate that gives the most cells."""
    return max(_DELIMITERS, key=lambda candidate: len(_cells(line, candidate)))


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]


def _json_rows(path: Path, file: BinaryIO) -> Iterator[object]:
    import ijson

    number = 0
    if file.read(len(_BOM)) != _BOM:
        file.seek(0)
    try:
        for value in _json_values(_Checked(file)):
            number += 1
            yield value
    except (ijson.JSONError, ValueError, OverflowError, SystemError) as error:
        raise UserError(f"{path}: {_json_problem(error)} after row {number}; write it again.") from None
    except UserError as error:
        raise UserError(f"{path}: {error.sentence}") from None


def _json_problem(error: Exception) -> str:
    if isinstance(error, SystemError):
        # The parser's C code goes on after Python has refused to make a number of thousands of digits.
        return "holds a number with too many digits"
    said = error.args[0] if error.args else ""
    words = said.decode("utf-8", errors="replace") if isinstance(said, bytes) else str(error)
    words = (words.strip() or type(error).__name__).splitlines()[0]
    what = "ends too early" if "EOF" in words or "ncomplete" in words else "is no valid JSON"
    return f"{what} ({shown(words)})"


class _Checked:
    """A file. Raises UserError where MAX_TEXT_BYTES lie without a quotation mark, and at MAX_DIGITS in one piece: the
    parser's C code crashes at a number that goes on in its next buffer."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._unquoted = 0
        self._digits = b""

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        joined = self._digits + data
        if _MANY_DIGITS.search(joined):
            raise UserError(f"a number in it has more than {MAX_DIGITS} digits; correct it.")
        self._digits = joined[len(joined.rstrip(b"0123456789")) :]
        self._unquoted = 0 if b'"' in data else self._unquoted + len(data)
        if self._unquoted > MAX_TEXT_BYTES:
            raise UserError(f"a text in it is longer than {MAX_TEXT_BYTES >> 20} MiB; this is no list of samples.")
        return data


def _json_values(source: _Checked) -> Iterator[object]:
    """Entries of a list, or objects one after the other (JSON lines)."""
    import ijson

    steps = _Steps(ijson.basic_parse(source, multiple_values=True))
    for kind, value in steps:
        if kind == "start_array":
            for inner, content in steps:
                if inner == "end_array":
                    break
                yield _built(inner, content, steps)
                steps.next_row()
        elif kind == "start_map":
            yield _built(kind, value, steps)
            steps.next_row()
        else:
            raise UserError("holds no list of samples.")


class _Steps:
    """Parse steps that are counted, so that no single row can fill the memory."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = iter(steps)
        self._left = MAX_VALUES

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        self._left -= 1
        if self._left < 0:
            raise UserError(f"one entry holds more than {MAX_VALUES:,} values; this is no list of samples.")
        return next(self._steps)

    def next_row(self) -> None:
        self._left = MAX_VALUES


def _built(kind: str, value: Any, steps: _Steps) -> object:
    """The value that begins with this step."""
    from ijson.common import ObjectBuilder

    builder, depth = ObjectBuilder(), 0
    while True:
        builder.event(kind, value)
        depth += kind.startswith("start_")
        depth -= kind in ("end_map", "end_array")
        if depth > MAX_DEPTH:
            raise UserError(f"is nested deeper than {MAX_DEPTH} levels; this is no list of samples.")
        if depth == 0:
            return builder.value
        kind, value = next(steps)
