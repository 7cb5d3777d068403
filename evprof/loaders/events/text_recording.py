"""Event recordings kept as text (`.csv`, `.txt`, also gzipped): one event per line.

A window of an uncompressed text in time order converts only the lines around it: it is found by byte offsets.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.budget import PACKED_RATIO, Budget
from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE, EventArray
from evprof.loaders.events.pieces import PiecedRecording, Pieces
from evprof.loaders.events.recording import (
    NO_EVENTS,
    EventRecording,
    EventsInMemory,
    FileBytes,
    FileRecording,
    RecordingInfo,
    joined,
)
from evprof.loaders.events.text_sniffing import (
    GZIP_MAGIC,
    LONGEST_LINE,
    TextLayout,
    is_comment,
    number_of,
    sniffed,
    tokens_of,
)
from evprof.loaders.paths import opened_file, reason

FORMAT = "csv"

_SNIFFED_BYTES = 1 << 16
_READ_WHOLE_BYTES = 4 << 20
"""Shorter texts are read at once: a quarter of a second at most, and then everything about them is known."""

_LEAST_PIECE = 1 << 18
_MOST_PIECES = 4096
_CHUNK_BYTES = 4 << 20
_BLOCK_BYTES = 1 << 18
"""Text converted at once: its intermediate arrays stay in the processor's cache."""

_EVENT_LINE = re.compile(rb"^[ \t\r]*[^#%\s]", re.MULTILINE)
"""The begin of a line that is no comment and not empty."""

_WORD = re.compile(rb"(?<![^,; \t\n])(?:[Tt]rue|[Ff]alse)(?![^,; \t\r\n])")
_LATEST_US = 2**61
_MOST_DIGITS = 17
_NEWLINE, _POINT = b"\n."


