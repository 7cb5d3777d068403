"""The timeline: tracks of the two columns on one time axis, live while a run goes on, still afterwards.

It reads runs through the RunController and writes only the Selection.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QScrollArea, QWidget

from evprof.core.clock import Clock, monotonic_ns
from evprof.view.columns import headers_of, tracks_of
from evprof.view.lanes import News, Track
from evprof.view.timescale import Timescale, around, fitted, followed
from ui.state.run_controller import RunController
from ui.state.selection import Chosen, RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.style.theme import Theme, ThemeHolder
from ui.timeline.aligning import Aligning
from ui.timeline.axis import AxisHead
from ui.timeline.empty_state import EmptyTimeline
from ui.timeline.keys import cross_key
from ui.timeline.lane import Lane
from ui.timeline.lane_stack import LaneStack
from ui.timeline.latency_lane import LatencyLane
from ui.timeline.level_lane import KvLane, MemoryLane
from ui.timeline.overlap_lane import OverlapLane
from ui.timeline.power_lane import PowerLane
from ui.timeline.round_lane import RoundLane
from ui.timeline.scene import GUTTER_PX, PLACES, Hit, TimelineScene, round_range, token_range
from ui.timeline.stage_lane import StageLane
from ui.widgets.boxes import stacked

MANY_ROWS = 5_000
"""From this many tokens and parts on, lanes take turns at being repainted live."""

_GLIDE_MS = 16
_ZOOM_PER_FRAME = 1.06
_PAN_PER_FRAME_PX = 22.0


class TimelineView(QWidget):
    """The whole timeline.

    Signals:
        run_requested(): the button of the empty state was pressed.
    """

    run_requested = Signal()

    def __init__(
        self, controller: RunController, selection: Selection, holder: ThemeHolder, *, clock: Clock = monotonic_ns
    ) -> None:
        super().__init__()
        self.controller = controller
        self.selection = selection
        self._clock = clock
        self.scene = TimelineScene(holder.theme, selection, Timescale(0, 1_000_000, 600.0))
        self._make_widgets()
        self._held_keys: set[str] = set()
        self._glide = QTimer(self)
        self._glide.setInterval(_GLIDE_MS)
        self._glide.timeout.connect(self._glide_on)
        self._changed: set[int] = set()
        self._owed: set[Lane] = set()
        self._turn = 0
        self._marked_rows = False
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        holder.changed.connect(self._set_theme)
        controller.runs_changed.connect(self._note_changed)
        controller.ticked.connect(self.advance)
        controller.session_replaced.connect(self._forget)
        selection.runs_changed.connect(self._rebuild)
        selection.view_range_changed.connect(self._rescale)
        selection.chosen_changed.connect(self._show_chosen)
        self._rebuild()

    def _make_widgets(self) -> None:
        self.head = AxisHead(self.scene)
        self.head.chip.clicked.connect(self.fit)
        self.aligning = Aligning(self.scene, self)
        self.aligning.moved.connect(self._rescale)
        self.head.hold(self.aligning.chip)
        self.rounds = RoundLane(self.scene)
        self.latency = LatencyLane(self.scene)
        self.overlap = OverlapLane(self.scene)
        self.power = PowerLane(self.scene)
        self._stages = tuple(StageLane(self.scene, place) for place in PLACES)
        lanes: list[Lane] = [
            *self._stages,
            self.overlap,
            self.rounds,
            self.latency,
            KvLane(self.scene),
            MemoryLane(self.scene),
            self.power,
        ]
        self.stack = LaneStack(self.scene, lanes, self)
        self.scroll_area = QScrollArea()
        self.scroll_area.setWidgetResizable(True)
        self.scroll_area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.scroll_area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.scroll_area.setWidget(self.stack)
        self.empty = EmptyTimeline(self.scene, self)
        self.empty.run_requested.connect(self.run_requested)
        stacked(self.head, (self.scroll_area, 1), (self.empty, 1), on=self, spacing=0)
        self.stack.zoomed.connect(self.zoom)
        self.stack.panned.connect(self.pan)
        self.stack.pointer_moved.connect(self._point)
        self.stack.range_dragged.connect(self.selection.select_range)
        self.stack.clicked.connect(self._click)
        self.stack.double_clicked.connect(self._double_click)
        self.stack.resized.connect(self._rescale)

    @property
    def lanes(self) -> list[Lane]:
        """All lanes, top to bottom, hidden ones too."""
        return self.stack.lanes

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
        self._changed.clear()
        if not news and not self._owed and not (was_running and self.scene.is_running):
            return
        self.scene.clock_ns = self._clock()
        if self.aligning.resolve():
            return
        if self._take_scale() or ended:
            self._repaint_lanes()
            return
        for lane in self.lanes:
            if any(lane.wants(*one) for one in news) or (isinstance(lane, StageLane | OverlapLane) and lane.is_growing):
                self._owed.add(lane)
        self._repaint_owed()
        self._show_wanted()

    def _repaint_owed(self) -> None:
        """Repaints the lanes with news; of a very large run the tall ones in turns, so that no frame takes long."""
        is_large = sum(len(track.token_times()) + len(track.parts) for _, track in self.scene.shown) > MANY_ROWS
        self._turn = 1 - self._turn
        for place, lane in enumerate(self.lanes):
            if lane in self._owed and not (is_large and lane.grows and place % 2 != self._turn):
                self._owed.discard(lane)
                lane.show_news()

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
        self._show_wanted()
        self._rescale()

    def _forget(self) -> None:
        self._changed.clear()
        self.selection.clear()
        self.selection.set_view_range(None)
        self.selection.set_runs(None, None)
        self._rebuild()

    def _show_wanted(self) -> None:
        has_any = bool(self.scene.shown)
        if self.scroll_area.isHidden() == has_any:
            self.scroll_area.setVisible(has_any)
            self.empty.setVisible(not has_any)
            self.head.setVisible(has_any)
        for lane in (*self._stages, self.overlap, self.rounds, self.power):
            wanted = lane.is_wanted()
            if lane.isHidden() == wanted:
                lane.setVisible(wanted)

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
        self.scene.clock_ns = self._clock() if self.scene.is_running else self.scene.clock_ns
        self._take_scale()
        self._repaint_lanes()

    def _repaint_lanes(self, *_: object) -> None:
        self._owed.clear()
        self.head.update()
        for lane in self.lanes:
            lane.update()
        self._show_wanted()

    def zoom(self, factor: float, at_px: float) -> None:
        """Zooms in (factor > 1) or out around a position of the drawing area; following ends."""
        extent = self.scene.extent()
        longest = max(2 * (extent[1] - extent[0]), 1_000_000)
        self._set_view(self.scene.scale.zoomed(factor, at_px, longest_ns=longest))

    def pan(self, by_px: float) -> None:
        """Moves the view; following ends."""
        self._set_view(self.scene.scale.panned(by_px))

    def _set_view(self, scale: Timescale) -> None:
        if not self.scene.shown:
            return
        kept = scale.within(self.scene.extent())
        self.selection.set_view_range((kept.start_ns, kept.end_ns))

    def fit(self, *_: object) -> None:
        """Shows everything, and follows a run that is still going."""
        self.selection.set_view_range(None)

    def zoom_to(self, wanted: TimeRange) -> None:
        """Shows a range with a little air on both sides."""
        margin = max(500, round((wanted[1] - wanted[0]) * 0.06))
        self.selection.set_view_range((wanted[0] - margin, wanted[1] + margin))

    def focus_selection(self) -> None:
        """Zooms to what is selected, where it takes time."""
        chosen = self.range_of(self.selection.chosen)
        if chosen is not None:
            self.zoom_to(chosen)

    def range_of(self, chosen: Chosen | None) -> TimeRange | None:
        """When what is selected happened, from its run's zero; None when it is not shown."""
        if isinstance(chosen, TimeRange) or chosen is None:
            return chosen
        for _, track in self.scene.shown:
            if track.run.run_id != chosen.run_id:
                continue
            found = self._range_in(track, chosen)
            if found is not None:
                return found
        return None

    def _range_in(self, track: Track, chosen: SpanRef | RoundRef | TokenRef) -> TimeRange | None:
        match chosen:
            case SpanRef(_, span_id) if span_id in track.run.spans:
                span = track.run.spans[span_id]
                end = track.now(self.scene.clock_ns) if span.end_ns is None else span.end_ns
                return TimeRange(span.start_ns - track.zero_ns, end - track.zero_ns)
            case RoundRef(_, round_index) if track.is_answer:
                return round_range(track, round_index)
            case TokenRef(_, position):
                return token_range(track, position)
        return None

    # Mouse and keys.

    def _show_chosen(self, chosen: Chosen | None) -> None:
        self.stack.overlay.show_range()
        if self._marked_rows or not isinstance(chosen, TimeRange | None):
            self._repaint_lanes()
        else:
            self.head.update()
        self._marked_rows = not isinstance(chosen, TimeRange | None)
        self._bring_into_view()

    def _bring_into_view(self) -> None:
        """Moves a zoomed view to what was selected elsewhere, as far as it must."""
        chosen, view = self.range_of(self.selection.chosen), self.selection.view_range
        if chosen is not None and view is not None and (moved := around(chosen, view)) is not None:
            self.selection.set_view_range(moved)

    def _point(self, t_ns: int | None) -> None:
        self.head.pointer_ns = t_ns
        self.head.update()

    def _click(self, hit: Hit | None) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        self.selection.select(hit.chosen if hit else None)

    def _double_click(self, hit: Hit | None) -> None:
        if hit is not None and hit.range is not None:
            self.zoom_to(hit.range)
        else:
            self.fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """W/S zoom, A/D pan while held; F fits, Shift+F goes to the selection; `,` and `.` step through spans."""
        if not self.take_key(event):
            super().keyPressEvent(event)

    def take_key(self, event: QKeyEvent) -> bool:
        """Acts on a key press; False when the key means nothing here."""
        plain = not event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier)
        cross = cross_key(event) if plain else None
        if cross is not None:
            if not event.isAutoRepeat():
                self._held_keys.add(cross)
                self._glide_on()
                self._glide.start()
            return True
        match event.key():
            case Qt.Key.Key_F if plain:
                if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                    self.focus_selection()
                else:
                    self.fit()
            case Qt.Key.Key_Comma:
                self.step_span(-1)
            case Qt.Key.Key_Period:
                self.step_span(+1)
            case Qt.Key.Key_Escape:
                self.selection.clear()
            case _:
                return False
        return True

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """The view stops with the key."""
        if not self.release_key(event):
            super().keyReleaseEvent(event)

    def release_key(self, event: QKeyEvent) -> bool:
        """Takes note of a released key; False when it means nothing here."""
        cross = cross_key(event)
        if cross is None or event.isAutoRepeat():
            return cross is not None
        self._held_keys.discard(cross)
        if not self._held_keys:
            self._glide.stop()
        return True

    def changeEvent(self, event: QEvent) -> None:
        """A window that loses the keyboard never sees the key released."""
        if event.type() == QEvent.Type.ActivationChange and not self.isActiveWindow():
            self._held_keys.clear()
            self._glide.stop()
        super().changeEvent(event)

    def _glide_on(self) -> None:
        width = self.scene.scale.width_px
        at = width / 2
        if "w" in self._held_keys:
            self.zoom(_ZOOM_PER_FRAME, at)
        if "s" in self._held_keys:
            self.zoom(1 / _ZOOM_PER_FRAME, at)
        if "a" in self._held_keys:
            self.pan(-_PAN_PER_FRAME_PX)
        if "d" in self._held_keys:
            self.pan(_PAN_PER_FRAME_PX)

    def step_span(self, by: int) -> None:
        """Selects the stage before or after the selected one, in order of start over both columns."""
        found = sorted(
            (span.start_ns - track.zero_ns, SpanRef(track.run.run_id, span.span_id))
            for _, track in self.scene.shown
            for span in track.run.stages(track.role)
        )
        if not found:
            return
        refs = [ref for _, ref in found]
        chosen = self.selection.span
        place = refs.index(chosen) + by if chosen in refs else (0 if by > 0 else len(refs) - 1)
        self.selection.select(refs[min(max(place, 0), len(refs) - 1)])

    def _set_theme(self, theme: Theme) -> None:
        self.scene.theme = theme
        self.empty.update()
        self._repaint_lanes()
