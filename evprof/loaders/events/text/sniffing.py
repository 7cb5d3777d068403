"""Tells from the first and last lines of a text whether they are events, and how: delimiter, columns, unit of time.

It reads no files and converts no recordings (see `evprof.loaders.events.text.rows`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE
from evprof.loaders.events.columns import NAMES

LONGEST_LINE = 1 << 16
"""Bytes; events take some 20."""

_LEAST_ROWS = 2
_COORDINATES = 2
_MOST_ROWS = 200
"""At either end: enough to tell what the columns are."""

_COMMENTS = (b"#", b"%")
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_TRUTH = {b"true": b"1", b"false": b"0"}
_SENSOR_SIDE = re.compile(r"@([0-9]{1,5})\Z")
_DELIMITERS = (b",", b";", b"\t", b"")

# t,x,y,p is that of most data sets and of faery; x,y,p,t that of Metavision; x,y,t,p that of arrays saved as text.
_ORDERS = ("txyp", "xytp", "xypt")

_TIME_EXPONENTS = {"s": 6, "sec": 6, "seconds": 6, "ms": 3, "us": 0, "µs": 0, "usec": 0, "ns": -3, "nsec": -3}
_OTHER_NAMES = {"on": "p", "sign": "p", "col": "x", "column": "x", "row": "y"}
_SECONDS_PLACES = 3
"""Digits after the point from which on times are seconds even where they are all zero."""

_EPOCH_NS = 10**17
"""Whole times beyond are nanoseconds since 1970: as microseconds they would be in the year 5138."""

Tokens = list[bytes]


@dataclass(frozen=True)
class TextLayout:
    """How the lines of a text hold events.

    `delimiter` is one byte, or empty for runs of blanks; each line has `tokens`; `columns` are the numbers of those
    that are x, y, t, p. A time is `10 ** exponent` µs per unit. `begin` is the offset of the first event. `width` and
    `height` stand where the text begins with a sensor's size.
    """

    delimiter: bytes
    tokens: int
    columns: dict[str, int]
    exponent: int
    begin: int
    has_words: bool
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True)
class _Start:
    """What stands before the first event."""

    begin: int
    delimiter: bytes
    names: tuple[str, ...] | None
    size: tuple[int, int] | None


def looks_like_events(head: bytes, *, is_whole: bool) -> bool:
    """Whether a text of this beginning has at least two rows of at least four numbers that can be events.

    One row is enough where a line before it names x, y, t and p. Rows whose columns have no names must be four: one of
    polarities and two of coordinates beside the time. Tables of poses, of inertial measurements and of results are no
    events.
    """
    start = None if b"\0" in head else _start(head)
    if start is None:
        return False
    rows = _rows(_lines(head[start.begin :], is_whole), start.delimiter)
    if start.names is not None:
        return bool(rows)
    if len(rows) < _LEAST_ROWS:
        return False
    columns = [[number_of(token) for token in column] for column in zip(*rows, strict=True)]
    polarities = [column for column in columns if set(column) <= {-1, 0, 1}]
    coordinates = [
        column
        for column in columns
        if all(isinstance(value, int | float) and 0 <= value <= MAX_COORDINATE and value % 1 == 0 for value in column)
    ]
    others = len(coordinates) - sum(column in coordinates for column in polarities[:1])
    return len(columns) == 4 and len(polarities) >= 1 and others >= _COORDINATES


def sniffed(head: bytes, tail: bytes | None, source: str) -> TextLayout:
    """The layout of a text that begins and ends like this; `tail` None means that the head is all of it.

    Raises UserError.
    """
    start = _start(head)
    rows = [] if start is None else _rows(_lines(head[start.begin :], tail is None), start.delimiter)
    if start is None or not rows:
        raise UserError(f"{source}: its lines are no events; rows of at least four numbers (t, x, y, p) are expected.")
    # The tail begins somewhere within a line.
    rows += _rows((tail or b"").split(b"\n")[1:], start.delimiter)
    if start.names is not None:
        columns, exponent = _named(start.names, source)
    else:
        columns, exponent = _ordered(rows, source), None
    if exponent is None:
        exponent = _exponent([row[columns["t"]] for row in rows if len(row) > columns["t"]])
    has_words = any(token.lower() in _TRUTH for row in rows for token in row)
    return TextLayout(
        start.delimiter, len(rows[0]), columns, exponent, start.begin, has_words, *(start.size or (None, None))
    )


def tokens_of(line: bytes, delimiter: bytes) -> Tokens:
    """The tokens of a line, without blanks around them."""
    return [token.strip() for token in line.split(delimiter)] if delimiter else line.split()


def number_of(token: bytes) -> int | float | None:
    """What a token says: a number, True or False; None if it is neither, or no finite one."""
    token = _TRUTH.get(token.lower(), token)
    if not _NUMBER.match(token):
        return None
    if token.lstrip(b"+-").isdigit() and len(token) < 20:
        return int(token)
    number = float(token)
    return number if math.isfinite(number) else None


def columns_text(layout: TextLayout) -> dict[str, str]:
    """Columns and unit of time for people."""
    names = sorted(layout.columns, key=lambda name: layout.columns[name])
    return {"columns": ", ".join(names), "time_unit": {6: "s", 3: "ms", 0: "µs", -3: "ns"}[layout.exponent]}


def is_comment(line: bytes) -> bool:
    """Whether a line holds nothing to read."""
    line = line.strip()
    return not line or line.startswith(_COMMENTS)


def _start(head: bytes) -> _Start | None:
    """None when the text does not begin as events do."""
    offset = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    names: tuple[str, ...] | None = None
    size: tuple[int, int] | None = None
    is_first = True
    for line in head[offset:].split(b"\n"):
        if not is_comment(line):
            delimiter = next((mark for mark in _DELIMITERS if _numbers(tokens_of(line, mark))), None)
            if delimiter is not None:
                return _Start(offset, delimiter, names, size)
            pair = [number_of(token) for token in re.split(rb"[\s,;]+", line.strip())]
            if is_first and len(pair) == 2 and all(isinstance(part, int) and 0 < part < 16_385 for part in pair):
                size = (int(pair[0] or 0), int(pair[1] or 0))
            elif names is None and (found := _names(line)) is not None:
                names, size = found, _size(found)
            else:
                return None
            is_first = False
        elif (found := _names(line.strip().lstrip(b"#% "))) is not None:
            names = found
        offset += len(line) + 1
    return None


def _numbers(tokens: Tokens) -> bool:
    return len(tokens) >= 4 and all(number_of(token) is not None for token in tokens)


def _names(line: bytes) -> tuple[str, ...] | None:
    """The tokens of a line that names x, y, t and p among others; None if it does not."""
    text = line.decode("utf-8", "replace")
    for delimiter in (",", ";", "\t", None):
        found = tuple(token.strip().strip("\"'").lower() for token in text.strip().split(delimiter))
        if {"x", "y", "t", "p"} <= {column for name in found if (column := _meant(name)[0]) is not None}:
            return found
    return None


def _size(names: tuple[str, ...]) -> tuple[int, int] | None:
    """The sensor's size where names hold it, as faery's do: x@640, y@480."""
    sides = {_meant(name)[0]: int(side[1]) for name in names if (side := _SENSOR_SIDE.search(name))}
    return (sides["x"], sides["y"]) if set(sides) == {"x", "y"} and min(sides.values()) > 0 else None


def _meant(name: str) -> tuple[str | None, int | None]:
    """Which column a name means, and the exponent of the unit in it: `t_us`, `timestamp [ns]`, `time(s)`, `x@640`."""
    name = _SENSOR_SIDE.sub("", name)
    plain = re.sub(r"[\s_\-\[\](){}/.]+", " ", name).strip()
    for column, spellings in NAMES.items():
        if plain in (spelling.replace("_", " ") for spelling in spellings if spelling != "t_us"):
            return column, None
    if plain in _OTHER_NAMES:
        return _OTHER_NAMES[plain], None
    stem, _, unit = plain.rpartition(" ")
    if unit in _TIME_EXPONENTS and _meant(stem)[0] == "t":
        return "t", _TIME_EXPONENTS[unit]
    return None, None


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
    """The lines that are rows of numbers, up to the first that is something else, or to enough of them."""
    rows: list[Tokens] = []
    for line in lines:
        if len(rows) == _MOST_ROWS:
            break
        if is_comment(line):
            continue
        tokens = tokens_of(line, delimiter)
        if not _numbers(tokens) or (rows and len(tokens) != len(rows[0])):
            break
        rows.append(tokens)
    return rows


def _ordered(rows: list[Tokens], source: str) -> dict[str, int]:
    """Columns without names: the only order in which coordinates fit a sensor and polarities are polarities.

    Where more than one fits, the only one of these in which times do not run backwards.
    """
    if len(rows[0]) != 4:
        raise UserError(
            f"{source}: its rows have {len(rows[0])} numbers, and no first line says which are which; name them, for "
            "example t,x,y,p."
        )
    table = [[number_of(token) for token in row] for row in rows if len(row) == 4]
    columns = [[value for value in column if value is not None] for column in zip(*table, strict=True)]
    fitting = [order for order in _ORDERS if _fits(order, columns)]
    if len(fitting) > 1:
        fitting = [order for order in fitting if _is_sorted(columns[order.index("t")])]
    if len(fitting) != 1:
        raise UserError(
            f"{source}: cannot tell which of its 4 columns are x, y, t and p; name them in a first line, for example "
            "t,x,y,p."
        )
    return {name: index for index, name in enumerate(fitting[0])}


def _fits(order: str, columns: list[list[int | float]]) -> bool:
    named = dict(zip(order, columns, strict=True))
    coordinates = all(0 <= value <= MAX_COORDINATE and value == int(value) for name in "xy" for value in named[name])
    return coordinates and set(named["p"]) <= {-1, 0, 1}


def _is_sorted(times: list[int | float]) -> bool:
    return all(earlier <= later for earlier, later in pairwise(times))


def _exponent(times: Tokens) -> int:
    """Fractions are seconds, whole numbers microseconds, or nanoseconds where only that makes sense."""
    for token in times:
        value = number_of(token)
        places = len(token.partition(b".")[2])
        if value is not None and (value != int(value) or (places >= _SECONDS_PLACES and b"e" not in token.lower())):
            return 6
        if value is not None and abs(value) >= _EPOCH_NS:
            return -3
    return 0
