"""The timeline: tracks of the two columns on one time axis, live while a run goes on, still afterwards.

It reads runs through the RunController and writes only the Selection and the marks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QSettings, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QPushButton, QScrollArea, QScrollBar, QWidget

from evprof.core.protocols import Clock, monotonic_ns
from evprof.view.columns import tracks_of
from evprof.view.timescale import Timescale, shows_enough
from ui.state.run_controller import RunController
from ui.state.selection import Chosen, Selection
from ui.style.theme import GRID, Theme, ThemeHolder
from ui.timeline.axis import Aligning, AxisHead
from ui.timeline.delta_lane import DeltaLane
from ui.timeline.lane import Lane
from ui.timeline.lane_stack import KEY_PAN, KEY_ZOOM, LaneStack
from ui.timeline.latency_lane import LatencyLane
from ui.timeline.level_lane import KvLane, MemoryLane, PowerLane
from ui.timeline.marks import Marking
from ui.timeline.menus import Offers
from ui.timeline.navigation import Choosing, Zooming, spoken_selection
from ui.timeline.scene import GUTTER_PX, PLACES, Hit, TimelineScene
from ui.timeline.speculation_lanes import OverlapLane, RoundLane
from ui.timeline.stage_lane import StageLane
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.label import elided_text, literal
from ui.widgets.panel_parts import EmptyState

_NAME_PX = 320
"""Longer names of samples are shortened."""

_NONE_YET = (
    "Nothing has been measured yet",
    "A run is drawn here while it happens: the five stages of both models on one time axis, draft tokens accepted and "
    "rejected, time per token, KV cache and memory. Drop recordings, videos or a folder with both onto the window.",
)
_NONE_CHOSEN = "No run is shown", "Choose one in the list of runs, or measure another."


class EmptyTimeline(QWidget):
    """A sentence and the button that runs the sample, visible while no run is shown.

    Signals:
        run_requested(): the button was pressed.
    """

    run_requested = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._words, self._activity = _NONE_YET, ""
        self.state = EmptyState(*_NONE_YET)
        self.button = in_role(QPushButton("Run"), "primary")
        self.button.clicked.connect(self.run_requested)
        line = beside(self.button, None)
        stacked(self.state, line, None, on=self, margins=(GUTTER_PX + GRID, 4 * GRID, GRID, GRID), spacing=GRID)

    def tell(self, *, has_runs: bool) -> None:
        """`has_runs`: the session has runs, of which none is chosen."""
        self._words = _NONE_CHOSEN if has_runs else _NONE_YET
        self.wait(self._activity)

    def wait(self, activity: str) -> None:
        """Says what goes on in place of what is missing; "" for nothing."""
        self._activity = activity
        self.state.say(*((f"{activity} …", "") if activity else self._words))
        self.button.setVisible(not activity)

    def offer(self, name: str) -> None:
        shown = elided_text(self.button.fontMetrics(), name, Qt.TextElideMode.ElideMiddle, _NAME_PX)
        self.button.setText(f"Run {literal(shown)}")


class TimelineView(QWidget):
    """The whole timeline.

    Signals:
        run_requested(): the button of the empty state was pressed.
        clinic_requested(): the acceptance clinic is to be opened.
    """

    run_requested = Signal()
    clinic_requested = Signal()

    def __init__(
        self,
        controller: RunController,
        selection: Selection,
        holder: ThemeHolder,
        settings: QSettings | None = None,
        *,
        clock: Clock = monotonic_ns,
    ) -> None:
        """`settings` None: collapsed lanes are not remembered."""
        super().__init__()
        self.controller = controller
        self.selection = selection
        self._clock = clock
        self._changed: set[int] = set()
        self._is_same = False
        """Whether the lanes were chosen for the shown runs, or for other repeats of their request."""

        self.scene = TimelineScene(holder.theme, selection, Timescale(0, 1_000_000, 600.0))
        self._make_widgets(settings)
        self._connect_widgets()
        self.setAccessibleName("Timeline")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        holder.changed.connect(self._set_theme)
        controller.runs_changed.connect(self._note_changed)
        controller.ticked.connect(self.advance)
        controller.session_replaced.connect(self._forget)
        controller.marks.changed.connect(self._show_marks)
        selection.runs_changed.connect(self._rebuild)
        selection.view_range_changed.connect(self._move)
        selection.chosen_changed.connect(self._show_chosen)
        self._rebuild()

    def _make_widgets(self, settings: QSettings | None) -> None:
        self.choosing = Choosing(self.scene, self.selection)
        self.zooming = Zooming(self.scene, self.selection)
        self.head = AxisHead(self.scene)
        self.aligning = Aligning(self.scene, self)
        self.head.hold(self.aligning.chip)
        self.stack = LaneStack(self.scene, self._make_lanes(), self, settings)
        self.lanes = self.stack.lanes
        self.scroll_area = QScrollArea()
        self.scroll_area.setWidgetResizable(True)
        self.scroll_area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.scroll_area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.scroll_area.setWidget(self.stack)
        self.bar = QScrollBar(Qt.Orientation.Horizontal)
        self.bar.setAccessibleName("The part of the runs in view")
        self.empty = EmptyTimeline(self)
        stacked(self.head, (self.scroll_area, 1), self.bar, (self.empty, 1), on=self, spacing=0)
        self.marking = Marking(self.scene, self.controller, self.selection, self)
        self.offers = Offers(self, self.scene, self.stack, marking=self.marking, zooming=self.zooming)

    def _make_lanes(self) -> list[Lane]:
        """The lanes that every timeline has, top to bottom."""
        scene = self.scene
        self._stages = tuple(StageLane(scene, place) for place in PLACES)
        self.overlap = OverlapLane(scene)
        self.rounds_of_a, self.rounds = RoundLane(scene, 0), RoundLane(scene, 1)
        self.latency = LatencyLane(scene)
        above = [*self._stages, self.overlap, self.rounds_of_a, self.rounds, self.latency]
        self.delta = DeltaLane(scene, self.controller)
        return [*above, KvLane(scene), MemoryLane(scene), PowerLane(scene), self.delta]

    def _connect_widgets(self) -> None:
        head, stack, offers, zooming = self.head, self.stack, self.offers, self.zooming
        head.chip.clicked.connect(zooming.fit)
        head.mark_chosen.connect(self.marking.go_to)
        head.menu_asked.connect(offers.show_head)
        self.aligning.moved.connect(self._rescale)
        self.bar.valueChanged.connect(self._scroll)
        self.empty.run_requested.connect(self.run_requested)
        stack.zoomed.connect(zooming.zoom)
        stack.panned.connect(zooming.pan)
        stack.pointer_moved.connect(head.update)
        stack.range_dragged.connect(self.choosing.select_here)
        stack.clicked.connect(self._click)
        stack.double_clicked.connect(lambda hit: zooming.zoom_to(None if hit is None else hit.range))
        stack.menu_asked.connect(offers.show_lane)
        stack.resized.connect(self._rescale)
        offers.clinic_asked.connect(self.clinic_requested)

    def deeds(self) -> dict[str, Callable[[], object]]:
        """Functions by the names of the window's actions."""
        return {
            "zoom_in": partial(self.stack.step, KEY_ZOOM, 0.0),
            "zoom_out": partial(self.stack.step, 1 / KEY_ZOOM, 0.0),
            "pan_left": partial(self.stack.step, 1.0, -KEY_PAN),
            "pan_right": partial(self.stack.step, 1.0, KEY_PAN),
            "fit": self.zooming.fit,
            "zoom_selection": self.zooming.focus_selection,
            "next_span": partial(self.choosing.step, +1),
            "previous_span": partial(self.choosing.step, -1),
            "to_range": self.choosing.to_range,
            "deselect": self.selection.clear,
            "mark": self.marking.mark,
            "write_note": self.marking.write,
        }

    @property
    def is_busy(self) -> bool:
        """Whether a figure is still being computed."""
        return self.delta.errand.is_busy

    def stage_lane(self, place: int) -> StageLane:
        """The lane of the stages at a place of the scene: 0 is column A's, 1 column B's."""
        return next(lane for lane in self._stages if lane.column == place)

    def _note_changed(self, run_ids: set[int]) -> None:
        self._changed |= run_ids
        # A track is missing while its run id was chosen before its run began.
        columns = zip(self.selection.runs, self.scene.tracks[:2], strict=True)
        if any(track is None and run_id in run_ids for run_id, track in columns):
            self._rebuild()

    def advance(self) -> None:
        """One tick: takes in all new rows and shows them at one moment of the clock."""
        if not self.scene.shown or not self.isVisible():
            return
        grows = self.scene.is_running and any(track.stages.has_running for _, track in self.scene.shown)
        changed = [track for _, track in self.scene.shown if track.run.run_id in self._changed]
        self._changed.clear()
        for track in changed:
            track.update()
        if (changed or grows) and not self.aligning.resolve():
            self._rescale()

    def showEvent(self, event: QShowEvent) -> None:
        """Takes in the rows that came while the timeline was hidden."""
        super().showEvent(event)
        self.advance()

    def _rebuild(self, *_: object) -> None:
        before = {track.run.info.group_id for _, track in self.scene.shown}
        self.scene.show(tracks_of(self.controller.runs, self.selection.runs))
        self._is_same = not before.isdisjoint(track.run.info.group_id for _, track in self.scene.shown)
        self.scene.clock_ns = self._clock()
        self.aligning.resolve()
        self.stack.point_nowhere()
        view = self.selection.view_range
        if view is not None and self.scene.shown and not shows_enough(view, self.scene.extent()):
            self.selection.set_view_range(None)
        self._show_marks()
        self._rescale()

    def _forget(self) -> None:
        self._changed.clear()
        self.selection.clear()
        self.selection.set_view_range(None)
        self.selection.set_runs(None, None)
        self._rebuild()

    def _show_marks(self) -> None:
        self.scene.marks = self.controller.marks.of_runs({track.run.run_id for _, track in self.scene.shown})
        self.head.update()
        self.stack.overlay.update()

    def show_wanted_lanes(self) -> None:
        """Shows the lanes that have something to show, or the empty state without a run.

        A lane in sight stays until runs of another request are shown, so that no height changes at the end of a run.
        """
        has_any = bool(self.scene.shown)
        self.empty.tell(has_runs=bool(self.controller.runs))
        for part in (self.empty, self.head, self.scroll_area, self.bar):
            is_shown = has_any != (part is self.empty)
            if part.isHidden() == is_shown:
                part.setVisible(is_shown)
        for lane in self.lanes:
            is_wanted = lane.is_wanted() or (self._is_same and not lane.isHidden())
            if lane.isHidden() == is_wanted:
                lane.setVisible(is_wanted)
        self._is_same = True

    def _take_scale(self) -> None:
        """Computes the visible range, and shows it in the scroll bar."""
        width_px = max(1.0, float(self.stack.width() - GUTTER_PX))
        self.zooming.take_scale(width_px)
        self.head.chip.setVisible(bool(self.scene.shown) and self.selection.view_range is not None)
        self.head.chip.setText("Follow  F" if self.scene.is_running else "Fit  F")
        scale, (low, high) = self.scene.scale, self.scene.extent()
        with QSignalBlocker(self.bar):
            self.bar.setRange(0, max(0, round((high - low) / scale.ns_per_px - width_px)))
            self.bar.setPageStep(round(width_px))
            self.bar.setSingleStep(max(1, round(KEY_PAN * width_px)))
            self.bar.setValue(round((scale.start_ns - low) / scale.ns_per_px))

    def _scroll(self, px: int) -> None:
        self.zooming.look_from(self.scene.extent()[0] + round(px * self.scene.scale.ns_per_px))

    def _rescale(self, *_: object) -> None:
        self.show_wanted_lanes()
        self._move()

    def _move(self, *_: object) -> None:
        """Shows another part of the time, of the same things."""
        self.scene.clock_ns = self._clock() if self.scene.is_running else self.scene.clock_ns
        self._take_scale()
        self._refresh_lanes()

    def _refresh_lanes(self) -> None:
        self.head.update()
        for lane in self.lanes:
            lane.refresh()

    def _show_chosen(self, chosen: Chosen | None) -> None:
        self.setAccessibleDescription(spoken_selection(self.scene, chosen))
        self.stack.overlay.update()
        self._refresh_lanes()
        if not self.choosing.is_here:
            self.zooming.bring_into_view()

    def _click(self, hit: Hit | None) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        self.choosing.select_here(hit.chosen if hit else None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """The arrow keys zoom and pan; the window's actions have the other keys."""
        if not self.stack.take_key(event):
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Opens the menu of the view where no part has a menu of its own."""
        if self.scene.shown:
            self.offers.show_head(None, event.globalPos())

    def _set_theme(self, theme: Theme) -> None:
        self.scene.theme = theme
        self.empty.update()
        self._refresh_lanes()
