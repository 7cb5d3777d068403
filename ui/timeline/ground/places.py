"""When things happened on the shared axis, and which moments are edges that a drag keeps to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from evprof.view.edges import nearest_edge
from evprof.view.lanes import Ints, Track
from evprof.view.timescale import Timescale
from ui.state.chosen import Chosen, RoundRef, SpanRef, TimeRange, TokenRef

SNAP_PX = 6.0
"""How near an edge has to be to draw a drag to it."""


def range_of(tracks: Sequence[Track], chosen: Chosen | None, clock_ns: int) -> TimeRange | None:
    """When what is selected happened, from its run's zero; None when no track shows it."""
    if isinstance(chosen, TimeRange) or chosen is None:
        return chosen
    found = (_range_in(track, chosen, clock_ns) for track in tracks if track.run.run_id == chosen.run_id)
    return next((one for one in found if one is not None), None)


def _range_in(track: Track, chosen: SpanRef | RoundRef | TokenRef, clock_ns: int) -> TimeRange | None:
    match chosen:
        case SpanRef(_, span_id) if span_id in track.run.spans:
            span = track.run.spans[span_id]
            end = track.now(clock_ns) if span.end_ns is None else span.end_ns
            return TimeRange(span.start_ns - track.zero_ns, end - track.zero_ns)
        case RoundRef(_, round_index) if track.is_answer:
            return round_range(track, round_index)
        case TokenRef(_, position):
            return token_range(track, position)
    return None


def round_range(track: Track, round_index: int) -> TimeRange | None:
    """Start and end of a round from the run's zero, as its lane draws it; None where it is not known."""
    starts, _, _, ends, _, _, numbers, _ = track.rounds()
    places = np.flatnonzero(numbers == round_index)
    return TimeRange(int(starts[places[0]]), int(ends[places[0]])) if len(places) else None


def token_range(track: Track, position: int) -> TimeRange | None:
    """From the token before to a token of the answer, from the run's zero; None where it is not known."""
    places = np.flatnonzero(track.token_positions() == position)
    if not len(places):
        return None
    times, place = track.token_times(), int(places[0])
    return TimeRange(int(times[max(0, place - 1)]), int(times[place]))


def snapped(tracks: Sequence[Track], t_ns: int, scale: Timescale, clock_ns: int) -> int:
    """The nearest edge of a span, round or token within a few px of a moment; the moment where there is none."""
    found = nearest_edge(_edges(tracks, clock_ns), t_ns, round(SNAP_PX * scale.ns_per_px))
    return t_ns if found is None else found


def _edges(tracks: Sequence[Track], clock_ns: int) -> Iterator[Ints]:
    for track in tracks:
        for table in (track.stages, track.parts):
            row = table.rows(track.zero_ns, track.now(clock_ns))
            yield row.starts
            yield row.ends
        if track.is_answer:
            yield from track.rounds()[:4]
            yield track.token_times()
