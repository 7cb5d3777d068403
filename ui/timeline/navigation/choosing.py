"""Moves of the selection along the timeline: to the next span, token or round, along a flow, into a range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evprof.view.lanes import Ints, Track
from ui.state.chosen import Chosen, RoundRef, SpanRef, TimeRange, TokenRef
from ui.timeline.ground.flows import next_along

if TYPE_CHECKING:
    from ui.state.selection import Selection
    from ui.timeline.scene import TimelineScene


class Choosing:
    """What keys and clicks do to the selection."""

    def __init__(self, scene: TimelineScene, selection: Selection) -> None:
        self._scene = scene
        self._selection = selection
        self.is_here = False
        """Whether what is being selected lies under the mouse: the view stays under it."""

    def select_here(self, chosen: Chosen | None) -> None:
        """Selects what lies under the mouse."""
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

    def follow(self, by: int) -> None:
        """Selects the next (`by` 1) or last (-1) step of drafting and verifying."""
        found = next_along(self._scene.shown, self._selection.chosen, by)
        if found is not None:
            self._selection.select(found)

    def to_range(self) -> None:
        """Turns what is selected into the range of its time."""
        found = self._scene.range_of(self._selection.chosen)
        if found is not None:
            self._selection.select(found)


def _beside(track: Track, chosen: SpanRef | RoundRef | TokenRef, by: int) -> Chosen | None:
    """What of its kind follows or precedes something selected, itself at the end; None where the track has it not."""
    run_id = track.run.run_id
    match chosen:
        case SpanRef(_, span_id):
            span = track.run.spans.get(span_id)
            table = track.stages if span is not None and span.is_stage else track.parts
            found = _next_to(table.rows(track.zero_ns, track.latest_ns).ids, span_id, by)
            return None if found is None else SpanRef(run_id, found)
        case RoundRef(_, round_index):
            found = _next_to(track.rounds()[6], round_index, by) if track.is_answer else None
            return None if found is None else RoundRef(run_id, found)
        case TokenRef(_, position):
            found = _next_to(track.token_positions(), position, by)
            return None if found is None else TokenRef(run_id, found)


def _next_to(numbers: Ints, number: int, by: int) -> int | None:
    places = np.flatnonzero(numbers == number)
    return int(numbers[min(max(int(places[0]) + by, 0), len(numbers) - 1)]) if len(places) else None
