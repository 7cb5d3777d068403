"""The log everyone reads: append-only columns in memory, one writer per stream, any number of cursors.

Rows carry the bulk; a mailbox beside them carries lifecycle messages in the same order. A reader takes the messages
first and the rows after, so that whoever has seen "ended" has seen every row of that run. It knows no file and no pipe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from evprof.core.protocols import Message
from evprof.core.records import STREAM_OF, STREAMS, Record, column_kinds

_FIRST_CAPACITY = 64


class IntColumn:
    """Growing int64 column; views handed out stay valid because growth replaces the buffer instead of resizing it."""

    @cached_property
    def _buffer(self) -> npt.NDArray[np.int64]:
        return np.empty(_FIRST_CAPACITY, dtype=np.int64)

    def put(self, start: int, values: Sequence[int] | npt.NDArray[np.int64]) -> None:
        """Writes `values` from row `start` on; rows before it stay."""
        needed = start + len(values)
        if needed > len(self._buffer):
            grown = np.empty(max(needed, 2 * len(self._buffer)), dtype=np.int64)
            grown[:start] = self._buffer[:start]
            self._buffer = grown
        self._buffer[start:needed] = values

    def held(self, length: int) -> npt.NDArray[np.int64]:
        """The first rows, to be changed in place."""
        return self._buffer[:length]

    def view(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Rows start…stop-1, read-only and without copying."""
        window = self._buffer[start:stop]
        window.flags.writeable = False
        return window


class Texts(NamedTuple):
    """Text of rows as numbers of the words that it is of: int64 codes, shape (rows,), and the words they count."""

    codes: npt.NDArray[np.int64]
    words: Sequence[str]

    def texts(self) -> list[str]:
        return list(map(self.words.__getitem__, self.codes.tolist()))


class WordCodes(dict[str, int]):
    """The number of each word, in order of their first being asked for; `words` holds them by number."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def __missing__(self, word: str) -> int:
        # The word first: whoever sees the number may look it up at once.
        self.words.append(word)
        code = self[word] = len(self.words) - 1
        return code


class TextColumn:
    """Growing column of str: the same few words again and again, so each is kept once and rows hold its number."""

    def __init__(self) -> None:
        self.codes = IntColumn()
        self.known = WordCodes()

    def put(self, start: int, values: Sequence[str] | Texts) -> None:
        if isinstance(values, Texts):
            numbers = np.array([self.known[word] for word in values.words], dtype=np.int64)
            self.codes.put(start, numbers[values.codes])
        else:
            self.codes.put(start, list(map(self.known.__getitem__, values)))

    def view(self, start: int, stop: int) -> list[str]:
        return Texts(self.codes.view(start, stop), self.known.words).texts()


class BlobColumn:
    """Growing column of bytes. Equal values are kept once: every repeat brings the same pictures again."""

    def __init__(self) -> None:
        self._values: list[bytes] = []
        self._known: dict[bytes, bytes] = {}

    def put(self, start: int, values: Sequence[bytes]) -> None:
        self._values[start:] = [self._known.setdefault(value, value) for value in values]

    def view(self, start: int, stop: int) -> list[bytes]:
        return self._values[start:stop]


_COLUMNS: dict[str, type[IntColumn] | type[TextColumn] | type[BlobColumn]] = {
    "int": IntColumn,
    "str": TextColumn,
    "bytes": BlobColumn,
}


class Stream:
    """All rows of one record type. One thread appends; any thread reads up to `len(stream)`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.record_type = STREAMS[name]
        self.column_names: tuple[str, ...] = tuple(column_kinds(name))
        self._columns = tuple(_COLUMNS[kind]() for kind in column_kinds(name).values())
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Appends rows given as tuples in column order; they become visible together, after all columns are written.

        Rows that do not fit raise (ValueError, OverflowError) and leave the stream as it was.
        """
        if not rows:
            return
        self.extend_columns(tuple(zip(*rows, strict=True)))

    def extend_columns(self, columns: Sequence[Any]) -> None:
        """Appends rows given column by column, equally long: ints, texts (or `Texts`), bytes; visible together."""
        for column, values in zip(self._columns, columns, strict=True):
            column.put(self._length, values)
        # The first column is a number, and as long as the others.
        self._length += len(columns[0])

    def column(self, name: str, start: int = 0, stop: int | None = None) -> Any:
        """One column of rows start…stop-1: int64 array (read-only) or list of str/bytes."""
        end = self._length if stop is None else min(stop, self._length)
        return self._columns[self.column_names.index(name)].view(start, end)

    def texts(self, name: str, start: int = 0, stop: int | None = None) -> Texts:
        column = self._columns[self.column_names.index(name)]
        if not isinstance(column, TextColumn):
            raise TypeError(f"{name} is no text")
        end = self._length if stop is None else min(stop, self._length)
        return Texts(column.codes.view(start, end), column.known.words)

    def rows(self, start: int = 0, stop: int | None = None) -> list[Any]:
        end = self._length if stop is None else min(stop, self._length)
        columns: list[list[Any]] = []
        for column in self._columns:
            view = column.view(start, end)
            columns.append(view.tolist() if isinstance(view, np.ndarray) else view)
        # What a NamedTuple's own constructor does, less reading its arguments one by one: a third of the time.
        make = partial(tuple.__new__, self.record_type)
        return list(map(make, zip(*columns, strict=True)))


@dataclass(frozen=True)
class Update:
    """What a cursor found new: messages in order, then per stream the half-open row range [start, stop)."""

    messages: list[Message] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.messages or self.ranges)


class RowSource(Protocol):
    """A file that holds the rows of runs until they are needed."""

    def __contains__(self, run_id: object) -> bool: ...

    def rows(self, run_id: int) -> tuple[RecordLog, str]:
        """The rows of a run, and "" or why they are left out. Raises UserError where the file is gone."""

    def figures(self, run_id: int) -> Mapping[str, Any] | None:
        """The figures that are stored with a run; None without any."""

    def note_fetched(self, run: Any) -> None:
        """Registers a run whose rows are in memory now; the source may free those of others."""


class RecordLog:
    """Streams by name and a mailbox. Everything that is drawn, saved, exported or computed is read from here."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {name: Stream(name) for name in STREAMS}
        self._mailbox: list[Message] = []
        self.source: RowSource | None = None
        """The file with the rows of runs that were started without any."""

    def append(self, record: Record) -> None:
        """Appends one record to its stream. Only that stream's writer may call this."""
        self.streams[STREAM_OF[type(record)]].extend([record])

    def extend(self, stream: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self.streams[stream].extend(rows)

    def post(self, message: Message) -> None:
        """Puts a lifecycle message after every row appended so far. Any thread may call this."""
        self._mailbox.append(message)

    def cursor(self) -> Cursor:
        return Cursor(self)

    def messages(self, start: int = 0, stop: int | None = None) -> list[Message]:
        return self._mailbox[start:stop]

    @property
    def message_count(self) -> int:
        return len(self._mailbox)

    @property
    def row_count(self) -> int:
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
