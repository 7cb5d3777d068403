"""Event recordings kept as text (`.csv`, `.txt`, also gzipped): one event per line.

A window of an uncompressed text in time order converts only the lines around it. An index of byte offsets finds them.
"""

from __future__ import annotations

import gzip
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
from evprof.loaders.events.blocks import BlockIndex, BlockRecording
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
"""Shorter texts are read at once, which takes half a second at most."""

_LEAST_PIECE = 1 << 18
_MOST_PIECES = 4096
_CHUNK_BYTES = 4 << 20
_BLOCK_BYTES = 1 << 18
"""Text converted at once: its intermediate arrays stay in the processor's cache."""

_EVENT_LINE = re.compile(rb"^[ \t\r]*[^#%\s]", re.MULTILINE)
"""The begin of a line that is neither a comment nor empty."""

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
        """The size of the sensor is the text's own if it states one."""
        layout, known = self._layout, super().info
        width, height = layout.width or known.width, layout.height or known.height
        return replace(known, width=width, height=height, details=layout.details)


class Text(BlockRecording):
    """An open text, cut into blocks of whole lines."""

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
        return RecordingInfo(FORMAT, None, layout.width, layout.height, *self._limits_us, layout.details)

    def chunks(self) -> Iterator[EventArray]:
        return self._between(self.layout.begin, self._file.size)

    @cached_property
    def _index(self) -> BlockIndex:
        size = max(_LEAST_PIECE, self._file.size // _MOST_PIECES)
        places = range(self.layout.begin, self._file.size, size)
        starts = [start for place in places if (start := self._event_at(place, place + size)) is not None]
        first_us = [self._first_us(start) for start in starts]
        edges = np.array([*starts, self._file.size], np.int64)
        return BlockIndex.of_first_times(np.array(first_us, np.int64), edges=edges)

    def _decoded(self, start: int, stop: int) -> EventArray:
        edges = self._index.edges
        return joined(self._between(int(edges[start]), int(edges[stop])))

    def _between(self, start: int, stop: int) -> Iterator[EventArray]:
        """The events of the lines that begin in start…stop, both of which are begins of lines."""
        while start < stop:
            text = self._file.at(start, min(_CHUNK_BYTES, stop - start))
            if start + len(text) < stop:
                text = text[: text.rfind(b"\n") + 1]
            if not text:
                raise _too_long(self.path, _CHUNK_BYTES)
            if len(events := self._events(text, start)):
                yield events
            start += len(text)

    def _event_at(self, place: int, stop: int) -> int | None:
        """The offset of the first event line that begins in place…stop; None if none is near `place`."""
        is_first = place == self.layout.begin
        # The line that begins before `place` belongs to the block before.
        text = self._file.at(place if is_first else place - 1, 4 * LONGEST_LINE)
        first = 0 if is_first else text.find(b"\n") + 1
        line = _EVENT_LINE.search(text, first) if is_first or first else None
        begin = stop if line is None else place - (not is_first) + line.start()
        return begin if begin < stop else None

    def _first_us(self, start: int) -> int:
        line = self._file.at(start, LONGEST_LINE).split(b"\n", 1)[0]
        return int(self._events(line, start).t_us[0])

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
        for text in (*self._unpacked(), b"\n"):
            # The lines before the first event are within the first piece.
            lines += text.count(b"\n", 0, skipped)
            whole, newline, rest = (rest + text[skipped:]).rpartition(b"\n")
            skipped = 0
            if len(rest) > LONGEST_LINE:
                raise _too_long(self.path, LONGEST_LINE)
            before = lines
            if len(events := events_of_text(whole + newline, self.layout, self.path, lambda: before)):  # noqa: B023 - called before the next turn
                yield events
            lines += whole.count(b"\n") + len(newline)

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


def _too_long(path: str, most: int) -> UserError:
    return UserError(f"{path}: a line is longer than {most:,} bytes; events have short ones.")


def events_of_text(text: bytes, layout: TextLayout, source: str, lines_before: Callable[[], int]) -> EventArray:
    """The events of whole lines. `lines_before` counts the lines of the file before them, for an error.

    Raises UserError that names the first line that is no event.
    """
    parts: list[EventArray] = []
    start = 0
    while start < len(text):
        stop = text.rfind(b"\n", start, start + _BLOCK_BYTES) + 1
        stop = stop or text.find(b"\n", start) + 1 or len(text)
        block = text[start:stop]
        events = converted(block, layout)
        if events is None:
            events = converted(b"\n".join(line for line in block.split(b"\n") if not is_comment(line)), layout)
        if events is None:
            raise _first_problem(block, layout, source, lines_before() + text.count(b"\n", 0, start))
        parts.append(events)
        start = stop
    return joined(parts)


def converted(block: bytes, layout: TextLayout) -> EventArray | None:
    """The events of lines; None if a line is no event, or is empty."""
    if not block:
        return NO_EVENTS
    block = _plain(block, layout)
    text = np.frombuffer(block, np.uint8)
    is_newline = text == _NEWLINE
    is_end = is_newline | (text == (layout.delimiter or b" ")[0])
    rows, rest = divmod(int(np.count_nonzero(is_end)), layout.tokens)
    if rest or is_end[0] or (is_end[1:] & is_end[:-1]).any() or (layout.delimiter and b" " in block):
        return None
    ends = np.flatnonzero(is_end).reshape(rows, layout.tokens)
    if np.count_nonzero(is_newline) != rows or not is_newline[ends[:, -1]].all():
        return None
    t = layout.columns["t"]
    points = np.flatnonzero(text == _POINT)
    has_exponents = b"e" in block or b"E" in block
    if len(points) == rows and not has_exponents and layout.exponent >= 0:
        starts = ends[:, t - 1] if t else np.append(-1, ends[:-1, -1])
        if ((starts + 1 < points) & (points < ends[:, t] - 1)).all():
            events = _with_points(block, layout, rows, ends[:, t] - points - 1)
            if events is not None:
                return events
    dtype = np.float64 if len(points) or has_exponents else np.int64
    values = _numbers(block, layout.delimiter, dtype, rows)
    if values is None or values.shape[1] != layout.tokens:
        return None
    x, y, p, times = (values[:, layout.columns[name]] for name in "xypt")
    return _checked(x, y, _times(times, layout.exponent), p)


def _plain(block: bytes, layout: TextLayout) -> bytes:
    """The same lines with one mark between two tokens, and a newline at the end of each line."""
    if layout.has_words:
        block = _WORD.sub(lambda word: b"1" if word[0][0] in b"Tt" else b"0", block)
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    if layout.delimiter and b" " in block:
        block = re.sub(rb" *([%b\n]) *" % layout.delimiter, rb"\1", block)
    elif not layout.delimiter and (b"  " in block or b"\t" in block or b" \n" in block or b"\n " in block):
        block = re.sub(rb" ?\n ?", rb"\n", re.sub(rb"[ \t]+", b" ", block))
    block = block.strip(b" ")
    return block if block.endswith(b"\n") else block + b"\n"


def _with_points(block: bytes, layout: TextLayout, rows: int, digits: npt.NDArray[np.int64]) -> EventArray | None:
    """The events of lines in which only times have a point, with so many digits behind it; None for unusual times.

    Whole numbers and the digits after the point are read as two numbers, which is exact.
    """
    values = _numbers(block, layout.delimiter + b".", np.int64, rows)
    if values is None or values.shape[1] != layout.tokens + 1:
        return None
    t, exponent = layout.columns["t"], layout.exponent
    x, y, p = (values[:, index + (index > t)] for index in (layout.columns[name] for name in "xyp"))
    whole, fraction = values[:, t], values[:, t + 1]
    # Only a polarity may have a sign: that of -0.5 is lost.
    if block.count(b"-") != np.count_nonzero(p == -1):
        return None
    if digits.max() > _MOST_DIGITS or whole.max() > _LATEST_US // 10**exponent:
        return None
    power = 10 ** np.maximum(digits - exponent, 0)
    parts_us = (fraction * 10 ** np.maximum(exponent - digits, 0) + power // 2) // power
    return _checked(x, y, whole * 10**exponent + parts_us, p)


def _numbers(text: bytes, marks: bytes, dtype: Any, rows: int) -> npt.NDArray[Any] | None:
    """The numbers between blanks, newlines and `marks`, [rows, …]; None for other text."""
    blanks = marks + b"\n"
    try:
        # Other text ends the numbers early, with a warning that programs can turn into an error.
        values = np.fromstring(text.translate(bytes.maketrans(blanks, b" " * len(blanks))), dtype, sep=" ")
    except (ValueError, DeprecationWarning):
        return None
    columns, rest = divmod(len(values), rows)
    if rest or (dtype is np.float64 and not np.isfinite(values).all()):
        return None
    return values.reshape(rows, columns)


def _times(times: npt.NDArray[Any], exponent: int) -> npt.NDArray[np.int64] | None:
    """Times in µs, rounded half up, nanoseconds cut off; None for times that no clock shows."""
    if len(times) and max(abs(int(times.min())), abs(int(times.max()))) > _LATEST_US / 10.0**exponent:
        return None
    if times.dtype.kind == "f":
        return np.floor(times * 10.0**exponent + (0.5 if exponent >= 0 else 0.0)).astype(np.int64)
    scaled: npt.NDArray[np.int64] = times * 10**exponent if exponent > 0 else times // 10**-exponent
    return scaled


def _checked(x: Any, y: Any, t_us: npt.NDArray[np.int64] | None, p: Any) -> EventArray | None:
    if t_us is None or any(column.dtype.kind == "f" and (column != np.floor(column)).any() for column in (x, y, p)):
        return None
    limits = ((x, 0, MAX_COORDINATE), (y, 0, MAX_COORDINATE), (p, -1, 1), (t_us, -_LATEST_US, _LATEST_US))
    if any(column.min() < low or column.max() > high for column, low, high in limits):
        return None
    return EventArray.from_columns(x, y, t_us, p)


def _first_problem(block: bytes, layout: TextLayout, source: str, lines_before: int) -> UserError:
    for number, line in enumerate(block.split(b"\n"), start=lines_before + 1):
        if not is_comment(line) and (problem := _problem(line, layout)) is not None:
            return UserError(f"{source}: line {number} is no event ({problem}); correct it or cut it out.")
    return UserError(f"{source}: its lines are not built alike after line {lines_before}; export it again.")


def _problem(line: bytes, layout: TextLayout) -> str | None:
    """Why a line is no event; None for an event."""
    tokens = tokens_of(line, layout.delimiter)
    if len(tokens) != layout.tokens:
        return f"it has {len(tokens)} values where {layout.tokens} are expected"
    for token in tokens:
        if number_of(token) is None:
            return f"{token[:20].decode('ascii', 'replace')!r} is no number"
    values = {name: number_of(tokens[index]) or 0 for name, index in layout.columns.items()}
    for name, low, high in (("x", 0, MAX_COORDINATE), ("y", 0, MAX_COORDINATE), ("p", -1, 1)):
        if not low <= values[name] <= high or values[name] != int(values[name]):
            return f"{name} is {values[name]:g}, where a whole number from {low} to {high} is expected"
    if not abs(values["t"]) <= _LATEST_US / 10.0**layout.exponent:
        return f"its time is {values['t']:g}, which no clock shows"
    return None
