"""What a process had recorded when it was killed: a file in shared memory, which outlives `kill -9`.

Each time rows come into a record log (or, in an engine process, into its queue), an entry is written: stream, how many
rows it has now, the time. It costs the watched process a microsecond or so.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path
from typing import Any

from evprof.core.records import STREAM_OF, STREAMS

_ENTRY = struct.Struct("<iiq")
_HEAD = struct.Struct("<q")
_MOST = 400_000
_NAMES = tuple(STREAMS)

MEASURED = tuple(name for name in _NAMES if name not in ("memory", "power"))
"""Streams that an engine fills; the others are samples of the host."""


class Diary:
    """Writes entries."""

    def __init__(self, path: Path) -> None:
        size = _HEAD.size + _MOST * _ENTRY.size
        with path.open("w+b") as file:
            file.truncate(size)
            self._map = mmap.mmap(file.fileno(), size)
        self._count = 0
        self._rows = dict.fromkeys(_NAMES, 0)

    def note(self, stream: str, more: int) -> None:
        """So many rows came into a stream."""
        self._rows[stream] += more
        if self._count >= _MOST:
            return
        at = _HEAD.size + self._count * _ENTRY.size
        _ENTRY.pack_into(self._map, at, _NAMES.index(stream), self._rows[stream], time.monotonic_ns())
        self._count += 1
        _HEAD.pack_into(self._map, 0, self._count)


def entries_of(path: Path) -> list[tuple[str, int, int]]:
    """Stream, rows so far and time in ns, as they were written; none when the process had not begun."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return []  # it is just being made
        data = file.read(_HEAD.unpack(head)[0] * _ENTRY.size)
    return [(_NAMES[stream], rows, at_ns) for stream, rows, at_ns in _ENTRY.iter_unpack(data)]


def keep_diary_of_logs(path: Path) -> None:
    """From now on in this process: of all that comes into record logs."""
    from evprof.core.recording import Stream

    diary, extend = Diary(path), Stream.extend

    def noted(self: Stream, rows: Any) -> None:
        extend(self, rows)
        if rows:
            diary.note(self.name, len(rows))

    Stream.extend = noted  # type: ignore[method-assign]  # that is how it watches


def keep_diary_of_engine(path: Path) -> None:
    """From now on in this engine process: of all that is recorded, sent to the host or not yet."""
    from evprof.run.processes.queue_sink import QueueSink

    diary, append = Diary(path), QueueSink.append

    def noted(self: QueueSink, record: Any) -> None:
        append(self, record)
        diary.note(STREAM_OF[type(record)], 1)

    QueueSink.append = noted  # type: ignore[method-assign]  # that is how it watches


def lost_ms(entries: list[tuple[str, int, int]], saved: dict[str, int], killed_ns: int) -> tuple[float, float]:
    """How much was lost, in ms: from the first lost record to the last one, and to the kill. Zeros for nothing."""
    lost = [at_ns for stream, rows, at_ns in entries if stream in MEASURED and rows > saved.get(stream, 0)]
    if not lost:
        return 0.0, 0.0
    return (max(lost) - min(lost)) / 1e6, (killed_ns - min(lost)) / 1e6
