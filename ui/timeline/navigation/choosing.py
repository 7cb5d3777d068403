"""Moves of the selection along the timeline: to the next span, token or round, along a flow, into a range."""

from __future__ import annotations

from evprof.view.lanes import Track
from ui.state.selection import Chosen, RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.timeline.navigation.flows import next_along
from ui.timeline.scene import TimelineScene


class Choosing:
    """What keys do to the selection."""

    def __init__(self, scene: TimelineScene, selection: Selection) -> None:
        self._scene = scene
        self._selection = selection

    def step(self, by: int) -> None:
        """Selects what follows (`by` 1) or precedes (-1): spans of one row, tokens, rounds; else any stage."""
        listed, chosen = self._row_of(self._selection.chosen), self._selection.chosen
        if not listed:
            return
        # Tuples of two kinds may be equal, but a row holds one kind.
        place = listed.index(chosen) + by if chosen in listed else (0 if by > 0 else len(listed) - 1)
        self._selection.select(listed[min(max(place, 0), len(listed) - 1)])

    def _row_of(self, chosen: Chosen | None) -> list[Chosen]:
        """What is selected and all of its kind beside it, in order of time."""
        if chosen is not None and not isinstance(chosen, TimeRange):
            for _, track in self._scene.shown:
                row = _row_in(track, chosen) if track.run.run_id == chosen.run_id else []
                if chosen in row:
                    return row
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


def _row_in(track: Track, chosen: SpanRef | RoundRef | TokenRef) -> list[Chosen]:
    run_id = track.run.run_id
    match chosen:
        case SpanRef(_, span_id):
            span = track.run.spans.get(span_id)
            table = track.stages if span is not None and span.is_stage else track.parts
            return [SpanRef(run_id, number) for number in table.rows(0, track.latest_ns).ids.tolist()]
        case RoundRef():
            return [RoundRef(run_id, number) for number in track.rounds()[6].tolist()] if track.is_answer else []
        case TokenRef():
            return [TokenRef(run_id, position) for position in track.token_positions().tolist()]
