"""Converts lines of text to events: digits of regular lines all at once, other lines one after the other.

It knows the layout it is given, and opens no files.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE, EventArray
from evprof.loaders.events.recording import NO_EVENTS, joined
from evprof.loaders.events.text.sniffing import TextLayout, is_comment, number_of, tokens_of

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.signedinteger[Any]]
"""Offsets in a text, or small whole numbers."""

_WORD = re.compile(rb"(?<![^,; \t\n])(?:[Tt]rue|[Ff]alse)(?![^,; \t\r\n])")

_BLOCK_BYTES = 1 << 18
"""Text converted at once: its positions and digits stay in the processor's cache."""

_LATEST_US = 2**61
_ZERO, _ONE, _MINUS, _POINT, _NEWLINE = b"01-.\n"
_LONGEST_TIME = 18
"""Digits that int64 is certain to hold."""

_LONGEST_COORDINATE = 5


def events_of_text(text: bytes, layout: TextLayout, source: str, lines_before: Callable[[], int]) -> EventArray:
    """The events of whole lines. `lines_before` tells how many lines the file has before them, if a sentence needs it.

    Raises UserError that names the first line that is no event.
    """
    parts: list[EventArray] = []
    start = 0
    while start < len(text):
        stop = text.rfind(b"\n", start, start + _BLOCK_BYTES) + 1
        stop = stop or text.find(b"\n", start) + 1 or len(text)
        block = text[start:stop]
        events = _regular(block, layout)
        if events is None:
            events = _irregular(block, layout)
        if events is None:
            events = _one_by_one(block, layout, source, lambda: lines_before() + text.count(b"\n", 0, start))  # noqa: B023 - called before the next turn
        parts.append(events)
        start = stop
    return joined(parts)


def time_of_line(line: bytes, layout: TextLayout) -> int | None:
    """The time in µs of one line, or None if it is no event."""
    event = _event(line, layout)
    return None if isinstance(event, str) else event[2]


# --- all at once ------------------------------------------------------------------------------------------------------


def _regular(block: bytes, layout: TextLayout) -> EventArray | None:
    """Events of lines that are all built alike; None where they are not, or one is no event."""
    block = _plain(block, layout)
    text = np.frombuffer(block, dtype=np.uint8)
    minus: Places | None = None
    if b"-" in block:
        # Polarities of -1 become 00; whether it is polarities that they are is seen below.
        minus = np.flatnonzero(text == _MINUS)
        if minus[-1] + 2 >= len(text) or (text[minus + 1] != _ONE).any():
            return None
        text = text.copy()
        text[minus] = text[minus + 1] = _ZERO
    marks = np.flatnonzero(text - np.uint8(_ZERO) > 9)
    build = _built(text[marks[: int(np.searchsorted(marks, block.index(b"\n"))) + 1]], layout)
    if build is None or len(marks) % build.marks or (not layout.delimiter and not (np.diff(marks) > 1).all()):
        return None
    ends = marks.reshape(-1, build.marks)
    lines = text[ends]
    if not (lines == lines[0]).all():
        return None
    x, y = (_whole(text, _field(ends, build.fields[name]), _LONGEST_COORDINATE) for name in "xy")
    p = _polarities(text, _field(ends, build.fields["p"]), minus)
    t_us = _times(text, ends, build, layout.exponent)
    if x is None or y is None or p is None or t_us is None or max(int(x.max()), int(y.max())) > MAX_COORDINATE:
        return None
    return EventArray(x.astype(np.uint16), y.astype(np.uint16), t_us, p)


def _plain(block: bytes, layout: TextLayout) -> bytes:
    """Without what differs between writers and says nothing: words for polarities, returns, blanks after commas."""
    if layout.has_words:
        block = _WORD.sub(lambda word: b"1" if word[0][0] in b"Tt" else b"0", block)
    # One byte is looked for many times faster than two.
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if layout.delimiter and b" " in block:
        block = block.replace(layout.delimiter + b" ", layout.delimiter)
    return block if block.endswith(b"\n") else block + b"\n"


