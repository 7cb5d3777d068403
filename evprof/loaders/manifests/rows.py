"""Reads the rows of a list of samples from CSV, JSON, JSON lines or TOML, one after the other.

Rows come as they stand in the file: it does not know what their columns mean. JSON is streamed, so that memory holds
one row at a time; limits keep a file that is no list from being taken for one.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from evprof.core.errors import UserError
from evprof.loaders.json_text import JsonText, MendedJson
from evprof.loaders.manifests.problems import ManifestProblems, shown
from evprof.loaders.paths import opened_file, reason
from evprof.loaders.toml_text import parse_toml

CSV, JSON, TOML = "csv", "json", "toml"

MAX_FILE_BYTES = 512 << 20
MAX_TOML_BYTES = 4 << 20
"""TOML is read whole, and slowly: for long lists there are the other formats."""

MAX_DEPTH = 32
MAX_VALUES = 100_000
"""Values in one row, nested ones counted."""

HEAD_BYTES = 65_536

_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")
_DELIMITERS = ",;\t|"
_TOML_LINE = re.compile(r"""\s*(\[\[?[\w\s."'-]+\]\]?\s*(#.*)?|[\w."' -]+=.*)""")

Step = tuple[str, Any]


@dataclass(frozen=True)
class ManifestRow:
    """One entry: its number from 1 (a CSV's header is none) and what stands there, a dict where it is as it should."""

    number: int
    values: object


def text_format(head: bytes) -> str | None:
    """CSV, JSON or TOML by the first bytes of a file; None when they are no text."""
    if head.startswith(_WIDE_BOMS):
        return JSON if head.decode("utf-16", errors="replace").lstrip()[:1] in "[{" else CSV
    if b"\0" in head:
        return None
    text = head.removeprefix(_BOM).decode("utf-8", errors="replace")
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    first = next(lines, "").lstrip()
    if first.startswith("{"):
        return JSON
    if _TOML_LINE.fullmatch(first):
        return TOML
    return JSON if first.startswith("[") else CSV


def read_rows(path: Path, form: str, problems: ManifestProblems) -> Generator[ManifestRow, None, None]:
    """The rows of a file in one of the three formats. Raises UserError, also while rows are being taken."""
    size = path.stat().st_size
    limit = MAX_TOML_BYTES if form == TOML else MAX_FILE_BYTES
    if size > limit:
        raise UserError(f"{path}: has {size >> 20:,} MiB, more than the {limit >> 20} MiB allowed; split it.")
    match form:
        case "toml":
            values = _toml_rows(path)
        case "json":
            values = _json_rows(path)
        case _:
            values = _csv_rows(path, problems)
    for number, entry in enumerate(values, start=1):
        yield ManifestRow(number, entry)


def first_row(head: bytes, form: str) -> dict[str, Any] | None:
    """The first row of a file of which only the beginning is at hand, or for CSV its header; None without one."""
    import ijson

    try:
        match form:
            case "toml":
                return _first_toml_row(head)
            case "json":
                file = io.BytesIO(head)
                found = next(_json_values(MendedJson(file), file), None)
            case _:
                text = io.TextIOWrapper(io.BytesIO(head), encoding=_encoding(head), errors="replace", newline="")
                line = next((line for line in text if line.strip()), "")
                found = dict.fromkeys(_cells(line, _delimiter(line)))
    except (UserError, ValueError, OverflowError, SystemError, csv.Error, ijson.JSONError):
        return None
    return found if isinstance(found, dict) else None


# CSV


def _csv_rows(path: Path, problems: ManifestProblems) -> Iterator[dict[str, str]]:
    with opened_file(path) as file:
        encoding = _encoding(file.read(4))
    with io.TextIOWrapper(opened_file(path), encoding=encoding, newline="") as text:
        yield from _parsed_csv(path, text, problems)


def _parsed_csv(path: Path, text: TextIO, problems: ManifestProblems) -> Iterator[dict[str, str]]:
    number = 1
    try:
        first = next((line for line in text if line.strip()), "")
        reader = csv.reader(chain([first], text), delimiter=_delimiter(first), strict=True)
        header = [cell.strip() for cell in next(reader, [])]
        for name in sorted(cell for cell, count in Counter(header).items() if cell and count > 1):
            problems.once(f"There are several columns '{shown(name)}'; the first one is read.")
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) > len(header):
                problems.add("rows with too many cells", f"Row {number}: has more cells than there are columns.")
            yield _cells_by_name(header, cells)
            number += 1
    except UnicodeError:
        raise UserError(f"{path}: is not UTF-8 text near row {number}; save it as UTF-8.") from None
    except csv.Error as error:
        raise UserError(f"{path}: is no valid CSV in row {number} ({reason(error)}); mend the quotes there.") from None


def _cells_by_name(header: list[str], cells: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, cell in zip(header, cells, strict=False):
        if name:
            found.setdefault(name, cell)
    return found


def _encoding(start: bytes) -> str:
    return "utf-16" if start.startswith(_WIDE_BOMS) else "utf-8-sig"


def _delimiter(line: str) -> str:
    """What parts a header: the candidate that makes the most cells of it."""
    return max(_DELIMITERS, key=lambda candidate: len(_cells(line, candidate)))


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]


# TOML


def _toml_rows(path: Path) -> Iterable[object]:
    try:
        with opened_file(path) as file:
            content = file.read()
        text = content.removeprefix(_BOM).decode("utf-8")
        loaded = parse_toml(text)
    except UnicodeError:
        raise UserError(f"{path}: is not UTF-8 text; save it as UTF-8.") from None
    except ValueError as error:
        raise UserError(f"{path}: is no valid TOML ({reason(error)}); mend it there.") from None
    except RecursionError:
        raise UserError(f"{path}: is nested too deeply for a list of samples.") from None
    samples = loaded.get("samples")
    if not isinstance(samples, list):
        raise UserError(f"{path}: has no [[samples]]; write one such table per sample.")
    return samples


def _first_toml_row(head: bytes) -> dict[str, Any] | None:
    """Keys of the first [[samples]] table; the rest of the file, cut off somewhere, is not looked at."""
    text = head.removeprefix(_BOM).decode("utf-8", errors="replace")
    found = re.search(r"(?m)^[ \t]*\[\[[ \t]*samples[ \t]*\]\]", text)
    if found is None:
        return None
    body = re.split(r"(?m)^[ \t]*\[", text[found.end() :], maxsplit=1)[0]
    return dict.fromkeys(re.findall(r"(?m)^[ \t]*[\"']?([\w-]+)[\"']?[ \t]*=", body))


# JSON


def _json_rows(path: Path) -> Iterator[object]:
    import ijson

    number = 0
    with opened_file(path) as file:
        for source in (JsonText(file), MendedJson(file)):
            file.seek(0)
            try:
                for place, value in enumerate(_json_values(source, file), start=1):
                    # Mending costs time and is seldom needed: it begins anew and passes over what was given out.
                    if place > number:
                        number = place
                        yield value
                return
            except (ijson.JSONError, ValueError, OverflowError, SystemError) as error:
                if isinstance(source, MendedJson):
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


def _json_values(source: JsonText | MendedJson, file: BinaryIO) -> Iterator[object]:
    """Entries of a list, of the list called "samples" in an object, or objects one after the other (JSON lines)."""
    import ijson

    start = file.read(len(_BOM))
    if start.startswith(_WIDE_BOMS):
        raise UserError("is UTF-16 text; save it as UTF-8.")
    if start != _BOM:
        file.seek(0)
    steps = _Steps(ijson.basic_parse(source, multiple_values=True))
    for kind, _ in steps:
        if kind == "start_array":
            yield from _entries(steps)
        elif kind == "start_map":
            yield from _object_entries(steps)
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
        """A row is complete."""
        self._left = MAX_VALUES


def _entries(steps: _Steps) -> Iterator[object]:
    for kind, value in steps:
        if kind == "end_array":
            return
        yield _built(kind, value, steps, 1)
        steps.next_row()


def _object_entries(steps: _Steps) -> Iterator[object]:
    found: dict[str, object] = {}
    key, is_list = "", False
    for kind, value in steps:
        if kind == "end_map":
            break
        if kind == "map_key":
            key = value
        elif key == "samples" and kind == "start_array":
            is_list = True
            yield from _entries(steps)
        else:
            found[key] = _built(kind, value, steps, 1)
    if not is_list:
        yield found
    steps.next_row()


def _built(kind: str, value: Any, steps: _Steps, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise UserError(f"is nested deeper than {MAX_DEPTH} levels; this is no list of samples.")
    if kind == "start_array":
        items: list[object] = []
        for inner, content in steps:
            if inner == "end_array":
                break
            items.append(_built(inner, content, steps, depth + 1))
        return items
    if kind == "start_map":
        found: dict[str, object] = {}
        key = ""
        for inner, content in steps:
            if inner == "end_map":
                break
            if inner == "map_key":
                key = content
            else:
                found[key] = _built(inner, content, steps, depth + 1)
        return found
    return value
