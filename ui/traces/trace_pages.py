"""Opens the trace window, and shows the trace of a run below its stages, on the run's clock."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns, ms_text, percent_text
from evprof.view.lanes import Track
from evprof.view.trace_rows import TraceLane
from ui.runs.inspector import Inspector
from ui.runs.run_details import Detail, DetailSection
from ui.state.run_controller import RunController
from ui.state.selection import Chosen
from ui.style.theme import ThemeHolder
from ui.timeline.scene import TimelineScene
from ui.timeline.timeline_view import TimelineView
from ui.traces.reading import ReadTrace, TraceReading
from ui.traces.slice_lane import SliceLane, SliceLooks

if TYPE_CHECKING:
    from evprof.metrics.traces.analysis import TraceAnalysis
    from evprof.metrics.traces.clock import TraceClock


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
            self.run_traces = RunTraces(self._timeline)
            self._inspector.more = self.run_traces.sections

    def close(self) -> None:
        if self.run_traces is not None:
            self.run_traces.reading.close()


MOST_OPERATORS = 6

_KINDS = {"operators": "Operators", "kernels": "Kernels"}
_NO_CLOCK = "The trace and the run have no stage in common, so it cannot be said when the trace's slices ran."


class RunTraceLane(SliceLane):
    """A lane that is collapsed at first: the trace is read when it is opened.

    Signals:
        opened(): it was opened and has nothing to show yet.
    """

    opened = Signal()

    def __init__(self, scene: TimelineScene, kind: str) -> None:
        super().__init__(scene, name=(_KINDS[kind], "torch trace"), key=f"trace-{kind}")
        self.has_trace = False
        self.said = ""
        self.is_folded = False
        self.fold(True)

    def is_wanted(self) -> bool:
        return self.has_trace

    def names(self) -> tuple[str, str]:
        return self._name[0], self.said or self._name[1]

    def fold(self, is_folded: bool) -> None:
        super().fold(is_folded)
        if not is_folded and self.has_trace and self.lane is None:
            self.opened.emit()


class RunTraces(QObject):
    """Reads the trace of the run on show when a lane of it is opened, and says what it knows of what is selected."""

    def __init__(self, timeline: TimelineView) -> None:
        super().__init__(timeline)
        self._timeline = timeline
        self._scene = timeline.scene
        self._track: Track | None = None
        self._read: ReadTrace | None = None
        self._clock: TraceClock | None = None
        self.reading = TraceReading(self)
        self.lanes = {kind: RunTraceLane(timeline.scene, kind) for kind in _KINDS}
        timeline.add_lanes(list(self.lanes.values()))
        for lane in self.lanes.values():
            lane.opened.connect(self._ask)
        self.reading.went_on.connect(lambda share, _: self._say(f"{percent_text(share)} read"))
        self.reading.done.connect(self._take)
        self.reading.failed.connect(self._say)
        timeline.selection.runs_changed.connect(self.look)
        timeline.selection.offset_changed.connect(self._place)
        timeline.controller.runs_changed.connect(self.look)
        self.look()

    @property
    def path(self) -> Path | None:
        return None if self._track is None else trace_file(self._track.run)

    def look(self, *_: object) -> None:
        shown = [track for _, track in self._scene.of_each_run if trace_file(track.run) is not None]
        track = shown[0] if shown else None
        if track is not None and self._track is not None and track.run is self._track.run:
            self._track = track
            self._place()
            return
        if track is None and self._track is None:
            return
        self._track, self._read, self._clock = track, None, None
        self.reading.stop()
        for lane in self.lanes.values():
            lane.show_lane(None, None)
            lane.has_trace, lane.said = track is not None, ""
        self._timeline.show_wanted_lanes()

    def _ask(self) -> None:
        if self.path is not None and self._read is None and not self.reading.is_busy:
            self._say(f"{percent_text(0)} read")
            self.reading.read(self.path)

    def _say(self, said: str) -> None:
        for lane in self.lanes.values():
            lane.said = said
            lane.setToolTip(said)
            lane.update()

    def _take(self, read: object) -> None:
        if not isinstance(read, ReadTrace) or self._track is None:
            return
        self._read = read
        from evprof.metrics.traces.clock import trace_clock

        self._clock = trace_clock(self._track.run, read.analysis)
        self._say("" if self._clock is not None else _NO_CLOCK)
        self._place()
        self._timeline.show_wanted_lanes()

    def _place(self, *_: object) -> None:
        if self._read is None or self._clock is None or self._track is None:
            return
        offset = self._clock.offset_ns - self._track.zero_ns
        looks = self.lanes["operators"].looks or SliceLooks(self._read.analysis)
        for kind, found in _lanes_of(self._read).items():
            self.lanes[kind].show_lane(found, looks, offset)

    def sections(self, chosen: Chosen | None) -> list[DetailSection]:
        """The operators of what is selected, and the time without any; nothing while no trace is read."""
        when = self._scene.range_of(chosen)
        if when is None or self._read is None or self._clock is None or self._track is None:
            return []
        start, end = (self._clock.trace_ns(t_ns + self._track.zero_ns) for t_ns in when)
        return [operator_section(self._read.analysis, start, end, self._clock.uncertainty_ns)]


def operator_section(analysis: TraceAnalysis, start_ns: int, end_ns: int, uncertainty_ns: int) -> DetailSection:
    """The operators with the most time alone between two times of the trace."""
    from evprof.metrics.traces.clock import trace_stretch
    from evprof.metrics.traces.tables import time_of

    stretch = trace_stretch(analysis, start_ns, end_ns)
    has_device = any(row.device_self_ns for row in stretch.operators)
    details = [
        Detail(
            f"{row.name} × {row.calls:,}",
            time_of(row.host_self_ns),
            beside=time_of(row.device_self_ns) if has_device else None,
        )
        for row in stretch.operators[:MOST_OPERATORS]
    ]
    details.append(Detail("no operator", time_of(stretch.uncovered_ns), beside="" if has_device else None))
    rest = len(stretch.operators) - MOST_OPERATORS
    more = f"and {rest} more operators; " if rest > 0 else ""
    note = f"{more}times are the traced run's, ± {ms_text(ms_from_ns(max(uncertainty_ns, 1)))}"
    return DetailSection("Operators of the trace", details, note, ("host", "device") if has_device else ("host",))


def trace_file(run: RunLog) -> Path | None:
    """Where a run's trace lies; None of a run without one, or when it is gone."""
    path = Path(run.info.trace_path) if run.info.trace_path else None
    return path if path is not None and path.is_file() else None


def _lanes_of(read: ReadTrace) -> dict[str, TraceLane | None]:
    """The thread with evprof's stages, and the stream with the most kernels."""
    stages = read.analysis.stages
    threads = [lane for lane in read.lanes if stages and lane.track == stages[0].track]
    streams = [lane for lane in read.lanes if lane.is_device]
    busiest = max(streams, key=lambda lane: sum(len(row.slices) for row in lane.rows), default=None)
    return {"operators": threads[0] if threads else None, "kernels": busiest}