class _Field(NamedTuple):
    """Where a field of each line begins and ends, int32 [lines], and the least and most digits."""

    start: Places
    end: Places
    least: int
    most: int


class _Build:
    """The marks (bytes that are no digits) of a line, and which of the fields before them are x, y, t, p.

    `fraction` is the field of the digits after the point of t.
    """

    def __init__(self, marks: int, fields: dict[str, int], fraction: int | None) -> None:
        self.marks = marks
        self.fields = fields
        self.fraction = fraction


def _built(marks: Bytes, layout: TextLayout) -> _Build | None:
    """What lines with these marks are made of; None where they have others than delimiters and a point in the time."""
    wanted = {token: name for name, token in layout.columns.items()}
    fields: dict[str, int] = {}
    fraction: int | None = None
    token = 0
    for field, mark in enumerate(bytes(marks)):
        if token in wanted and field != fraction:
            fields[wanted[token]] = field
        if mark == _POINT:
            if wanted.get(token) != "t" or field == fraction:
                return None
            fraction = field + 1
        elif bytes([mark]) == layout.delimiter or (not layout.delimiter and mark in b" \t"):
            token += 1
        elif mark != _NEWLINE:
            return None
    return _Build(len(marks), fields, fraction) if token + 1 == layout.tokens else None


def _field(ends: Places, field: int) -> _Field:
    end: Places = ends[:, field].astype(np.int32)
    start: Places = np.empty_like(end)
    if field:
        start[:] = ends[:, field - 1]
    else:
        start[0] = -1
        start[1:] = ends[:-1, -1]
    start += 1
    lengths = end - start
    return _Field(start, end, int(lengths.min()), int(lengths.max()))


def _whole(text: Bytes, field: _Field, longest: int) -> Places | None:
    """Values of fields of digits, int64 (int32 where they fit); None if one is empty or longer than `longest`."""
    if field.least < 1 or field.most > longest:
        return None
    value: Places = np.take(text, field.end - 1).astype(np.int32 if field.most < 10 else np.int64)
    value -= _ZERO
    lengths = field.end - field.start
    for place in range(1, field.most):
        digit: Places = np.take(text, field.end - (place + 1), mode="clip").astype(value.dtype)
        digit -= _ZERO
        if place >= field.least:
            digit *= lengths > place
        digit *= 10**place
        value += digit
    return value


def _polarities(text: Bytes, field: _Field, minus: Places | None) -> Bytes | None:
    if field.least < 1 or field.most > 2:
        return None
    p: Bytes = np.take(text, field.end - 1) - np.uint8(_ZERO)
    if int(p.max()) > 1:
        return None
    signed = field.start[field.end - field.start == 2]
    if minus is None:
        return p if len(signed) == 0 else None
    return p if len(signed) == len(minus) and (signed == minus).all() else None


def _times(text: Bytes, ends: Places, build: _Build, exponent: int) -> npt.NDArray[np.int64] | None:
    """In µs, rounded half up; nanoseconds are cut off."""
    found = _whole(text, _field(ends, build.fields["t"]), _LONGEST_TIME)
    if found is None:
        return None
    whole = found.astype(np.int64)
    if exponent < 0:
        whole //= 10**-exponent
        return whole
    if int(whole.max()) > _LATEST_US // 10**exponent:
        return None
    whole *= 10**exponent
    if build.fraction is not None:
        fraction = _field(ends, build.fraction)
        if fraction.least < 1:
            return None
        lengths = fraction.end - fraction.start
        tenths = np.zeros(len(lengths), dtype=np.int32)
        for place in range(min(fraction.most, exponent + 1)):
            digit: Places = np.take(text, fraction.start + place, mode="clip").astype(np.int32)
            digit -= _ZERO
            if place >= fraction.least:
                digit *= lengths > place
            digit *= 10 ** (exponent - place)
            tenths += digit
        tenths += 5
        tenths //= 10
        whole += tenths
    return whole


