"""The timeline: tracks of the two columns on one time axis, live while a run goes on, still afterwards.

It reads runs through the RunController and writes only the Selection and the marks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QEvent, QSettings, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QScrollArea, QWidget

from evprof.core.protocols import Clock, monotonic_ns
from evprof.view.columns import tracks_of
from evprof.view.timescale import Timescale, shows_enough
from ui.state.run_controller import RunController
from ui.state.selection import Chosen, Selection, TimeRange
from ui.style.theme import Theme, ThemeHolder
from ui.timeline.axis import Aligning, AxisHead
from ui.timeline.choosing import Choosing, spoken_selection
from ui.timeline.delta_lane import DeltaFigures, DeltaLane
from ui.timeline.empty_state import EmptyTimeline
from ui.timeline.lane import Lane
from ui.timeline.lane_stack import LaneStack
from ui.timeline.latency_lane import LatencyLane
from ui.timeline.level_lane import KvLane, MemoryLane
from ui.timeline.marks import Marking
from ui.timeline.menus import Offers
from ui.timeline.navigation import HeldKeys, ViewHistory, Zooming
from ui.timeline.overview import Minimap
from ui.timeline.power_lane import PowerLane
from ui.timeline.scene import GUTTER_PX, PLACES, Hit, TimelineScene
from ui.timeline.sensor_lanes import RealTimeLane, SensorLane
from ui.timeline.speculation_lanes import OverlapLane, RoundLane
from ui.timeline.stage_lane import StageLane
from ui.widgets.boxes import stacked


class TimelineView(QWidget):
    """The whole timeline; what mouse and keys do to it lies in `navigation`.

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
        """`settings` None: how lanes are arranged is not remembered."""
        super().__init__()
        self.controller = controller
        self.selection = selection
        self._clock = clock
        self._changed: set[int] = set()
        self._marked_rows = False
        self.scene = TimelineScene(holder.theme, selection, Timescale(0, 1_000_000, 600.0))
        self._make_widgets(settings)
        self._connect_widgets()
        self.history = ViewHistory(selection, lambda run_id: run_id in controller.runs, self)
        self._held = HeldKeys(self.zooming.zoom_middle, self.zooming.pan, self)
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
        self.zooming = Zooming(self.scene, self.selection, self)
        self.head = AxisHead(self.scene)
        self.aligning = Aligning(self.scene, self)
        self.aligning.moved.connect(self._rescale)
        self.head.hold(self.aligning.chip)
        self.minimap = Minimap(self.scene)
        self.stack = LaneStack(self.scene, self._make_lanes(), self, settings)
        self.delta_figures = DeltaFigures(self.controller, self.selection, self.delta)
        self.delta.filled.connect(self.stack.fold_lanes)
        self.scroll_area = QScrollArea()
        self.scroll_area.setWidgetResizable(True)
        self.scroll_area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.scroll_area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.scroll_area.setWidget(self.stack)
        self.empty = EmptyTimeline(self)
        self._parts = stacked(self.minimap, self.head, (self.scroll_area, 1), (self.empty, 1), on=self, spacing=0)
        self.marking = Marking(self.scene, self.controller, self.selection, self)
        self.offers = Offers(self, self.scene, self.stack, marking=self.marking, zooming=self.zooming)

    def _make_lanes(self) -> list[Lane]:
        """The lanes that every timeline has, top to bottom as they stand at first."""
        scene = self.scene
        self._stages = tuple(StageLane(scene, place) for place in PLACES)
        self.delta, self.overlap = DeltaLane(scene), OverlapLane(scene)
        self.rounds_of_a, self.rounds = RoundLane(scene, is_of_a=True), RoundLane(scene)
        self.latency, self.power = LatencyLane(scene), PowerLane(scene)
        compared = [*self._stages, self.delta, self.overlap, self.rounds_of_a, self.rounds, self.latency]
        return [*compared, KvLane(scene), SensorLane(scene), RealTimeLane(scene), MemoryLane(scene), self.power]

    def _connect_widgets(self) -> None:
        head, stack, offers, zooming = self.head, self.stack, self.offers, self.zooming
        head.chip.clicked.connect(zooming.fit)
        head.mark_chosen.connect(self.marking.go_to)
        head.note_asked.connect(self.marking.note)
        head.menu_asked.connect(offers.show_head)
        self.minimap.moved.connect(zooming.look_at)
        self.minimap.fit_asked.connect(zooming.fit)
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
        """What it does, by the names of the window's actions."""
        zooming, choosing, marking = self.zooming, self.choosing, self.marking
        return {
            "zoom_in": zooming.step_in,
            "zoom_out": zooming.step_out,
            "pan_left": partial(zooming.step_aside, -1),
            "pan_right": partial(zooming.step_aside, +1),
            "fit": zooming.fit,
            "zoom_selection": zooming.focus_selection,
            "view_back": self.history.back,
            "view_forward": self.history.forward,
            "next_span": partial(choosing.step, +1),
            "previous_span": partial(choosing.step, -1),
            "to_range": choosing.to_range,
            "deselect": self.selection.clear,
            "mark": marking.mark,
            "write_note": marking.write,
            "next_mark": partial(marking.step, +1),
            "previous_mark": partial(marking.step, -1),
            "delete_mark": marking.delete,
            "reset_lanes": self.stack.reset_lanes,
        }

    @property
    def lanes(self) -> list[Lane]:
        """All lanes, top to bottom as they stand at first, hidden ones too."""
        return self.stack.lanes

    def add_lanes(self, lanes: list[Lane]) -> None:
        """Shows further lanes, made elsewhere, of what lies on the same axis."""
        self.stack.add(lanes)
        self._show_wanted()

    def show_wanted_lanes(self) -> None:
        self._show_wanted()
        self.stack.fold_lanes()

    def stage_lane(self, place: int) -> StageLane:
        """The lane of the stages at a place of the scene: 0 is column A's, 1 column B's."""
        return next(lane for lane in self._stages if lane.column == place)

    # News.

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
        if not changed and not grows:
            return
        self.scene.clock_ns = self._clock()
        if not self.scene.is_running:
            self.stack.fold_lanes()
        if not self.aligning.resolve():
            self._take_scale()
            self._repaint_lanes()

    def showEvent(self, event: QShowEvent) -> None:
        """Catches up with what happened while the timeline was hidden."""
        super().showEvent(event)
        self.advance()

    def _rebuild(self, *_: object) -> None:
        self.scene.show(tracks_of(self.controller.runs, self.selection.runs))
        self.scene.clock_ns = self._clock()
        self.aligning.resolve()
        self.stack.point_nowhere()
        view = self.selection.view_range
        if view is not None and self.scene.shown and not shows_enough(view, self.scene.extent()):
            self.selection.set_view_range(None)
        self.minimap.update()
        self._show_marks()
        self._show_wanted()
        self.stack.fold_lanes()
        self._rescale()

    def mark_partings(self, a_ns: int | None, b_ns: int | None) -> None:
        """Marks when each answer began to differ from the other, in ns from its run's zero."""
        if (a_ns, b_ns) != self.scene.partings:
            self.scene.partings = a_ns, b_ns
            for lane in self._stages:
                lane.update()

    def _forget(self) -> None:
        self._changed.clear()
        self.selection.clear()
        self.selection.set_view_range(None)
        self.selection.set_runs(None, None)
        self.history.forget()
        self._rebuild()

    def _show_marks(self) -> None:
        self.scene.marks = self.controller.marks.of_runs({track.run.run_id for _, track in self.scene.shown})
        self.head.update()
        self.stack.overlay.update()
        self.minimap.update()

    def _show_wanted(self) -> None:
        has_any = bool(self.scene.shown)
        self.empty.tell(has_runs=bool(self.controller.runs))
        if self.scroll_area.isHidden() == has_any:
            self._parts.setEnabled(False)
            self.empty.setVisible(not has_any)
            self.head.setVisible(has_any)
            self.minimap.setVisible(has_any)
            self._parts.setEnabled(True)
            self.scroll_area.setVisible(has_any)  # which has all of it laid out
        others = [lane for lane in self.lanes if lane.isHidden() == lane.is_wanted()]
        for lane in others:
            lane.setVisible(lane.isHidden())
        if others:
            self.stack.fold_lanes()
        self._give_room()

    def _give_room(self) -> None:
        # By what they ask for: before the first layout, widgets have the sizes that Qt gives to all.
        room = self.height() - self.head.sizeHint().height() - self.minimap.sizeHint().height()
        if room != self.stack.room_px:
            self.stack.room_px = room
            self.stack.fold_lanes()

    # The scale.

    def _take_scale(self) -> bool:
        """Computes the visible range; returns whether it changed."""
        width = max(1.0, float(self.stack.width() - GUTTER_PX))
        changed = self.zooming.take_scale(width)
        chip = self.head.chip
        chip.setVisible(bool(self.scene.shown) and self.selection.view_range is not None)
        chip.setText("Follow  F" if self.scene.is_running else "Fit  F")
        return changed

    def _rescale(self, *_: object) -> None:
        self._follow_clock()
        self._repaint_lanes()

    def _move(self, *_: object) -> None:
        """Shows another part of the time, of the same things under the same names."""
        self._follow_clock()
        self._update_lanes(Lane.update_canvas)

    def _follow_clock(self) -> None:
        self.scene.clock_ns = self._clock() if self.scene.is_running else self.scene.clock_ns
        self._take_scale()

    def _repaint_lanes(self, *_: object) -> None:
        self._show_wanted()
        self._update_lanes(Lane.update)

    def _update_lanes(self, update: Callable[[Lane], None]) -> None:
        self.head.update()
        self.minimap.update()
        for lane in self.lanes:
            update(lane)
        self.stack.point_again()

    # Mouse and keys.

    def _show_chosen(self, chosen: Chosen | None) -> None:
        self.setAccessibleDescription(spoken_selection(self.scene, chosen))
        self.stack.overlay.show_range()
        marks_rows = not isinstance(chosen, TimeRange | None)
        if self._marked_rows or marks_rows:
            self._repaint_lanes()
        else:
            self.head.update()
            self._marked_rows = marks_rows
        if not self.choosing.is_here:
            self.zooming.bring_into_view()

    def _click(self, hit: Hit | None) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        self.choosing.select_here(hit.chosen if hit else None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """W/S zoom and A/D pan while they are held; the window's actions have the other keys."""
        if not self.take_key(event):
            super().keyPressEvent(event)

    def take_key(self, event: QKeyEvent) -> bool:
        """Acts on a key press; False when the key means nothing here."""
        return self._held.press(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        if not self.release_key(event):
            super().keyReleaseEvent(event)

    def release_key(self, event: QKeyEvent) -> bool:
        """Takes note of a released key; False when it means nothing here."""
        return self._held.release(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Over the overview, and wherever nothing has a menu of its own."""
        if self.scene.shown:
            self.offers.show_head(None, event.globalPos())

    def changeEvent(self, event: QEvent) -> None:
        """A window that loses the keyboard never sees the key released."""
        if event.type() == QEvent.Type.ActivationChange and not self.isActiveWindow():
            self._held.let_go()
        super().changeEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._give_room()

    def _set_theme(self, theme: Theme) -> None:
        self.scene.theme = theme
        self.empty.update()
        self.minimap.update()
        self._repaint_lanes()
