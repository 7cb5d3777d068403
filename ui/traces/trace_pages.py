"""Opens the trace window, and has the traces of shown runs beside their stages; imports neither before it is needed."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from evprof.core.run_log import RunLog
from ui.runs.inspector import Inspector
from ui.state.run_controller import RunController
from ui.style.theme import ThemeHolder
from ui.timeline.timeline_view import TimelineView

if TYPE_CHECKING:
    from ui.traces.run_traces import RunTraces


class TracePages(QObject):
    """One trace window at a time; a further trace is opened in it."""

    def __init__(
        self,
        window: QWidget,
        controller: RunController,
        timeline: TimelineView,
        inspector: Inspector,
        holder: ThemeHolder,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._controller = controller
        self._timeline = timeline
        self._inspector = inspector
        self._holder = holder
        self.run_traces: RunTraces | None = None
        controller.runs_changed.connect(self._look)
        controller.session_replaced.connect(self._look)
        timeline.selection.runs_changed.connect(self._look)
        self._look()

    def show_newest(self) -> None:
        """The trace of the run in B or A, else the newest of the session; an empty window without any."""
        from ui.traces.run_traces import trace_file

        runs = self._controller.runs
        newest = (run for run_id in sorted(runs, reverse=True) if (run := runs[run_id]).info.profiled)
        found = (trace_file(run) for run in chain(reversed(self._shown), newest))
        self.show_trace(next((path for path in found if path is not None), None))

    def show_trace(self, path: Path | None) -> None:
        """Opens a trace; None: asks for one."""
        from ui.traces.window import TraceDialog

        dialog = next((shown for shown in self._window.findChildren(TraceDialog) if shown.isVisible()), None)
        if dialog is None:
            dialog = TraceDialog(self._holder, self._window)
        dialog.show()
        dialog.activateWindow()
        if path is not None:
            dialog.open_trace(path)

    @property
    def _shown(self) -> list[RunLog]:
        """The runs in A and B."""
        found = (self._controller.run(run_id) for run_id in self._timeline.selection.runs)
        return [run for run in found if run is not None]

    def _look(self, *_: object) -> None:
        """From the first run with a trace on, lanes of it stand ready."""
        if self.run_traces is not None:
            return
        if any(run.info.trace_path for run in self._shown):
            from ui.traces.run_traces import RunTraces

            self.run_traces = RunTraces(self._timeline)
            self._inspector.more = self.run_traces.sections

    def close(self) -> None:
        if self.run_traces is not None:
            self.run_traces.reading.close()
