"""Opens the trace window."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from evprof.core.run_log import RunLog
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder
from ui.widgets.text_dialogs import show_once


class TracePages(QObject):
    """One trace window at a time; a further trace is opened in it."""

    def __init__(self, window: QWidget, controller: RunController, selection: Selection, holder: ThemeHolder) -> None:
        super().__init__(window)
        self._window = window
        self._controller = controller
        self._selection = selection
        self._holder = holder

    def show_newest(self) -> None:
        """The trace of the run in B or A, else the newest of the session; an empty window without any."""
        runs = self._controller.runs
        shown = (self._controller.run(run_id) for run_id in reversed(self._selection.runs))
        newest = (run for run_id in sorted(runs, reverse=True) if (run := runs[run_id]).info.profiled)
        found = ((trace_file(run), f"run {run.run_id}") for run in chain(shown, newest) if run is not None)
        self.show_trace(*next(((path, name) for path, name in found if path is not None), (None, "")))

    def show_trace(self, path: Path | None, name: str = "") -> None:
        """Opens a trace, called `name` or by its file's name; None: asks for one."""
        from ui.traces.window import TraceDialog

        dialog = show_once(self._window, TraceDialog, lambda: TraceDialog(self._holder, self._window))
        if path is not None:
            dialog.open_trace(path, name)


def trace_file(run: RunLog) -> Path | None:
    """The file of a run's trace; None without one, or when it is gone."""
    path = Path(run.info.trace_path) if run.info.trace_path else None
    return path if path is not None and path.is_file() else None
