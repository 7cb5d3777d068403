"""The trace as a timeline: threads and streams on one axis, what is pointed at and chosen, the operators of a range."""

from __future__ import annotations

import textwrap

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from evprof.core.rows.trace_columns import TraceColumns
from evprof.metrics.traces.tables import OPERATORS, time_of
from evprof.view.timescale import Timescale, time_text
from evprof.view.trace_rows import TraceLane
from ui.state.selection import Selection, TimeRange
from ui.style.theme import GRID, Theme, ThemeHolder
from ui.timeline.axis import AxisHead
from ui.timeline.lane_stack import LaneStack
from ui.timeline.navigation import Zooming
from ui.timeline.scene import GUTTER_PX, TimelineScene
from ui.traces.reading import ReadTrace
from ui.traces.slice_lane import SliceHit, SliceLane, SliceLooks, shortened
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.panel_parts import say, scrolling, section_head, sentence
from ui.widgets.record_table import RecordTable

_SIDE_PX = 320
_MOST_OPERATORS = 200
_LONGEST_NAME, _LONGEST_FACT, _LINE_LETTERS = 400, 28, 38
_TEACHES = "Click a slice to see what is known of it; drag over the lanes to sum a range; the wheel zooms."


class _TraceScene(TimelineScene):
    """The scene of a trace, which has no tracks."""

    is_empty = False
    whole_ns = 1

    def extent(self) -> tuple[int, int]:
        return 0, self.whole_ns


