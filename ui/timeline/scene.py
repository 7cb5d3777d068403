"""What all lanes of the timeline look at together: tracks, time scale, theme and the moment being drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from PySide6.QtGui import QColor

from evprof.core.records import DRAFT
from evprof.view.labels import model_title
from evprof.view.lanes import Track
from evprof.view.timescale import Timescale
from ui.state.selection import Chosen, RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.style.theme import Theme

GUTTER_PX = 144
"""Width of the lane names, in logical px."""


@dataclass
class TimelineScene:
    """Shared by the lanes; written by the TimelineView alone. `tracks` are column A's and B's."""

    theme: Theme
    selection: Selection
    scale: Timescale
    tracks: tuple[Track | None, Track | None] = (None, None)
    clock_ns: int = 0

    @property
    def shown(self) -> list[tuple[int, Track]]:
        """Tracks that are there, with their column."""
        return [(column, track) for column, track in enumerate(self.tracks) if track is not None]

    @property
    def is_running(self) -> bool:
        """Whether a shown run goes on."""
        return any(track.is_running for _, track in self.shown)

    def title(self, column: int) -> str:
        """Name of a column's model; the run's number is added where both columns show the same model."""
        number = self.run_number(column)
        return f"{self.model(column)} · {number}" if number else self.model(column)

    def model(self, column: int) -> str:
        """Name of a column's model alone."""
        track = self.tracks[column]
        return "" if track is None else model_title(track.run, track.role)

    def run_number(self, column: int) -> str:
        """`run 4` where both columns show the same model in two runs; empty elsewhere."""
        track, other = self.tracks[column], self.tracks[1 - column]
        if track is None or other is None or other.run is track.run or self.model(0) != self.model(1):
            return ""
        return f"run {track.run.run_id}"

    def column_color(self, column: int) -> QColor:
        """The colour of a column's lines: the draft's pink, the target's blue."""
        track = self.tracks[column]
        is_draft = column == 0 if track is None else track.role == DRAFT
        both = [shown.role for _, shown in self.shown]
        if len(both) == 2 and both[0] == both[1]:
            is_draft = column == 0
        return self.theme.stage("draft" if is_draft else "decode")

    @property
    def marked_range(self) -> TimeRange | None:
        """The time that is marked over all lanes: the selected range, or that of the selected round."""
        chosen = self.selection.round
        if chosen is None:
            return self.selection.time_range
        tracks = (track for _, track in self.shown if track.run.run_id == chosen.run_id and track.is_answer)
        return next((found for track in tracks if (found := round_range(track, chosen.round_index))), None)

    def extent(self) -> tuple[int, int]:
        """From the runs' zero to the last thing known of either, in ns; at least a little."""
        return 0, max((track.end_ns(self.clock_ns) for _, track in self.shown), default=0)


@dataclass(frozen=True)
class Hit:
    """What lies under the pointer: what to say about it and what a click selects."""

    title: str
    color: QColor
    facts: list[tuple[str, str]] = field(default_factory=list)
    note: str = ""
    span: SpanRef | None = None
    round: RoundRef | None = None
    token: TokenRef | None = None
    range: TimeRange | None = None
    swatch: str = ""
    """The stages whose colours mark it, where there are several."""

    @property
    def chosen(self) -> Chosen | None:
        """What a click selects."""
        return self.span or self.round or self.token


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
