"""The timeline: tracks of the two columns on one time axis, live while a run goes on, still afterwards.

It reads runs through the RunController and writes only the Selection and the marks.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QSettings, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QScrollArea, QWidget

from evprof.core.clock import Clock, monotonic_ns
from evprof.view.columns import headers_of, tracks_of
from evprof.view.lanes import News, Track
from evprof.view.timescale import Timescale, around, fitted, followed, shows_enough
from ui.state.run_controller import RunController
from ui.state.selection import Chosen, Selection, TimeRange
from ui.style.theme import Theme, ThemeHolder
from ui.timeline.aligning import Aligning
from ui.timeline.axis import AxisHead
from ui.timeline.delta_figures import DeltaFigures
from ui.timeline.delta_lane import DeltaLane
from ui.timeline.empty_state import EmptyTimeline
from ui.timeline.ground.lane_order import LaneOrder
from ui.timeline.lane import Lane
from ui.timeline.lane_stack import LaneStack
from ui.timeline.lane_turns import LaneTurns
from ui.timeline.latency_lane import LatencyLane
from ui.timeline.level_lane import KvLane, MemoryLane
from ui.timeline.navigation.choosing import Choosing
from ui.timeline.navigation.edge_arrow import EdgeArrow
from ui.timeline.navigation.held_keys import HeldKeys
from ui.timeline.navigation.marking import Marking
from ui.timeline.navigation.minimap import Minimap
from ui.timeline.navigation.offers import Offers
from ui.timeline.navigation.view_history import ViewHistory
from ui.timeline.overlap_lane import OverlapLane
from ui.timeline.power_lane import PowerLane
from ui.timeline.real_time_lane import RealTimeLane
from ui.timeline.round_lane import RoundLane
from ui.timeline.scene import GUTTER_PX, PLACES, Hit, TimelineScene
from ui.timeline.sensor_lane import SensorLane
from ui.timeline.spoken import Speaking
from ui.timeline.stage_lane import StageLane
from ui.widgets.boxes import stacked

MANY_ROWS = 5_000
"""From this many tokens and parts on, lanes take turns at being repainted live."""

LANES_KEY = "timeline/lanes"
"""The setting that keeps how lanes are arranged."""

_KEY_ZOOM = 1.5
_KEY_PAN = 0.25


class TimelineView(QWidget):
    """The whole timeline. `deeds` are what keys and menus can tell it to do.

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
        self._settings = settings
        self._clock = clock
        self.scene = TimelineScene(holder.theme, selection, Timescale(0, 1_000_000, 600.0))
        self._make_widgets()
        self._connect_widgets()
        self.choosing = Choosing(self.scene, selection)
        self.speaking = Speaking(self, self.lanes)
        selection.chosen_changed.connect(self.speaking.tell)
        self.history = ViewHistory(selection, self)
        self._held = HeldKeys(self._zoom_middle, self.pan, self)
        self._changed: set[int] = set()
        self.turns = LaneTurns(self)
        self._marked_rows = False
        self._moves_to_chosen = True
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

    def _make_widgets(self) -> None:
        self.head = AxisHead(self.scene)
        self.aligning = Aligning(self.scene, self)
        self.aligning.moved.connect(self._rescale)
        self.head.hold(self.aligning.chip)
        self.minimap = Minimap(self.scene)
        self.rounds_of_a = RoundLane(self.scene, is_of_a=True)
        self.rounds = RoundLane(self.scene)
        self.latency = LatencyLane(self.scene)
        self.overlap = OverlapLane(self.scene)
        self.power = PowerLane(self.scene)
        self.delta = DeltaLane(self.scene)
        self.delta_figures = DeltaFigures(self.controller, self.selection, self.delta)
        self._stages = tuple(StageLane(self.scene, place) for place in PLACES)
        lanes: list[Lane] = [
            *self._stages,
            self.delta,
            self.overlap,
            self.rounds_of_a,
            self.rounds,
            self.latency,
            KvLane(self.scene),
            SensorLane(self.scene),
            RealTimeLane(self.scene),
            MemoryLane(self.scene),
            self.power,
        ]
        kept = "" if self._settings is None else str(self._settings.value(LANES_KEY, ""))
        self.stack = LaneStack(self.scene, lanes, self, LaneOrder.from_text(kept))
        self.delta.filled.connect(self.stack.fold_lanes)
        self.scroll_area = QScrollArea()
        self.scroll_area.setWidgetResizable(True)
        self.scroll_area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.scroll_area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.scroll_area.setWidget(self.stack)
        self.empty = EmptyTimeline(self.scene, self)
        stacked(self.minimap, self.head, (self.scroll_area, 1), (self.empty, 1), on=self, spacing=0)
        self.arrow = EdgeArrow(self.scene, self)
        self.marking = Marking(self.scene, self.controller, self.selection, self)
        self.offers = Offers(self.scene, self.selection, self.stack, self.marking, self)

    def _connect_widgets(self) -> None:
        head, stack, offers = self.head, self.stack, self.offers
        head.chip.clicked.connect(self.fit)
        head.mark_chosen.connect(self.marking.go_to)
        head.note_asked.connect(self.marking.note)
        head.menu_asked.connect(offers.show_head)
        self.minimap.moved.connect(self._look_at)
        self.minimap.fit_asked.connect(self.fit)
        self.empty.run_requested.connect(self.run_requested)
        self.arrow.clicked.connect(self._bring_into_view)
        self.scroll_area.verticalScrollBar().valueChanged.connect(stack.stick)
        stack.zoomed.connect(self.zoom)
        stack.panned.connect(self.pan)
        stack.pointer_moved.connect(head.update)
        stack.range_dragged.connect(self._select_here)
        stack.measured.connect(self._measure)
        stack.clicked.connect(self._click)
        stack.double_clicked.connect(self._double_click)
        stack.menu_asked.connect(offers.show_lane)
        stack.reordered.connect(self._keep_order)
        stack.resized.connect(self._rescale)
        offers.zoom_asked.connect(self.zoom_to)
        offers.fit_asked.connect(self.fit)
        offers.measure_asked.connect(self._measure_from)
        offers.clinic_asked.connect(self.clinic_requested)

    def deeds(self) -> dict[str, Callable[[], object]]:
        """What it does, by the names of the window's actions."""
        choosing, marking = self.choosing, self.marking
        return {
            "zoom_in": lambda: self._zoom_middle(_KEY_ZOOM),
            "zoom_out": lambda: self._zoom_middle(1 / _KEY_ZOOM),
            "pan_left": lambda: self.pan(-_KEY_PAN * self.scene.scale.width_px),
            "pan_right": lambda: self.pan(_KEY_PAN * self.scene.scale.width_px),
            "fit": self.fit,
            "zoom_selection": self.focus_selection,
            "view_back": self.history.back,
            "view_forward": self.history.forward,
            "next_span": lambda: choosing.step(+1),
            "previous_span": lambda: choosing.step(-1),
            "flow_on": lambda: choosing.follow(+1),
            "flow_back": lambda: choosing.follow(-1),
            "to_range": choosing.to_range,
            "deselect": self.deselect,
            "measure": self._measure_here,
            "mark": marking.mark,
            "write_note": marking.write,
            "next_mark": lambda: marking.step(+1),
            "previous_mark": lambda: marking.step(-1),
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
        """Looks again which lanes have something to show."""
        self._show_wanted()
        self.stack.fold_lanes()

    def stage_lane(self, place: int) -> StageLane:
        """The lane of the stages at a place of the scene: 0 is column A's, 1 column B's."""
        return next(lane for lane in self._stages if lane.column == place)

    # News.

    def _note_changed(self, run_ids: set[int]) -> None:
        self._changed |= run_ids
        pair = self.selection.runs
        # A track is missing while its run id was chosen before its run began.
        for place, run_id in enumerate(pair):
            if run_id in run_ids and self.scene.tracks[place] is None:
                self._rebuild()
                return

    def advance(self) -> None:
        """One frame: takes in what changed, repaints the lanes it concerns, lets running bars grow."""
        if not self.scene.shown:
            return
        was_running = any(track.stages.has_running for _, track in self.scene.shown)
        news: list[tuple[int, News]] = []
        for column, track in self.scene.shown:
            if track.run.run_id in self._changed:
                news.append((column, track.update()))
        ended = bool(self._changed) and not self.scene.is_running
        if self._changed:
            for lane in self.lanes:
                lane.forget_words()
        self._changed.clear()
        if not news and not self.turns.has_owed and not (was_running and self.scene.is_running):
            return
        self.scene.clock_ns = self._clock()
        self.minimap.show_news()
        if ended:
            self.stack.fold_lanes()
        if self.aligning.resolve():
            return
        if self._take_scale() or ended:
            self._repaint_lanes()
            self._paint_in_turns()
            return
        self.turns.owe(
            lane
            for lane in self.lanes
            if any(lane.wants(*one) for one in news) or (isinstance(lane, StageLane | OverlapLane) and lane.is_growing)
        )
        row_count = sum(len(track.token_times()) + len(track.parts) for _, track in self.scene.shown)
        self.turns.repaint(self.lanes, is_large=row_count > MANY_ROWS)
        self._show_wanted()

    def _paint_in_turns(self) -> None:
        if self.scene.is_running:
            self.turns.paint_anew(self.stack.in_sight())
        else:
            self.turns.end()

    def _rebuild(self, *_: object) -> None:
        before = {(track.run.run_id, track.role): track for _, track in self.scene.shown}
        found = tracks_of(self.controller.runs, self.selection.runs)
        tracks: list[Track | None] = []
        for column in found:
            if column is None:
                tracks.append(None)
                continue
            track = before.get((column.run.run_id, column.role))
            if track is None or track.run is not column.run:
                track = Track(column)
            track.update()
            tracks.append(track)
        self.scene.tracks = tuple(tracks)
        self.scene.headers = headers_of(*found[:2])
        self.scene.clock_ns = self._clock()
        self.aligning.resolve()
        self.scene.ruler = None
        self.stack.point_nowhere()
        view = self.selection.view_range
        if view is not None and self.scene.shown and not shows_enough(view, self.scene.extent()):
            self.selection.set_view_range(None)
        self.minimap.restart()
        self._show_marks()
        self._show_wanted()
        self.stack.fold_lanes()
        self._rescale()
        self._paint_in_turns()

    @property
    def pointer_ns(self) -> int | None:
        """The moment under the pointer; None where it is not over the lanes."""
        at_px = self.scene.pointer_px
        return None if at_px is None else round(self.scene.scale.t(at_px))

    def show_linked(self, t_ns: int | None) -> None:
        """Shows where the pointer is in another window."""
        self.stack.overlay.show_linked(t_ns)

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
        self.minimap.restart()

    def _show_wanted(self) -> None:
        has_any = bool(self.scene.shown)
        self.empty.tell(has_runs=bool(self.controller.runs))
        if self.scroll_area.isHidden() == has_any:
            self.scroll_area.setVisible(has_any)
            self.empty.setVisible(not has_any)
            self.head.setVisible(has_any)
            self.minimap.setVisible(has_any)
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
        chosen = self.selection.view_range
        if chosen is not None:
            wanted = Timescale(chosen[0], max(chosen[1], chosen[0] + 1), width)
        elif self.scene.is_running:
            wanted = followed(self.scene.scale, self.scene.extent(), width)
        else:
            wanted = fitted(self.scene.extent(), width)
        changed = wanted != self.scene.scale
        self.scene.scale = wanted
        chip = self.head.chip
        chip.setVisible(bool(self.scene.shown) and chosen is not None)
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
        self.turns.forget()
        for lane in self.lanes:
            lane.forget_words()
        self._show_wanted()
        self._update_lanes(Lane.update)

    def _update_lanes(self, update: Callable[[Lane], None]) -> None:
        self.head.update()
        self.minimap.update()
        for lane in self.lanes:
            update(lane)
        self.arrow.show_side(self._arrow_y())
        self.stack.point_again()

    def _arrow_y(self) -> int:
        return self.scroll_area.y() + 8

    def zoom(self, factor: float, at_px: float) -> None:
        """Zooms in (factor > 1) or out around a position of the drawing area; following ends."""
        extent = self.scene.extent()
        longest = max(2 * (extent[1] - extent[0]), 1_000_000)
        self._set_view(self.scene.scale.zoomed(factor, at_px, longest_ns=longest))

    def _zoom_middle(self, factor: float) -> None:
        self.zoom(factor, self.scene.scale.width_px / 2)

    def pan(self, by_px: float) -> None:
        """Moves the view; following ends."""
        self._set_view(self.scene.scale.panned(by_px))

    def _set_view(self, scale: Timescale) -> None:
        if not self.scene.shown:
            return
        kept = scale.within(self.scene.extent())
        self.selection.set_view_range((kept.start_ns, kept.end_ns))

    def _look_at(self, view: TimeRange) -> None:
        self._set_view(Timescale(view.start_ns, max(view.end_ns, view.start_ns + 1), self.scene.scale.width_px))

    def fit(self, *_: object) -> None:
        """Shows everything, and follows a run that is still going."""
        self.selection.set_view_range(None)

    def zoom_to(self, wanted: TimeRange) -> None:
        """Shows a range with a little air on both sides."""
        margin = max(500, round((wanted[1] - wanted[0]) * 0.06))
        self.selection.set_view_range((wanted[0] - margin, wanted[1] + margin))

    def focus_selection(self) -> None:
        """Zooms to what is selected, where it takes time."""
        chosen = self.scene.range_of(self.selection.chosen)
        if chosen is not None:
            self.zoom_to(chosen)

    # Mouse and keys.

    def _show_chosen(self, chosen: Chosen | None) -> None:
        self.stack.overlay.show_range()
        marks_rows = not isinstance(chosen, TimeRange | None)
        if self._marked_rows or marks_rows:
            self._repaint_lanes()
        else:
            self.head.update()
            self.arrow.show_side(self._arrow_y())
        self._marked_rows = marks_rows
        if self._moves_to_chosen:
            self._bring_into_view()

    def _bring_into_view(self) -> None:
        """Moves a zoomed view to what was selected elsewhere, as far as it must; what fills the view is in sight."""
        chosen, view = self.scene.range_of(self.selection.chosen), self.selection.view_range
        if chosen is None or view is None or (chosen.start_ns <= view.start_ns and view.end_ns <= chosen.end_ns):
            return
        if (moved := around(chosen, view)) is not None:
            self.selection.set_view_range(moved)

    def _click(self, hit: Hit | None) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        self._select_here(hit.chosen if hit else None)

    def _select_here(self, chosen: Chosen | None) -> None:
        """Selects what lies under the mouse: the view stays under it."""
        self._moves_to_chosen = False
        self.selection.select(chosen)
        self._moves_to_chosen = True

    def _double_click(self, hit: Hit | None) -> None:
        if hit is not None and hit.range is not None:
            self.zoom_to(hit.range)
        else:
            self.fit()

    def deselect(self) -> None:
        """Takes the ruler away, where there is one; else selects nothing."""
        if self.scene.ruler is not None or self.stack.measures_from is not None:
            self._measure_from(None)
        else:
            self.selection.clear()

    def _measure(self, measured: TimeRange | None) -> None:
        self.scene.ruler = measured
        self.stack.overlay.update()

    def _measure_from(self, t_ns: int | None) -> None:
        self.stack.measures_from = t_ns
        self._measure(None if t_ns is None else TimeRange(t_ns, t_ns))

    def _measure_here(self) -> None:
        """From the pointer on, until the next click; where nothing is pointed at, what is selected."""
        at_px = self.scene.pointer_px
        if at_px is not None and self.stack.measures_from is None:
            self._measure_from(self.stack.moment_under(at_px))
        elif at_px is not None:
            self.stack.measures_from = None
        else:
            self._measure(self.scene.range_of(self.selection.chosen))

    def _keep_order(self) -> None:
        if self._settings is not None:
            self._settings.setValue(LANES_KEY, self.stack.order.to_text())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """W/S zoom and A/D pan while they are held; the window's actions have the other keys."""
        if not self.take_key(event):
            super().keyPressEvent(event)

    def take_key(self, event: QKeyEvent) -> bool:
        """Acts on a key press; False when the key means nothing here."""
        return self._held.press(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """The view stops with the key."""
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
        """The arrow stays at its side."""
        super().resizeEvent(event)
        self.arrow.show_side(self._arrow_y())
        self._give_room()

    def _set_theme(self, theme: Theme) -> None:
        self.scene.theme = theme
        self.empty.update()
        self.minimap.restart()
        self._repaint_lanes()
