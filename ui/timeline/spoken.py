"""The selection of the timeline in words, for screen readers."""

from __future__ import annotations

from evprof.core.safe_text import one_line
from evprof.view.labels import stage_title
from evprof.view.lanes import Track
from evprof.view.timescale import time_text
from ui.state.selection import Chosen, RoundRef, SpanRef
from ui.timeline.scene import TimelineScene


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
