"""What all lanes of the timeline look at together: tracks, time scale, theme and the moment being drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from PySide6.QtGui import QColor

from evprof.core.records import DRAFT
from evprof.session.facts import Mark
from evprof.view.alignment import offset_of
from evprof.view.columns import ShownModel, headers_of
from evprof.view.labels import model_title
from evprof.view.lanes import Track
from evprof.view.timescale import Timescale
from ui.state.selection import Chosen, RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.style.theme import Theme

PLACES = (2, 0, 3, 1)
"""The places of tracks in the order of their lanes."""

GUTTER_PX = 144
"""Width of the lane names, in logical px."""


@dataclass
class TimelineScene:
    """Shared by the lanes; written by the TimelineView and what moves it.

    `tracks` lie at four places: column A's, column B's, that of the draft that helped A's run, and B's.
    """

    theme: Theme
    selection: Selection
    scale: Timescale
    tracks: tuple[Track | None, ...] = (None, None, None, None)
    headers: tuple[str, str] = ("", "")
    clock_ns: int = 0
    marks: list[Mark] = field(default_factory=list)
    """Those of the shown runs."""

    pointer_px: float | None = None
    """Where the pointer is over the lanes, from their left end; what time that is changes with the scale."""

    _shown: tuple[object, list[tuple[int, Track]]] = (None, [])

    def show(self, models: Sequence[ShownModel | None]) -> None:
        """Takes the tracks of what is to be shown, one for each place; of what is shown already they stay."""
        before = {(track.run.run_id, track.role): track for _, track in self.shown}
        self.tracks = tuple(None if model is None else _track_of(model, before) for model in models)
        self.headers = headers_of(*models[:2])

    @property
    def shown(self) -> list[tuple[int, Track]]:
        """Tracks that are there with their place, as their lanes stand: all of A, each draft first, then all of B."""
        if self._shown[0] is not self.tracks:
            found = [(place, track) for place in PLACES if (track := self.tracks[place]) is not None]
            self._shown = self.tracks, found
        return self._shown[1]

    @property
    def is_empty(self) -> bool:
        return not self.shown

    @property
    def of_each_run(self) -> list[tuple[int, Track]]:
        """One track of each shown run with its place: the columns' own."""
        found = {track.run.run_id: (place, track) for place in (1, 0) if (track := self.tracks[place]) is not None}
        return sorted(found.values(), key=lambda entry: entry[0])

    def header(self, place: int) -> str:
        """`A · run 2` where two runs are compared; empty elsewhere."""
        return self.headers[place % 2]

    @property
    def is_running(self) -> bool:
        return any(track.is_running for _, track in self.shown)

    def title(self, place: int) -> str:
        """Name of a place's model; with its run's header where A and B have a model in common."""
        header, model = self.header(place), self.model(place)
        a, b = ({self.model(at) for at, _ in self.shown if at % 2 == side} for side in (0, 1))
        return f"{header} · {model}" if header and a & b else model

    def model(self, place: int) -> str:
        track = self.tracks[place]
        return "" if track is None else model_title(track.run, track.role)

    def line_color(self, place: int) -> QColor:
        """The colour of a place's lines: the draft's pink, the target's blue; where both answers are of one role, A's
        pink and B's blue."""
        track = self.tracks[place]
        a, b = self.tracks[:2]
        is_draft = place % 2 == 0 if track is None else track.role == DRAFT
        if a is not None and b is not None and a.role == b.role:
            is_draft = place % 2 == 0
        return self.theme.stage("draft" if is_draft else "decode")

    def range_of(self, chosen: Chosen | None) -> TimeRange | None:
        """When what is selected happened, from its run's zero; None when it is not shown."""
        return range_of([track for _, track in self.shown], chosen, self.clock_ns)

    @property
    def marked_range(self) -> TimeRange | None:
        """The time that is marked over all lanes: the selected range, or that of the selected round or token."""
        chosen = self.selection.chosen
        return None if isinstance(chosen, SpanRef) else self.range_of(chosen)

    def shift_of(self, run_id: int) -> int:
        """How far a shown run is moved on the axis, in ns."""
        return next((track.shift_ns for _, track in self.shown if track.run.run_id == run_id), 0)

    def placed_marks(self) -> list[tuple[Mark, TimeRange]]:
        """The marks of the shown runs and where on the axis they lie."""
        shifted = ((mark, self.shift_of(mark.run_id)) for mark in self.marks)
        return [(mark, TimeRange(mark.start_ns + shift, mark.end_ns + shift)) for mark, shift in shifted]

    def extent(self) -> tuple[int, int]:
        """From the earlier run's zero to the last thing known of either, in ns; at least a little."""
        starts = [track.shift_ns for _, track in self.shown]
        return min(starts, default=0), max((track.end_ns(self.clock_ns) for _, track in self.shown), default=0)

    def align(self) -> int | None:
        """Moves B's tracks to where the alignment wants them -> the offset; None where that is not known yet."""
        a, b = self.tracks[:2]
        offset: int | None = 0
        if a is not None and b is not None and a.run is not b.run:
            offset = offset_of((a.run, a.own_zero_ns), (b.run, b.own_zero_ns), self.selection.alignment)
        for place, track in self.shown:
            track.shift_ns = (offset or 0) if place % 2 else 0
        return offset


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
            starts, _, _, ends, _, _, numbers, _ = track.rounds()
            places = np.flatnonzero(numbers == round_index)
            return TimeRange(int(starts[places[0]]), int(ends[places[0]])) if len(places) else None
        case TokenRef(_, position):
            times, places = track.token_times(), np.flatnonzero(track.token_positions() == position)
            return TimeRange(int(times[max(0, places[0] - 1)]), int(times[places[0]])) if len(places) else None
    return None


def _track_of(model: ShownModel, before: Mapping[tuple[int, str], Track]) -> Track:
    track = before.get((model.run.run_id, model.role))
    if track is None or track.run is not model.run:
        track = Track(model)
    track.update()
    return track


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
        return self.span or self.round or self.token
