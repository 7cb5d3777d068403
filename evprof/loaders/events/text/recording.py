"""Opens event recordings kept as text (`.csv`, `.txt`, also gzipped), and reads windows of them.

A text in time order is bisected by byte offsets: only the lines around a window are converted. Memory is bounded by the
window and a block.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path

import numpy as np

from evprof.core.budget import PACKED_RATIO, Budget
from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.file_bytes import FileBytes
from evprof.loaders.events.file_head import HEAD_BYTES
from evprof.loaders.events.file_recording import FileRecording
from evprof.loaders.events.pieces import PiecedRecording, Pieces
from evprof.loaders.events.recording import EventRecording, EventsInMemory, RecordingInfo
from evprof.loaders.events.text.rows import events_of_text, time_of_line
from evprof.loaders.events.text.sniffing import LONGEST_LINE, columns_text, looks_like_events, sniffed
from evprof.loaders.paths import reason

FORMAT = "csv"
GZIP_MAGIC = b"\x1f\x8b"

_SNIFFED_BYTES = 1 << 16
_READ_WHOLE_BYTES = 4 << 20
"""Shorter texts are read at once: a quarter of a second at most, and then everything about them is known."""

_LEAST_PIECE = 1 << 18
_MOST_PIECES = 4096
_CHUNK_BYTES = 4 << 20
_EVENT_LINE = re.compile(rb"^[ \t\r]*[^#%\s]", re.MULTILINE)
"""The begin of a line that is no comment and not empty."""


def begins_as_text(head: bytes) -> bool:
    """Whether the first bytes of a file, maybe gzipped, are rows of at least four numbers, and no other table."""
    if head.startswith(GZIP_MAGIC):
        try:
            return looks_like_events(zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES), is_whole=False)
        except zlib.error:
            return False
    # A head of the full length may end within a line.
    return looks_like_events(head, is_whole=len(head) < HEAD_BYTES)


def open_recording(path: str | Path) -> EventRecording:
    """A recording kept as text. Raises UserError."""
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
        """The sensor's size is the text's own where it tells one."""
        layout, known = self._layout, super().info
        width, height = layout.width or known.width, layout.height or known.height
        return replace(known, width=width, height=height, details=dict(columns_text(layout)))


class Text(PiecedRecording):
    """An open text, cut into pieces of whole lines."""

    def _begin(self) -> None:
        file = self._file
        head = file.at(0, _SNIFFED_BYTES)
        tail = None
        if file.size > len(head):
            tail = file.at(max(len(head) - 1, file.size - _SNIFFED_BYTES), _SNIFFED_BYTES)
        self.layout = sniffed(head, tail, self.path)

    @cached_property
    def info(self) -> RecordingInfo:
        """The number of events only reading it all would tell."""
        low, high = self._limits_us()
        layout = self.layout
        return RecordingInfo(FORMAT, None, layout.width, layout.height, low, high, dict(columns_text(layout)))

    def chunks(self) -> Iterator[EventArray]:
        """Some hundred thousand events each."""
        return self._between(self.layout.begin, self._file.size)

    def _first_share(self) -> float:
        return _CHUNK_BYTES / (self._file.size - self.layout.begin)

    @cached_property
    def _pieces(self) -> Pieces:
        size = max(_LEAST_PIECE, self._file.size // _MOST_PIECES)
        places = range(self.layout.begin, self._file.size, size)
        found = [self._event_at(place, place + size) for place in places]
        known = [event for event in found if event is not None]
        edges = np.array([*(start for start, _ in known), self._file.size], dtype=np.int64)
        return Pieces(np.array([time for _, time in known], dtype=np.int64), None, edges)

    def _decoded(self, start: int, stop: int) -> EventArray:
        ends = self._pieces.edges.tolist()
        text = self._file.at(ends[start], ends[stop] - ends[start])
        return self._events(text, ends[start])

    def _event_at(self, place: int, stop: int) -> tuple[int, int] | None:
        """Where the first event between these places begins, and its time; None if there is none."""
        start = place
        # A place of its own is a line's begin only where the byte before it ends one.
        is_within = place > self.layout.begin
        for length in chain((512,), repeat(4 * LONGEST_LINE)):
            if start >= stop:
                return None
            text = self._file.at(start - is_within, length)
            end = len(text) if start - is_within + len(text) >= self._file.size else text.rfind(b"\n") + 1
            first = text.find(b"\n") + 1 if is_within else 0
            line = _EVENT_LINE.search(text, first, end)
            if line is not None and (first or not is_within):
                begin = line.start()
                after = text.find(b"\n", begin) + 1 or len(text)
                return start - is_within + begin, self._time(text[begin:after], start - is_within + begin)
            if length > LONGEST_LINE:
                if not end or start - is_within + end >= self._file.size:
                    return None
                start, is_within = start - is_within + end, False
        return None

    def _time(self, line: bytes, offset: int) -> int:
        time = time_of_line(line, self.layout)
        if time is None:
            self._events(line, offset)
            raise UserError(f"{self.path}: cannot be read around byte {offset}.")
        return time

    def _between(self, start: int, stop: int) -> Iterator[EventArray]:
        """Events of the lines from `start` up to `stop`, which lie between lines."""
        while start < stop:
            text = self._file.at(start, min(_CHUNK_BYTES, stop - start))
            if start + len(text) < stop:
                text = text[: text.rfind(b"\n") + 1]
            if not text:
                raise UserError(f"{self.path}: a line is longer than {_CHUNK_BYTES:,} bytes; events have short ones.")
            events = self._events(text, start)
            if len(events):
                yield events
            start += len(text)

    def _events(self, text: bytes, offset: int) -> EventArray:
        return events_of_text(text, self.layout, self.path, lambda: self._lines_before(offset))

    def _lines_before(self, offset: int) -> int:
        return sum(
            self._file.at(start, min(_CHUNK_BYTES, offset - start)).count(b"\n")
            for start in range(0, offset, _CHUNK_BYTES)
        )


class PackedText(FileRecording):
    """An open gzipped text: only to be read from the start."""

    def _begin(self) -> None:
        with closing(self._unpacked()) as unpacked:
            head = next(unpacked, b"")
        self.layout = sniffed(head[:_SNIFFED_BYTES], None if len(head) < _SNIFFED_BYTES else b"", self.path)

    @property
    def info(self) -> RecordingInfo:
        """Neither events nor times are known before all is unpacked."""
        layout = self.layout
        return RecordingInfo(FORMAT, None, layout.width, layout.height, details=dict(columns_text(layout)))

    def chunks(self) -> Iterator[EventArray]:
        """Some hundred thousand events each."""
        rest = b""
        lines = 0
        skipped = self.layout.begin
        for text in self._unpacked():
            # What stands before the first event lies within the first piece: sniffing saw no more than that.
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

    def _unpacked(self) -> Generator[bytes]:
        """The text in pieces. Raises UserError for damage, and for what grows as no recording does."""
        budget = Budget(self.path, self._file.size, PACKED_RATIO)
        with gzip.GzipFile(fileobj=_Reader(self._file), mode="rb") as source:
            while text := self._unpacked_piece(source):
                budget.take(len(text))
                yield text

    def _unpacked_piece(self, source: gzip.GzipFile) -> bytes:
        try:
            return source.read(_CHUNK_BYTES)
        except (OSError, EOFError, zlib.error) as error:
            raise UserError(
                f"{self.path}: the gzip file is damaged or cut short ({reason(error)}); copy it again."
            ) from None


class _Reader(io.RawIOBase):
    """What gzip reads from: the file from its start."""

    def __init__(self, file: FileBytes) -> None:
        self._file = file
        self._place = 0

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes."""
        found = self._file.at(self._place, self._file.size if size < 0 else size)
        self._place += len(found)
        return found
