"""The thread that an engine's drafts run in beside their targets: one for all its runs.

A new thread brings an OpenMP pool and a memory arena of its own; a process that began one for each run grew by 0.8 MB
a run. It knows nothing of what is done in it.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable

NAME = "evprof-draft"


class DraftWorker:
    """One thread, begun on first use, that does one piece of work after the other; it ends with its owner."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: threading.Event | None = None
        # Whoever drops an engine without closing it leaves no thread behind.
        self._ends = weakref.finalize(self, self._work.put, None)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being done and nothing waits."""
        return self._last is None or self._last.is_set()

    def do(self, work: Callable[[], None]) -> threading.Event:
        """Has `work`, which raises nothing, done after all that was asked for before; the event is set when it is."""
        if self._thread is None:
            self._thread = threading.Thread(target=_work_off, args=(self._work,), name=NAME, daemon=True)
            self._thread.start()
        done = self._last = threading.Event()

        def finished() -> None:
            try:
                work()
            finally:
                done.set()

        self._work.put(finished)
        return done

    def close(self) -> None:
        """Ends the thread after what it was given; another piece of work begins a new one."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            thread.join()


def _work_off(work: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    # Not a method: the thread must not keep its owner alive.
    while (piece := work.get()) is not None:
        piece()
        del piece  # what a run held is not kept until the next one
