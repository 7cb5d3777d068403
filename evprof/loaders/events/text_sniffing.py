"""Recognises event texts by their first and last lines: delimiter, columns, unit of time. Reads no files."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE
from evprof.loaders.events.recording import HEAD_BYTES
from evprof.loaders.events.tables import EPOCH_NS, NAMES

GZIP_MAGIC = b"\x1f\x8b"
LONGEST_LINE = 1 << 16
"""Bytes; events take some 20."""

_LEAST_ROWS = 2
_MOST_ROWS = 200
"""At either end: enough to tell the columns apart."""

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_TRUTH = {b"true": b"1", b"false": b"0"}
_SENSOR_SIDE = re.compile(r"@([0-9]{1,5})\Z")
_DELIMITERS = (b",", b";", b"\t", b"")

# t,x,y,p: most data sets and faery; x,y,p,t: Metavision; x,y,t,p: arrays saved as text.
_ORDERS = ("txyp", "xytp", "xypt")

_TIME_EXPONENTS = {"s": 6, "sec": 6, "seconds": 6, "ms": 3, "us": 0, "µs": 0, "usec": 0, "ns": -3, "nsec": -3}
_NAMES = {spelling: column for column, spellings in NAMES.items() for spelling in (*spellings, column)} | {"on": "p"}
_SECONDS_PLACES = 3
"""With this many digits after the point times are seconds even where the digits are all zero."""

Tokens = list[bytes]


@dataclass(frozen=True)
class TextLayout:
    """How the lines of a text hold events.

    `delimiter` is one byte, or empty for runs of blanks; each line has `tokens`; `columns` are the numbers of those
    that are x, y, t, p. A time is `10 ** exponent` µs per unit. `begin` is the offset of the first event. `width` and
    `height` stand where the text states the sensor's size.
    """

    delimiter: bytes
    tokens: int
    columns: dict[str, int]
    exponent: int
    begin: int
    has_words: bool
    width: int | None = None
    height: int | None = None

    @property
    def details(self) -> dict[str, str | int | float]:
        names = sorted(self.columns, key=lambda name: self.columns[name])
        return {"columns": ", ".join(names), "time_unit": {6: "s", 3: "ms", 0: "µs", -3: "ns"}[self.exponent]}


@dataclass(frozen=True)
class _Start:
    """The lines before the first event."""

    begin: int
    delimiter: bytes
    names: tuple[str, ...] | None
    size: tuple[int, int] | None


def begins_as_text(head: bytes) -> bool:
    """Whether the first HEAD_BYTES of a file, maybe gzipped, are rows that can be events.

    These are at least two rows of four numbers, of which one is a polarity and two are coordinates, or one row after a
    line that names x, y, t and p. Tables of poses, of inertial measurements and of results are no events.
    """
    is_whole = len(head) < HEAD_BYTES
    if head.startswith(GZIP_MAGIC):
        is_whole = False
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        except zlib.error:
            return False
    start = None if b"\0" in head else _start(head)
    if start is None:
        return False
    rows = _rows(_lines(head[start.begin :], is_whole), start.delimiter)
    if start.names is not None or len(rows) < _LEAST_ROWS:
        return start.names is not None and bool(rows)
    columns = _columns(rows)
    return len(columns) == 4 and any(_fits(order, columns) for order in map("".join, permutations("txyp")))


def sniffed(head: bytes, tail: bytes | None, source: str) -> TextLayout:
    """The layout of a text with this begin and end; `tail` None means that the head is the whole text.

    Raises UserError.
    """
    start = _start(head)
    rows = [] if start is None else _rows(_lines(head[start.begin :], tail is None), start.delimiter)
    if start is None or not rows:
        raise UserError(f"{source}: its lines are no events; rows of at least four numbers (t, x, y, p) are expected.")
    # The tail begins within a line.
    rows += _rows((tail or b"").split(b"\n")[1:], start.delimiter)
    columns, exponent = _ordered(rows, source) if start.names is None else _named(start.names, source)
    if exponent is None:
        exponent = _exponent([row[columns["t"]] for row in rows if len(row) > columns["t"]])
    has_words = any(token.lower() in _TRUTH for row in rows for token in row)
    size = start.size or (None, None)
    return TextLayout(start.delimiter, len(rows[0]), columns, exponent, start.begin, has_words, *size)


def tokens_of(line: bytes, delimiter: bytes) -> Tokens:
    return [token.strip() for token in line.split(delimiter)] if delimiter else line.split()


def number_of(token: bytes) -> int | float | None:
    """A number, True or False; None for other tokens and numbers that are not finite."""
    token = _TRUTH.get(token.lower(), token)
    if not _NUMBER.match(token):
        return None
    if token.lstrip(b"+-").isdigit() and len(token) < 20:
        return int(token)
    number = float(token)
    return number if math.isfinite(number) else None


def is_comment(line: bytes) -> bool:
    line = line.strip()
    return not line or line.startswith((b"#", b"%"))


def _start(head: bytes) -> _Start | None:
    """None when the text does not begin as events do."""
    offset = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    names: tuple[str, ...] | None = None
    size: tuple[int, int] | None = None
    is_first = True
    for line in head[offset:].split(b"\n"):
        if is_comment(line):
            names = _names(line.strip().lstrip(b"#% ")) or names
        else:
            delimiter = next((mark for mark in _DELIMITERS if _are_numbers(tokens_of(line, mark))), None)
            if delimiter is not None:
                return _Start(offset, delimiter, names, size)
            pair = re.fullmatch(rb"\s*([0-9]{1,5})[\s,;]+([0-9]{1,5})\s*", line)
            if is_first and pair and 0 < int(pair[1]) <= 1 << 14 and 0 < int(pair[2]) <= 1 << 14:
                size = int(pair[1]), int(pair[2])
            elif names is None and (named := _names(line)) is not None:
                names, size = named, _size(named)
            else:
                return None
            is_first = False
        offset += len(line) + 1
    return None


def _are_numbers(tokens: Tokens) -> bool:
    return len(tokens) >= 4 and all(number_of(token) is not None for token in tokens)


def _columns(rows: list[Tokens]) -> list[list[int | float]]:
    return [[number_of(token) or 0 for token in column] for column in zip(*rows, strict=True)]


def _are_coordinates(column: list[int | float]) -> bool:
    return all(0 <= value <= MAX_COORDINATE and value % 1 == 0 for value in column)


def _names(line: bytes) -> tuple[str, ...] | None:
    """The tokens of a line that names x, y, t and p among others; None for other lines."""
    text = line.decode("utf-8", "replace").strip()
    for delimiter in (",", ";", "\t", None):
        names = tuple(token.strip().strip("\"'").lower() for token in text.split(delimiter))
        if {"x", "y", "t", "p"} <= {_meant(name)[0] for name in names}:
            return names
    return None


def _size(names: tuple[str, ...]) -> tuple[int, int] | None:
    """The sensor's size in names such as those of faery: x@640, y@480."""
    sides = {_meant(name)[0]: int(side[1]) for name in names if (side := _SENSOR_SIDE.search(name))}
    return (sides["x"], sides["y"]) if set(sides) == {"x", "y"} and min(sides.values()) > 0 else None


