"""Reads a trace and computes its figures on a thread, reports progress, and can be stopped."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal

from evprof.core.errors import Cancelled, UserError
from evprof.metrics.traces.roles import FUNCTION, slice_roles, text_mask
from evprof.view.trace_rows import TraceLane, trace_lanes

if TYPE_CHECKING:
    from evprof.loaders.traces.reading import TraceProgress
    from evprof.metrics.traces.analysis import TraceAnalysis

_OWN_SPANS = frozenset({"Trace"})
_LONGEST_STOP_S = 10.0
_PACE_S = 0.1
"""Time between two reports of progress."""

_SHOWN = ("overview", "operators", "operators_by_shapes", "kernels", "memory", "problems")
"""What the pages need of an analysis."""


@dataclass(frozen=True)
class ReadTrace:
    """A trace with all that its window shows."""

    path: Path
    analysis: TraceAnalysis
    lanes: tuple[TraceLane, ...]


class TraceReading(QObject):
    """One file at a time; a new request stops the one before.

    Signals, on the window's thread:
        went_on(float, int): the share that is read, and the number of entries.
        done(object): the ReadTrace.
        failed(str): why it cannot be read.
    """

    went_on = Signal(float, int)
    done = Signal(object)
    failed = Signal(str)
    _came = Signal(int, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._number = 0
        self._stop = threading.Event()
        self.is_busy = False
        self._threads: list[threading.Thread] = []
        self._came.connect(self._take, Qt.ConnectionType.QueuedConnection)

    def read(self, path: Path) -> None:
        self.stop()
        self._stop = threading.Event()
        self.is_busy = True
        arguments = self._number, path, self._stop
        thread = threading.Thread(target=self._work, args=arguments, name="evprof-trace", daemon=True)
        self._threads = [*(one for one in self._threads if one.is_alive()), thread]
        thread.start()

    def stop(self) -> None:
        self._number += 1
        self._stop.set()
        self.is_busy = False

    def close(self) -> None:
        """Stops, and waits for threads; the owner calls this before it is deleted."""
        self.stop()
        for thread in self._threads:
            thread.join(_LONGEST_STOP_S)

    def _work(self, number: int, path: Path, stop: threading.Event) -> None:
        # Not at the start of the window, which shows no trace.
        from evprof.loaders.traces.reading import read_trace
        from evprof.metrics.traces.analysis import TraceAnalysis

        told_at = 0.0

        def tell(progress: TraceProgress) -> None:
            nonlocal told_at
            if (now := time.monotonic()) - told_at >= _PACE_S and not stop.is_set():
                told_at = now
                self._came.emit(number, (progress.read_bytes / max(progress.file_bytes, 1), progress.entries))

        try:
            result: object = _computed(path, TraceAnalysis(read_trace(path, tell, stop)), stop)
        except Cancelled:
            return
        except UserError as error:
            result = error.sentence
        if not stop.is_set():
            self._came.emit(number, result)

    def _take(self, number: int, result: object) -> None:
        if number != self._number:
            return
        if isinstance(result, tuple):
            self.went_on.emit(*result)
            return
        self.is_busy = False
        (self.failed if isinstance(result, str) else self.done).emit(result)


def _computed(path: Path, analysis: TraceAnalysis, stop: threading.Event) -> ReadTrace:
    """All that the pages show, so that the window's thread computes nothing."""
    trace = analysis.trace
    for name in _SHOWN:
        if stop.is_set():
            raise Cancelled
        getattr(analysis, name)
    is_function = slice_roles(trace.texts, trace.slices.categories, trace.slices.names) == FUNCTION
    # Kineto's own span over everything is no work.
    is_work = ~text_mask(trace.texts, _OWN_SPANS.__contains__)[trace.slices.categories]
    return ReadTrace(path, analysis, trace_lanes(trace, is_work & ~is_function))
