"""The visible part of the time, steps of the selection along the timeline, and the selection as text."""

from __future__ import annotations

import numpy as np

from evprof.core.texts import one_line
from evprof.view.labels import stage_title
from evprof.view.lanes import Track
from evprof.view.timescale import Timescale, around, fitted, followed, time_text
from ui.state.selection import Chosen, RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.timeline.scene import TimelineScene


class Zooming:
    """Moves the view; the chosen view is a part of the selection."""

    def __init__(self, scene: TimelineScene, selection: Selection) -> None:
        self._scene = scene
        self._selection = selection

    def take_scale(self, width_px: float) -> None:
        """Works out the visible range."""
        scene, chosen = self._scene, self._selection.view_range
        if chosen is not None:
            scene.scale = Timescale(chosen[0], max(chosen[1], chosen[0] + 1), width_px)
        elif scene.is_running:
            scene.scale = followed(scene.scale, scene.extent(), width_px)
        else:
            scene.scale = fitted(scene.extent(), width_px)

    def zoom(self, factor: float, at_px: float) -> None:
        """Zooms in (factor > 1) or out around a position of the drawing area; following ends."""
        extent = self._scene.extent()
        longest = max(2 * (extent[1] - extent[0]), 1_000_000)
        self._show(self._scene.scale.zoomed(factor, at_px, longest_ns=longest))

    def pan(self, by_px: float) -> None:
        self._show(self._scene.scale.panned(by_px))

    def _show(self, scale: Timescale) -> None:
        if not self._scene.is_empty:
            kept = scale.within(self._scene.extent())
            self._selection.set_view_range((kept.start_ns, kept.end_ns))

    def look_from(self, start_ns: int) -> None:
        """Shows the same length of time from another moment on."""
        scale = self._scene.scale
        self._show(Timescale(start_ns, start_ns + scale.span_ns, scale.width_px))

    def fit(self, *_: object) -> None:
        """Shows everything, and follows a run that is still going."""
        self._selection.set_view_range(None)

    def zoom_to(self, wanted: TimeRange | None) -> None:
        """Shows a range with a little air on both sides; None: everything."""
        margin = 0 if wanted is None else max(500, round((wanted[1] - wanted[0]) * 0.06))
        self._selection.set_view_range(wanted and (wanted[0] - margin, wanted[1] + margin))

    def focus_selection(self) -> None:
        if (chosen := self._scene.range_of(self._selection.chosen)) is not None:
            self.zoom_to(chosen)

    def bring_into_view(self) -> None:
        """Moves a zoomed view to what is selected, as far as it must; what fills the view is in sight."""
        chosen, view = self._scene.range_of(self._selection.chosen), self._selection.view_range
        if chosen is None or view is None or (chosen.start_ns <= view.start_ns and view.end_ns <= chosen.end_ns):
            return
        if (moved := around(chosen, view)) is not None:
            self._selection.set_view_range(moved)


class Choosing:
    """What keys and clicks do to the selection."""

    def __init__(self, scene: TimelineScene, selection: Selection) -> None:
        self._scene = scene
        self._selection = selection
        self.is_here = False
        """Whether what is being selected lies under the mouse: the view stays under it."""

    def select_here(self, chosen: Chosen | None) -> None:
        self.is_here = True
        self._selection.select(chosen)
        self.is_here = False

    def step(self, by: int) -> None:
        """Selects what follows (`by` 1) or precedes (-1): spans of one row, tokens, rounds; else any stage."""
        chosen = self._selection.chosen
        found = None
        if chosen is not None and not isinstance(chosen, TimeRange):
            rows = (_beside(track, chosen, by) for _, track in self._scene.shown if track.run.run_id == chosen.run_id)
            found = next((one for one in rows if one is not None), None)
        stages = [] if found is not None else self._stages()
        if found is not None or stages:
            self._selection.select(found if found is not None else stages[0 if by > 0 else -1])

    def _stages(self) -> list[SpanRef]:
        found = sorted(
            (span.start_ns - track.zero_ns, SpanRef(track.run.run_id, span.span_id))
            for _, track in self._scene.shown
            for span in track.run.stages(track.role)
        )
        return [ref for _, ref in found]

    def to_range(self) -> None:
        """Turns what is selected into the range of its time."""
        if (found := self._scene.range_of(self._selection.chosen)) is not None:
            self._selection.select(found)


def _beside(track: Track, chosen: SpanRef | RoundRef | TokenRef, by: int) -> Chosen | None:
    """What of its kind follows or precedes something selected, itself at the end; None where the track has it not."""
    numbers, number = track.token_positions(), chosen[1]
    if isinstance(chosen, SpanRef):
        span = track.run.spans.get(number)
        table = track.stages if span is not None and span.is_stage else track.parts
        numbers = table.rows(track.zero_ns, track.latest_ns).ids
    elif isinstance(chosen, RoundRef):
        numbers = track.rounds()[6] if track.is_answer else numbers[:0]
    places = np.flatnonzero(numbers == number)
    if not len(places):
        return None
    place = min(max(int(places[0]) + by, 0), len(numbers) - 1)
    return type(chosen)(track.run.run_id, int(numbers[place]))


def spoken_selection(scene: TimelineScene, chosen: Chosen | None) -> str:
    """Name, length and start of a selected span or round; "" for anything else."""
    for place, track in scene.shown:
        words = _words(track, chosen)
        if words:
            return one_line(f"selected in {scene.title(place)}: {words}")
    return ""


def _words(track: Track, chosen: Chosen | None) -> str:
    match chosen:
        case SpanRef(run_id, span_id) if run_id == track.run.run_id and span_id in track.run.spans:
            span = track.run.spans[span_id]
            if span.role != track.role:
                return ""
            takes = "still running" if span.end_ns is None else time_text(span.end_ns - span.start_ns)
            return f"{stage_title(span.name)}, {takes}, from {time_text(span.start_ns - track.own_zero_ns)}"
        case RoundRef(run_id, round_index) if run_id == track.run.run_id and track.is_answer:
            starts, _, _, ends, drafted, accepted, numbers, _ = (column.tolist() for column in track.rounds())
            if round_index not in numbers:
                return ""
            row = numbers.index(round_index)
            return (
                f"round {round_index + 1}, {accepted[row]:,} of {drafted[row]:,} accepted, "
                f"{time_text(ends[row] - starts[row])}, from {time_text(starts[row] - track.shift_ns)}"
            )
    return ""