class TimelinePage(QWidget):
    """Lanes on the left, the chosen slice or range on the right."""

    def __init__(self, themes: ThemeHolder) -> None:
        super().__init__()
        self._themes = themes
        self._read: ReadTrace | None = None
        self.scene = _TraceScene(themes.theme, Selection(self), Timescale(0, 1_000_000, 600.0))
        self.zooming = Zooming(self.scene, self.scene.selection)
        self.lanes: list[SliceLane] = []
        self.stack: LaneStack | None = None
        self.chosen: int | None = None
        self.head = AxisHead(self.scene)
        self.head.chip.clicked.connect(self.zooming.fit)
        self.area = QScrollArea()
        self.area.setWidgetResizable(True)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._make_side(themes)
        left = stacked(self.head, (self.area, 1), spacing=0)
        beside((left, 1), in_role(QFrame(), "vrule"), self.side, on=self, spacing=0)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        themes.changed.connect(self._set_theme)
        self.scene.selection.view_range_changed.connect(self._rescale)

    def _make_side(self, themes: ThemeHolder) -> None:
        self.slice_head, self.facts = section_head("Slice"), FigureTable(themes)
        self.title = sentence("title")
        self.teaches, self.range_text = sentence(), sentence()
        self.operators = RecordTable("Operators of the range", OPERATORS[:4])
        above, self.below = QWidget(), QWidget()
        margins = (2 * GRID, GRID, GRID, GRID)
        parts = self.teaches, self.slice_head, self.title, self.facts, None
        stacked(*parts, on=above, margins=margins, spacing=GRID // 2)
        parts_below = section_head("Range"), self.range_text, (self.operators, 1)
        stacked(*parts_below, on=self.below, margins=margins, spacing=GRID // 2)
        self.side = QWidget()
        self.side.setFixedWidth(_SIDE_PX)
        stacked((scrolling(above), 1), (self.below, 1), on=self.side, spacing=0)
        say(self.teaches, _TEACHES)

    def show_trace(self, read: ReadTrace) -> None:
        self._read = read
        self.looks = SliceLooks(read.analysis)
        trace, start = read.analysis.trace, read.analysis.start_ns
        self.scene.whole_ns = max(read.analysis.end_ns - start, 1)
        self.zooming.fit()
        self.lanes = [SliceLane(self.scene, name=lane_name(trace, lane), key=f"{lane.track}") for lane in read.lanes]
        for widget, lane in zip(self.lanes, read.lanes, strict=True):
            widget.show_lane(lane, self.looks, -start)
        self.stack = LaneStack(self.scene, list(self.lanes), self, None)
        self.stack.zoomed.connect(self.zooming.zoom)
        self.stack.panned.connect(self.zooming.pan)
        self.stack.pointer_moved.connect(self.head.update)
        self.stack.clicked.connect(self.choose)
        self.stack.double_clicked.connect(lambda hit: self.zooming.zoom_to(None if hit is None else hit.range))
        self.stack.range_dragged.connect(self.choose_range)
        self.stack.resized.connect(self._rescale)
        self.area.setWidget(self.stack)
        self.choose(None)
        self._rescale()

    def _rescale(self, *_: object) -> None:
        width = (self.stack.width() if self.stack is not None else self.width()) - GUTTER_PX
        self.zooming.take_scale(max(1.0, float(width)))
        self.head.chip.setVisible(self.scene.selection.view_range is not None)
        self._repaint()

    def _repaint(self) -> None:
        self.head.update()
        for lane in self.lanes:
            lane.refresh()
        if self.stack is not None:
            self.stack.overlay.update()

    def choose(self, hit: object) -> None:
        """Shows a slice that was clicked; nothing for None."""
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        self.scene.selection.clear()
        self.chosen = hit.slice if isinstance(hit, SliceHit) else None
        for lane in self.lanes:
            lane.chosen = self.chosen
        self._show_slice()
        self.below.hide()
        self._repaint()

    def _show_slice(self) -> None:
        at = self.chosen
        say(self.title, "" if at is None else _wrapped(shortened(self.looks.name(at), _LONGEST_NAME)))
        self.slice_head.setVisible(at is not None)
        self.facts.setVisible(at is not None)
        facts = [] if at is None else [*self.looks.facts(at), *self._partners(at)]
        self.facts.show_rows([TableRow(name, (shortened(text, _LONGEST_FACT),), tip=text) for name, text in facts])

    def _partners(self, at: int) -> list[tuple[str, str]]:
        """The call that launched a kernel, or the kernels that a call launched."""
        partners = self.looks.partners(at).tolist()
        if not partners:
            return []
        more = f" and {len(partners) - 1:,} more" if len(partners) > 1 else ""
        name = "launched by" if self.looks.is_on_device(at) else "launches"
        return [(name, f"{self.looks.name(partners[0])}{more}")]

    def choose_range(self, chosen: TimeRange) -> None:
        if self._read is None:
            return
        self.scene.selection.select(chosen)
        analysis = self._read.analysis
        rows = analysis.operators_between(chosen.start_ns + analysis.start_ns, chosen.end_ns + analysis.start_ns)
        taken = sum(row.host_self_ns for row in rows)
        self.operators.show_records(rows[:_MOST_OPERATORS])
        length = time_text(chosen.end_ns - chosen.start_ns)
        say(self.range_text, f"{length} · its operators took {time_of(taken)} on the host")
        self.below.show()
        self._repaint()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_F and not event.modifiers():
            self.zooming.fit()
        elif event.key() == Qt.Key.Key_Escape and (self.chosen is not None or self.scene.selection.chosen is not None):
            self.choose(None)
        elif self.stack is None or not self.stack.take_key(event):
            super().keyPressEvent(event)

    def _set_theme(self, theme: Theme) -> None:
        self.scene.theme = theme
        self._repaint()


def lane_name(trace: TraceColumns, lane: TraceLane) -> tuple[str, str]:
    """What a thread or stream is called, and its process or device."""
    track = trace.tracks[lane.track]
    number = f"{'stream' if lane.is_device else 'thread'} {track.tid}"
    thread = track.thread or (number if track.tid.isdecimal() else track.tid)
    process = f"GPU {track.pid}" if lane.is_device else (track.process or f"process {track.pid}")
    return thread, process


def _wrapped(text: str) -> str:
    """In lines: names of kernels have no spaces to break at."""
    return "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, _LINE_LETTERS))