def _meant(name: str) -> tuple[str | None, int | None]:
    """The column that a name means, and the exponent of its unit: `t_us`, `timestamp [ns]`, `time(s)`, `x@640`."""
    stem, *rest = re.split(r"[\s_\-\[\](){}/.]+", _SENSOR_SIDE.sub("", name).rstrip("])} "))
    column = _NAMES.get(stem)
    if rest and (column != "t" or len(rest) > 1 or rest[0] not in _TIME_EXPONENTS):
        return None, None
    return column, _TIME_EXPONENTS[rest[0]] if rest else None


def _named(names: Sequence[str], source: str) -> tuple[dict[str, int], int | None]:
    columns: dict[str, int] = {}
    exponent: int | None = None
    for index, name in enumerate(names):
        column, unit = _meant(name)
        if column is None:
            continue
        if column in columns:
            raise UserError(f"{source}: two of its columns are called {column} ({', '.join(names)}); rename one.")
        columns[column] = index
        exponent = unit if column == "t" else exponent
    return columns, exponent


def _lines(text: bytes, is_whole: bool) -> list[bytes]:
    lines = text.split(b"\n")
    return lines if is_whole else lines[:-1]


def _rows(lines: list[bytes], delimiter: bytes) -> list[Tokens]:
    """The first rows of numbers, up to a line that is something else."""
    rows: list[Tokens] = []
    for line in lines:
        if len(rows) == _MOST_ROWS:
            break
        if is_comment(line):
            continue
        tokens = tokens_of(line, delimiter)
        if not _are_numbers(tokens) or (rows and len(tokens) != len(rows[0])):
            break
        rows.append(tokens)
    return rows


def _ordered(rows: list[Tokens], source: str) -> tuple[dict[str, int], None]:
    """Columns without names: the only order in which coordinates fit a sensor and polarities are polarities.

    Where more than one fits, the only one of these in which times do not run backwards.
    """
    if len(rows[0]) != 4:
        raise UserError(
            f"{source}: its rows have {len(rows[0])} numbers, and no first line says which are which; name them, for "
            "example t,x,y,p."
        )
    columns = _columns([row for row in rows if len(row) == 4])
    fitting = [order for order in _ORDERS if _fits(order, columns)]
    if len(fitting) > 1:
        fitting = [order for order in fitting if all(now <= then for now, then in pairwise(columns[order.index("t")]))]
    if len(fitting) != 1:
        raise UserError(
            f"{source}: cannot tell which of its 4 columns are x, y, t and p; name them in a first line, for example "
            "t,x,y,p."
        )
    return {name: index for index, name in enumerate(fitting[0])}, None


def _fits(order: str, columns: list[list[int | float]]) -> bool:
    named = dict(zip(order, columns, strict=True))
    return all(_are_coordinates(named[name]) for name in "xy") and set(named["p"]) <= {-1, 0, 1}


def _exponent(times: Tokens) -> int:
    """Fractions are seconds, whole numbers microseconds, or nanoseconds where only that makes sense."""
    for token in times:
        value = number_of(token)
        places = len(token.partition(b".")[2])
        if value is not None and (value != int(value) or (places >= _SECONDS_PLACES and b"e" not in token.lower())):
            return 6
        if value is not None and abs(value) >= EPOCH_NS:
            return -3
    return 0