def open_recording(path: str | Path) -> EventRecording:
    file = FileBytes(path)
    is_packed = file.at(0, 2) == GZIP_MAGIC
    recording = PackedText(file) if is_packed else Text(file)
    if file.size > (_READ_WHOLE_BYTES // 8 if is_packed else _READ_WHOLE_BYTES):
        return recording
    with recording:
        return ShortText(recording)


class ShortText(EventsInMemory):
    """A text that was read at once."""

    def __init__(self, text: Text | PackedText) -> None:
        super().__init__(text.path, FORMAT, text.read())
        self._layout = text.layout

    @property
    def info(self) -> RecordingInfo:
        """The sensor's size is the text's own where it states one."""
        layout, known = self._layout, super().info
        width, height = layout.width or known.width, layout.height or known.height
        return replace(known, width=width, height=height, details=layout.details)


class Text(PiecedRecording):
    """An open text, cut into pieces of whole lines."""

    def _begin(self) -> None:
        file = self._file
        head, tail = file.at(0, _SNIFFED_BYTES), None
        if file.size > len(head):
            tail = file.at(max(len(head) - 1, file.size - _SNIFFED_BYTES), _SNIFFED_BYTES)
        self.layout = sniffed(head, tail, self.path)

    @cached_property
    def info(self) -> RecordingInfo:
        """The number of events is known only after reading the whole file."""
        layout = self.layout
        return RecordingInfo(FORMAT, None, layout.width, layout.height, *self._limits_us(), layout.details)

    def chunks(self) -> Iterator[EventArray]:
        start, size = self.layout.begin, self._file.size
        while start < size:
            text = self._file.at(start, min(_CHUNK_BYTES, size - start))
            if start + len(text) < size:
                text = text[: text.rfind(b"\n") + 1]
            if not text:
                raise UserError(f"{self.path}: a line is longer than {_CHUNK_BYTES:,} bytes; events have short ones.")
            events = self._events(text, start)
            if len(events):
                yield events
            start += len(text)

    @cached_property
    def _pieces(self) -> Pieces:
        size = max(_LEAST_PIECE, self._file.size // _MOST_PIECES)
        places = range(self.layout.begin, self._file.size, size)
        known = [event for place in places if (event := self._event_at(place, place + size)) is not None]
        edges = np.array([*(start for start, _ in known), self._file.size], dtype=np.int64)
        return Pieces(np.array([time for _, time in known], dtype=np.int64), None, edges)

    def _decoded(self, start: int, stop: int) -> EventArray:
        first, last = int(self._pieces.edges[start]), int(self._pieces.edges[stop])
        return self._events(self._file.at(first, last - first), first)

    def _event_at(self, place: int, stop: int) -> tuple[int, int] | None:
        """Offset and time of the first event line that begins in place…stop; None without one."""
        is_within = place > self.layout.begin
        start = place - is_within
        for length in (512, 4 * LONGEST_LINE):
            text = self._file.at(start, length)
            # The line that begins before `place` belongs to the piece before.
            first = text.find(b"\n") + 1 if is_within else 0
            line = _EVENT_LINE.search(text, first) if first or not is_within else None
            end = -1 if line is None else text.find(b"\n", line.start())
            if line is not None and (end >= 0 or start + len(text) >= self._file.size):
                begin = start + line.start()
                if begin >= stop:
                    return None
                whole = text[line.start() : end if end >= 0 else len(text)]
                return begin, int(self._events(whole, begin).t_us[0])
        return None

    def _events(self, text: bytes, offset: int) -> EventArray:
        return events_of_text(text, self.layout, self.path, lambda: self._lines_before(offset))

    def _lines_before(self, offset: int) -> int:
        starts = range(0, offset, _CHUNK_BYTES)
        return sum(self._file.at(start, min(_CHUNK_BYTES, offset - start)).count(b"\n") for start in starts)


class PackedText(FileRecording):
    """An open gzipped text, which is read from the start."""

    def _begin(self) -> None:
        head = next(self._unpacked(), b"")
        self.layout = sniffed(head[:_SNIFFED_BYTES], None if len(head) < _SNIFFED_BYTES else b"", self.path)

    @property
    def info(self) -> RecordingInfo:
        """Number and times of events are known only after unpacking the whole file."""
        layout = self.layout
        return RecordingInfo(FORMAT, None, layout.width, layout.height, details=layout.details)

    def chunks(self) -> Iterator[EventArray]:
        rest, lines, skipped = b"", 0, self.layout.begin
        for text in self._unpacked():
            # The lines before the first event lie within the first piece: sniffing reads no more than that.
            lines += text.count(b"\n", 0, skipped)
            joint = rest + text[skipped:]
            skipped = 0
            whole = joint[: joint.rfind(b"\n") + 1]
            rest = joint[len(whole) :]
            if len(rest) > LONGEST_LINE:
                raise UserError(f"{self.path}: a line is longer than {LONGEST_LINE:,} bytes; events have short ones.")
            yield from self._events(whole, lines)
            lines += whole.count(b"\n")
        yield from self._events(rest, lines)

    def _events(self, text: bytes, lines: int) -> Iterator[EventArray]:
        events = events_of_text(text, self.layout, self.path, lambda: lines)
        if len(events):
            yield events

    def _unpacked(self) -> Iterator[bytes]:
        """The text in pieces. Raises UserError for damage, and for a file that unpacks to more than its budget."""
        budget = Budget(self.path, self._file.size, PACKED_RATIO)
        try:
            with opened_file(self.path) as file, gzip.GzipFile(fileobj=file, mode="rb") as source:
                while text := source.read(_CHUNK_BYTES):
                    budget.take(len(text))
                    yield text
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(
                f"{self.path}: the gzip file is damaged or cut short ({reason(error)}); copy it again."
            ) from None


def events_of_text(text: bytes, layout: TextLayout, source: str, lines_before: Callable[[], int]) -> EventArray:
    """The events of whole lines. `lines_before` counts the lines of the file before them, for an error.

    Raises UserError that names the first line that is no event.
    """
    parts: list[EventArray] = []
    start = 0
    while start < len(text):
        stop = text.rfind(b"\n", start, start + _BLOCK_BYTES) + 1
        stop = stop or text.find(b"\n", start) + 1 or len(text)
        events = all_at_once(text[start:stop], layout)
        if events is None:
            events = one_by_one(text[start:stop], layout, source, lambda: lines_before() + text.count(b"\n", 0, start))  # noqa: B023 - called before the next turn
        parts.append(events)
        start = stop
    return joined(parts)


def all_at_once(block: bytes, layout: TextLayout) -> EventArray | None:  # noqa: PLR0911 - one for each check
    """The events of lines that are all built alike; None where they are not, or a line is no event."""
    if layout.has_words:
        block = _WORD.sub(lambda word: b"1" if word[0][0] in b"Tt" else b"0", block)
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if layout.delimiter and b" " in block:
        block = block.replace(layout.delimiter + b" ", layout.delimiter)
    block = block if block.endswith(b"\n") else block + b"\n"
    text = np.frombuffer(block, dtype=np.uint8)
    is_newline = text == _NEWLINE
    delimiters = layout.delimiter or b" \t"
    is_mark = is_newline | (text == delimiters[0]) | (text == delimiters[-1])
    if layout.delimiter and (b" " in block or is_mark[0] or (is_mark[1:] & is_mark[:-1]).any()):
        return None
    edges = np.flatnonzero(np.diff(is_mark, prepend=True))
    starts, ends = edges[::2], edges[1::2]
    rows, rest = divmod(len(starts), layout.tokens)
    newlines = np.flatnonzero(is_newline)
    if rest or len(newlines) != rows or rows == 0:
        return None
    if (np.searchsorted(starts, newlines) != np.arange(1, rows + 1) * layout.tokens).any():
        return None
    t = layout.columns["t"]
    points = np.flatnonzero(text == _POINT)
    time_starts, time_ends = starts.reshape(rows, -1)[:, t], ends.reshape(rows, -1)[:, t]
    has_points = len(points) == rows and bool(((time_starts < points) & (points < time_ends - 1)).all())
    has_exponents = b"e" in block or b"E" in block
    has_points = has_points and layout.exponent >= 0 and not has_exponents
    is_whole = has_points or not (has_exponents or len(points))
    # Whole numbers and the digits after a point are read as two numbers, which is exact.
    blanks = delimiters + b"." * has_points
    plain = block.translate(bytes.maketrans(blanks, b" " * len(blanks)))
    values = _numbers(plain, np.int64 if is_whole else np.float64, rows, layout.tokens + has_points)
    if values is None:
        return None
    x, y, p = (values[:, index + (has_points and index > t)] for index in (layout.columns[name] for name in "xyp"))
    if has_points:
        # Only a polarity may have a sign: that of -0.5 is lost.
        is_signed = block.count(b"-") != np.count_nonzero(p == -1)
        digits = time_ends - points - 1
        t_us = None if is_signed else _pointed_times(values[:, t], values[:, t + 1], digits, layout.exponent)
    else:
        t_us = _times(values[:, t], layout.exponent)
    if t_us is None or not all((column == np.floor(column)).all() for column in (x, y, p)):
        return None
    limits = ((x, 0, MAX_COORDINATE), (y, 0, MAX_COORDINATE), (p, -1, 1), (t_us, -_LATEST_US, _LATEST_US))
    if any(column.min() < low or column.max() > high for column, low, high in limits):
        return None
    return EventArray.from_columns(x, y, t_us, p)


def _numbers(text: bytes, dtype: Any, rows: int, columns: int) -> npt.NDArray[Any] | None:
    """Numbers between blanks, [rows, columns]; None for other text."""
    try:
        # Other text ends the numbers early, with a warning that programs can turn into an error.
        values = np.fromstring(text, dtype, sep=" ")
    except (ValueError, DeprecationWarning):
        return None
    if len(values) != rows * columns or (dtype is np.float64 and not np.isfinite(values).all()):
        return None
    return values.reshape(rows, columns)


def _pointed_times(
    whole: npt.NDArray[np.int64], fraction: npt.NDArray[np.int64], digits: npt.NDArray[np.int64], exponent: int
) -> npt.NDArray[np.int64] | None:
    """Times in µs from whole numbers and the `digits` digits after their points, rounded half up."""
    if digits.max() > _MOST_DIGITS or whole.max() > _LATEST_US // 10**exponent:
        return None
    power = 10 ** np.maximum(digits - exponent, 0)
    parts_us = (fraction * 10 ** np.maximum(exponent - digits, 0) + power // 2) // power
    times_us: npt.NDArray[np.int64] = whole * 10**exponent + parts_us
    return times_us


def _times(times: npt.NDArray[Any], exponent: int) -> npt.NDArray[np.int64] | None:
    """Times in µs, rounded half up, nanoseconds cut off; None where they may be inexact."""
    is_whole = times.dtype.kind == "i"
    if not (is_whole and exponent <= 0):
        most = np.abs(times).max()
        if most > _LATEST_US / 10**exponent or (exponent <= 0 and most >= 2**53):
            return None
    scaled: npt.NDArray[Any]
    if is_whole:
        scaled = times * 10**exponent if exponent > 0 else times // 10**-exponent
    else:
        scaled = np.floor(times * 10.0**exponent + (0.5 if exponent >= 0 else 0.0))
    return scaled.astype(np.int64, copy=False)


def one_by_one(block: bytes, layout: TextLayout, source: str, lines_before: Callable[[], int]) -> EventArray:
    """The events of lines. Raises UserError for a line that is none."""
    rows: list[tuple[int, int, int, int]] = []
    for number, line in enumerate(block.split(b"\n"), start=1):
        if is_comment(line):
            continue
        event = _event(line, layout)
        if isinstance(event, str):
            place = lines_before() + number
            raise UserError(f"{source}: line {place} is no event ({event}); correct it or cut it out.")
        rows.append(event)
    return EventArray.from_columns(*zip(*rows, strict=True), source=source) if rows else NO_EVENTS


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
    time, exponent = values["t"], layout.exponent
    if not abs(time) <= _LATEST_US * 1000:
        return f"its time is {time:g}, which no clock shows"
    if isinstance(time, int):
        t_us = time // 10**-exponent if exponent < 0 else time * 10**exponent
    else:
        t_us = math.floor(time * 10.0**exponent + (0.5 if exponent >= 0 else 0.0))
    if abs(t_us) > _LATEST_US:
        return f"its time is {time:g}, which no clock shows"
    return int(values["x"]), int(values["y"]), t_us, int(values["p"])
