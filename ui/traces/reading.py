"""Reads a trace and works its figures out on a thread, tells how far it is, and can be stopped."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal

from evprof.core.errors import Cancelled, UserError
from evprof.loaders.traces.reading import TraceProgress, TraceSize, read_trace, trace_size
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.memory import Allocation
from evprof.metrics.traces.overview import TraceOverview
from evprof.metrics.traces.roles import FUNCTION, slice_roles, text_mask
from evprof.view.trace_rows import TraceLane, trace_lanes

MOST_ALLOCATIONS = 5_000
"""The largest ones are listed."""

_OWN_SPANS = frozenset({"Trace"})

_FIRST_FIGURES_S = 2.0
"""A file that takes longer shows figures of what was read, as often."""

_LONGEST_STOP_S = 10.0
_PACE_S = 0.1
"""How often the window hears how far a reading is."""


@dataclass(frozen=True)
class ReadTrace:
    """A trace with all that its window shows, worked out."""

    path: Path
    analysis: TraceAnalysis
    lanes: tuple[TraceLane, ...]
    function_lanes: tuple[TraceLane, ...]
    """The lanes with Python's functions among the calls; the same where none were recorded."""

    largest: Sequence[Allocation]


class TraceReading(QObject):
    """One file at a time; what was asked for before is stopped and forgotten.

    Signals, on the window's thread:
        sized(object): the TraceSize of the file, before it is read.
        went_on(float, int): the share that is read, and how many entries that were.
        seen_so_far(object): the TraceOverview of what was read, where the whole takes long.
        done(object): the ReadTrace.
        failed(str): why it cannot be read.
    """

    sized = Signal(object)
    went_on = Signal(float, int)
    seen_so_far = Signal(object)
    done = Signal(object)
    failed = Signal(str)
    _came = Signal(int, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._number = 0
        self._stop = threading.Event()
        self._is_busy = False
        self._threads: list[threading.Thread] = []
        self._came.connect(self._take, Qt.ConnectionType.QueuedConnection)

    @property
    def is_busy(self) -> bool:
        """Whether a file is being read."""
        return self._is_busy

    def read(self, path: Path) -> None:
        """Begins to read a file."""
        self.stop()
        self._stop = threading.Event()
        self._is_busy = True
        thread = threading.Thread(
            target=self._work, args=(self._number, path, self._stop), name="evprof-trace", daemon=True
        )
        self._threads = [*(one for one in self._threads if one.is_alive()), thread]
        thread.start()

    def stop(self) -> None:
        """Reads no further; nothing is told of it any more."""
        self._number += 1
        self._stop.set()
        self._is_busy = False

    def close(self) -> None:
        """Stops, and waits for threads: who owns it must call this before it goes away."""
        self.stop()
        for thread in self._threads:
            thread.join(_LONGEST_STOP_S)

    def _work(self, number: int, path: Path, stop: threading.Event) -> None:
        told_at, seen_at = 0.0, time.monotonic()

        def tell(progress: TraceProgress) -> None:
            nonlocal told_at, seen_at
            if (now := time.monotonic()) - told_at >= _PACE_S:
                told_at = now
                share = progress.read_bytes / max(progress.file_bytes, 1)
                self._tell(number, stop, (share, progress.entries))
            if now - seen_at >= _FIRST_FIGURES_S:
                self._tell(number, stop, TraceAnalysis(progress.so_far()).overview)
                seen_at = time.monotonic()

        try:
            self._tell(number, stop, trace_size(path))
            self._tell(number, stop, _worked_out(path, TraceAnalysis(read_trace(path, tell, stop)), stop))
        except Cancelled:
            return
        except UserError as error:
            self._tell(number, stop, error.sentence)

    def _tell(self, number: int, stop: threading.Event, told: object) -> None:
        if not stop.is_set():
            self._came.emit(number, told)

    def _take(self, number: int, told: object) -> None:
        if number != self._number:
            return
        if isinstance(told, tuple):
            self.went_on.emit(*told)
            return
        if isinstance(told, TraceSize):
            self.sized.emit(told)
            return
        if isinstance(told, TraceOverview) or told is None:
            self.seen_so_far.emit(told)
            return
        self._is_busy = False
        if isinstance(told, str):
            self.failed.emit(told)
        else:
            self.done.emit(told)


_SHOWN = (
    "overview",
    "operators",
    "operators_by_shapes",
    "operators_by_stack",
    "kernels",
    "kernels_by_launch",
    "modules",
    "advice",
    "problems",
)
"""What the pages ask of an analysis."""


def _worked_out(path: Path, analysis: TraceAnalysis, stop: threading.Event) -> ReadTrace:
    """All that the pages show, so that none of it is worked out on the window's thread."""
    trace = analysis.trace
    for name in _SHOWN:
        if stop.is_set():
            raise Cancelled
        getattr(analysis, name)
    is_function = slice_roles(trace.texts, trace.slices.categories, trace.slices.names) == FUNCTION
    # Kineto's own span over everything is no work of anybody's.
    is_work = ~text_mask(trace.texts, _OWN_SPANS.__contains__)[trace.slices.categories]
    lanes = trace_lanes(trace, is_work & ~is_function)
    with_functions = trace_lanes(trace, is_work) if is_function.any() else lanes
    found = analysis.memory.allocations
    order = heapq.nlargest(MOST_ALLOCATIONS, (found[place] for place in range(len(found))), key=lambda one: one.bytes)
    return ReadTrace(path, analysis, lanes, with_functions, order)
