"""The sink an engine writes into: an unbounded queue that another thread empties.

The engine thread only appends, whatever happens behind the queue; the test with a reader that stops for five seconds
holds it to that.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import Any

from evprof.core.messages import Message
from evprof.core.records import BEGIN, STREAM_OF, Record, SpanRecord
from evprof.run.processes.wire import Part

LARGEST_BATCH = 2000
"""Items taken at once at most: what piled up behind a slow reader arrives in pieces, so that a window stays alive."""


class QueueSink:
    """Appended to by the engine thread, emptied by one other thread."""

    def __init__(self) -> None:
        self._items: deque[Record | Message] = deque()
        # A lock as a bell: free means rung. Ringing never waits, unlike an Event, whose inner lock the woken reader
        # holds while it waits for the interpreter; the engine was seen to lose 5 to 20 ms between stages that way.
        self._bell = threading.Lock()
        self._bell.acquire()

    def append(self, record: Record) -> None:
        """Takes one record; the begin of a stage wakes the reader at once.

        Its end does not: the next stage begins, or a message comes, within a moment, and waking somebody between the
        two can cost the engine its processor in time that belongs to no stage.
        """
        self._items.append(record)
        if type(record) is SpanRecord and record.parent_id < 0 and record.phase == BEGIN:
            self.wake()

    def post(self, message: Message) -> None:
        """Takes one message and wakes the reader."""
        self._items.append(message)
        self.wake()

    def wake(self) -> None:
        """Ends the reader's wait, this one or the next."""
        with contextlib.suppress(RuntimeError):  # rung already
            self._bell.release()

    def wait(self, timeout_s: float | None) -> None:
        """Returns after `timeout_s`, or at once when something urgent came or waits."""
        if self._bell.acquire(timeout=-1 if timeout_s is None else timeout_s):
            self.wake()  # stays rung until something is taken

    def take(self) -> list[Part]:
        """Up to LARGEST_BATCH items in order: rows gathered by stream, each message after the rows before it."""
        # Silenced first: whatever is appended from here on rings again.
        self._bell.acquire(blocking=False)
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
