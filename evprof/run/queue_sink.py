"""The sink an engine writes into: an unbounded queue that another thread empties.

The engine thread only appends, whatever happens behind the queue; the test with a reader that stops for five seconds
holds it to that.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from evprof.core.messages import Message
from evprof.core.records import STREAM_OF, Record, SpanRecord
from evprof.run.wire import Part

LARGEST_BATCH = 2000
"""Items taken at once at most: what piled up behind a slow reader arrives in pieces, so that a window stays alive."""


class QueueSink:
    """Appended to by the engine thread, emptied by one other thread."""

    def __init__(self) -> None:
        self._items: deque[Record | Message] = deque()
        self._urgent = threading.Event()

    def append(self, record: Record) -> None:
        """Takes one record; the begin and end of a stage wake the reader at once."""
        self._items.append(record)
        if type(record) is SpanRecord and record.parent_id < 0:
            self._urgent.set()

    def post(self, message: Message) -> None:
        """Takes one message and wakes the reader."""
        self._items.append(message)
        self._urgent.set()

    def wake(self) -> None:
        """Ends the reader's wait."""
        self._urgent.set()

    def wait(self, timeout_s: float | None) -> None:
        """Returns after `timeout_s`, or at once when something urgent came or waits."""
        self._urgent.wait(timeout_s)

    def take(self) -> list[Part]:
        """Up to LARGEST_BATCH items in order: rows gathered by stream, each message behind the rows before it."""
        # Cleared first: whatever is appended from here on sets it again.
        self._urgent.clear()
        parts: list[Part] = []
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for _ in range(min(len(self._items), LARGEST_BATCH)):
            item = self._items.popleft()
            stream = STREAM_OF.get(type(item))  # type: ignore[arg-type]  # a message is no key, which is the question
            if stream is not None:
                rows.setdefault(stream, []).append(tuple(item))  # type: ignore[arg-type]  # records are tuples
                continue
            parts.extend(rows.items())
            rows = {}
            parts.append(item)  # type: ignore[arg-type]  # no record, so a message
        parts.extend(rows.items())
        return parts
