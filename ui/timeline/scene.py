"""What all lanes of the timeline look at together: tracks, time scale, theme and the moment being drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

from PySide6.QtGui import QColor

from evprof.core.records import DRAFT
from evprof.session.marks import Mark
from evprof.view.labels import model_title
from evprof.view.lanes import Track
from evprof.view.timescale import Timescale
from ui.state.selection import Chosen, RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.style.theme import Theme
from ui.timeline.navigation.places import range_of

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
    marks: list[Mark] = field(default_factory=list)
    """Those of the shown runs."""

    pointer_px: float | None = None
    """Where the pointer is over the lanes, from their left end; what time that is changes with the scale."""

    ruler: TimeRange | None = None
    """What is being measured."""

    hovered_round: RoundRef | None = None
    """The round under the pointer."""

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

    def range_of(self, chosen: Chosen | None) -> TimeRange | None:
        """When what is selected happened, from its run's zero; None when it is not shown."""
        return range_of([track for _, track in self.shown], chosen, self.clock_ns)

    @property
    def marked_range(self) -> TimeRange | None:
        """The time that is marked over all lanes: the selected range, or that of the selected round or token."""
        chosen = self.selection.chosen
        return None if isinstance(chosen, SpanRef) else self.range_of(chosen)

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

    selects_range: bool = False
    """Whether a click selects its range, where nothing else."""

    @property
    def chosen(self) -> Chosen | None:
        """What a click selects."""
        return self.span or self.round or self.token or (self.range if self.selects_range else None)