# --- one after the other ----------------------------------------------------------------------------------------------


def _irregular(block: bytes, layout: TextLayout) -> EventArray | None:
    """Events of lines that numpy can read (other spacing, exponents, comments); None where one is no event."""
    lines = [line for line in _plain(block, layout).split(b"\n") if not is_comment(line)]
    if not lines:
        return NO_EVENTS
    if any(len(tokens_of(line, layout.delimiter)) != layout.tokens for line in lines):
        return None
    is_whole = layout.exponent <= 0 and not any(mark in block for mark in (b".", b"e", b"E"))
    kinds = [(name, np.int64 if name == "t" and is_whole else np.float64) for name in "xytp"]
    try:
        found = np.loadtxt(
            io.StringIO(b"\n".join(lines).decode("latin-1")),
            dtype=np.dtype(kinds),
            delimiter=layout.delimiter.decode() or None,
            usecols=[layout.columns[name] for name, _ in kinds],
            comments=None,
            ndmin=1,
        )
    except (ValueError, OverflowError):
        return None
    times = found["t"]
    if is_whole:
        t_us = times // 10**-layout.exponent
    else:
        with np.errstate(over="ignore"):  # what becomes infinite is none, see below
            t_us = np.floor(times * 10.0**layout.exponent + (0.5 if layout.exponent >= 0 else 0.0))
    columns = (found["x"], found["y"], t_us, found["p"])
    if not all(np.isfinite(column).all() and (column == np.floor(column)).all() for column in columns):
        return None
    limits = ((0, MAX_COORDINATE), (0, MAX_COORDINATE), (-_LATEST_US, _LATEST_US), (-1, 1))
    if any(column.min() < low or column.max() > high for column, (low, high) in zip(columns, limits, strict=True)):
        return None
    return EventArray.from_columns(*columns)


def _one_by_one(block: bytes, layout: TextLayout, source: str, lines_before: Callable[[], int]) -> EventArray:
    rows: list[tuple[int, int, int, int]] = []
    for number, line in enumerate(block.split(b"\n")):
        if is_comment(line):
            continue
        event = _event(line, layout)
        if isinstance(event, str):
            raise UserError(
                f"{source}: line {lines_before() + number + 1} is no event ({event}); correct it or cut it out."
            )
        rows.append(event)
    if not rows:
        return NO_EVENTS
    return EventArray.from_columns(*zip(*rows, strict=True), source=source)


def _event(line: bytes, layout: TextLayout) -> tuple[int, int, int, int] | str:
    """x, y, time in µs and polarity of a line, or what is wrong with it."""
    tokens = tokens_of(line, layout.delimiter)
    if len(tokens) != layout.tokens:
        return f"it has {len(tokens)} values where {layout.tokens} are expected"
    values: dict[str, int | float] = {}
    for name, index in layout.columns.items():
        value = number_of(tokens[index])
        if value is None:
            return f"{tokens[index][:20].decode('ascii', 'replace')!r} is no number"
        values[name] = value
    for name, low, high in (("x", 0, MAX_COORDINATE), ("y", 0, MAX_COORDINATE), ("p", -1, 1)):
        if not low <= values[name] <= high or values[name] != int(values[name]):
            return f"{name} is {values[name]:g}, where a whole number from {low} to {high} is expected"
    time = values["t"]
    if layout.exponent < 0 and isinstance(time, int):
        t_us = time // 10**-layout.exponent
    elif isinstance(time, int):
        t_us = time * 10**layout.exponent
    elif not abs(time) <= _LATEST_US:
        return f"its time is {time:g}, which no clock shows"
    else:
        t_us = math.floor(time * 10.0**layout.exponent + (0.5 if layout.exponent >= 0 else 0.0))
    if abs(t_us) > _LATEST_US:
        return f"its time is {time:g}, which no clock shows"
    return int(values["x"]), int(values["y"]), t_us, int(values["p"])
