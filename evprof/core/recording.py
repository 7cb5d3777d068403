"""The log everyone reads: append-only columns in memory, one writer per stream, any number of cursors.

Rows carry the bulk; a mailbox beside them carries lifecycle messages in the same order. A reader takes the messages
first and the rows after, so that whoever has seen "ended" has seen every row of that run. It knows no file and no pipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from evprof.core.messages import Message
from evprof.core.records import STREAM_OF, STREAMS, Record, column_kinds

_FIRST_CAPACITY = 256


class IntColumn:
    """Growing int64 column; views handed out stay valid because growth replaces the buffer instead of resizing it."""

    def __init__(self) -> None:
        self._buffer: npt.NDArray[np.int64] = np.empty(_FIRST_CAPACITY, dtype=np.int64)

    def put(self, start: int, values: Sequence[int]) -> None:
        """Writes `values` from row `start` on; rows before it stay."""
        needed = start + len(values)
        if needed > len(self._buffer):
            grown = np.empty(max(needed, 2 * len(self._buffer)), dtype=np.int64)
            grown[:start] = self._buffer[:start]
            self._buffer = grown
        self._buffer[start:needed] = values

    def view(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Rows start…stop-1, read-only and without copying."""
        window = self._buffer[start:stop]
        window.flags.writeable = False
        return window


class ObjectColumn:
    """Growing column of str or bytes. Equal values are kept once: every repeat brings the same pictures again."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._known: dict[Any, Any] = {}

    def put(self, start: int, values: Sequence[Any]) -> None:
        """Writes `values` from row `start` on; rows before it stay."""
        known = self._known
        self._values[start:] = [known.setdefault(value, value) for value in values]

    def view(self, start: int, stop: int) -> list[Any]:
        """Rows start…stop-1 as a new list."""
        return self._values[start:stop]


class Stream:
    """All rows of one record type. One thread appends; any thread reads up to `len(stream)`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.record_type = STREAMS[name]
        self.column_names: tuple[str, ...] = tuple(column_kinds(name))
        self._columns = tuple(IntColumn() if kind == "int" else ObjectColumn() for kind in column_kinds(name).values())
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Appends rows given as tuples in column order; they become visible together, after all columns are written.

        Rows that do not fit raise (ValueError, OverflowError) and leave the stream as it was.
        """
        if not rows:
            return
        for column, values in zip(self._columns, zip(*rows, strict=True), strict=True):
            column.put(self._length, values)
        self._length += len(rows)

    def column(self, name: str, start: int = 0, stop: int | None = None) -> Any:
        """One column of rows start…stop-1: int64 array (read-only) or list of str/bytes."""
        end = self._length if stop is None else min(stop, self._length)
        return self._columns[self.column_names.index(name)].view(start, end)

    def rows(self, start: int = 0, stop: int | None = None) -> list[Record]:
        """Rows start…stop-1 as records."""
        end = self._length if stop is None else min(stop, self._length)
        columns: list[list[Any]] = []
        for column in self._columns:
            view = column.view(start, end)
            columns.append(view.tolist() if isinstance(view, np.ndarray) else view)
        make = cast("Any", self.record_type)
        return [make(*values) for values in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Update:
    """What a cursor found new: messages in order, then per stream the half-open row range [start, stop)."""

    messages: list[Message] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.messages or self.ranges)


class RecordLog:
    """Streams by name and a mailbox. Everything that is drawn, saved, exported or computed is read from here."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {name: Stream(name) for name in STREAMS}
        self._mailbox: list[Message] = []

    def append(self, record: Record) -> None:
        """Appends one record to its stream. Only that stream's writer may call this."""
        self.streams[STREAM_OF[type(record)]].extend([record])

    def extend(self, stream: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Appends rows to one stream. Only that stream's writer may call this."""
        self.streams[stream].extend(rows)

    def post(self, message: Message) -> None:
        """Puts a lifecycle message after every row appended so far. Any thread may call this."""
        self._mailbox.append(message)

    def cursor(self) -> Cursor:
        """A new reader that starts at the beginning."""
        return Cursor(self)

    def messages(self, start: int = 0, stop: int | None = None) -> list[Message]:
        """Messages start…stop-1 in order."""
        return self._mailbox[start:stop]

    @property
    def message_count(self) -> int:
        """How many messages were posted so far."""
        return len(self._mailbox)

    @property
    def row_count(self) -> int:
        """Rows of all streams together."""
        return sum(len(stream) for stream in self.streams.values())


class Cursor:
    """One reader's place in a log."""

    def __init__(self, recording: RecordLog) -> None:
        self.recording = recording
        self._rows = dict.fromkeys(STREAMS, 0)
        self._messages = 0

    def read(self) -> Update:
        """Everything new since the last call. Never blocks the writer."""
        message_stop = self.recording.message_count
        messages = self.recording.messages(self._messages, message_stop)
        self._messages = message_stop
        ranges: dict[str, tuple[int, int]] = {}
        for name, stream in self.recording.streams.items():
            start, stop = self._rows[name], len(stream)
            if stop > start:
                ranges[name] = (start, stop)
                self._rows[name] = stop
        return Update(messages, ranges)
