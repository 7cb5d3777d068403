"""The timeline for those who hear it: a list for each lane, with an item for each stage and each round.

It costs nothing until a screen reader asks; what it says is read from the tracks that are drawn.
"""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QObject, QPoint, QRect
from PySide6.QtGui import QAccessible, QAccessibleEvent, QAccessibleInterface
from PySide6.QtWidgets import QAccessibleWidget, QWidget

from evprof.core.safe_text import one_line
from evprof.view.labels import stage_title
from evprof.view.span_table import RUNNING
from evprof.view.timescale import time_text
from ui.state.selection import Chosen, RoundRef, SpanRef
from ui.timeline.lane import Lane
from ui.timeline.round_lane import RoundLane
from ui.timeline.scene import GUTTER_PX
from ui.timeline.stage_lane import StageLane

MOST_ITEMS = 2_000
"""Of a lane; a person who steps through a list goes no further."""

_Text = QAccessible.Text


class SpokenItem(NamedTuple):
    """An item: its words, when it was (ns from the run's zero), and what selects it."""

    words: str
    start_ns: int
    end_ns: int
    chosen: SpanRef | RoundRef

    def is_chosen(self, chosen: Chosen | None) -> bool:
        """Whether it is what is selected; a span and a round of the same numbers are equal as tuples."""
        return type(chosen) is type(self.chosen) and chosen == self.chosen


def items_of(lane: Lane) -> list[SpokenItem]:
    """What a lane says, in order of time; [] of lanes that are curves."""
    if isinstance(lane, StageLane):
        return _stages(lane)
    return _rounds(lane) if isinstance(lane, RoundLane) else []


def _stages(lane: StageLane) -> list[SpokenItem]:
    track = lane.track
    if track is None:
        return []
    row = track.stages.rows(track.zero_ns, track.now(lane.scene.clock_ns))
    columns = (row.starts, row.ends, row.ids, row.names, row.states)
    found = []
    for start, end, span_id, name, state in zip(*(column[:MOST_ITEMS].tolist() for column in columns), strict=True):
        takes = "still running" if state == RUNNING else time_text(end - start)
        words = f"{stage_title(track.stages.names[name])}, {takes}, from {time_text(start)}"
        found.append(SpokenItem(words, start, end, SpanRef(track.run.run_id, span_id)))
    return found


def _rounds(lane: RoundLane) -> list[SpokenItem]:
    track = lane.track
    if track is None:
        return []
    starts, _, _, ends, drafted, accepted, numbers, _ = (column[:MOST_ITEMS].tolist() for column in track.rounds())
    return [
        SpokenItem(
            f"round {number + 1}, {taken:,} of {proposed:,} accepted, {time_text(end - start)}, from "
            f"{time_text(start)}",
            start,
            end,
            RoundRef(track.run.run_id, number),
        )
        for start, end, proposed, taken, number in zip(starts, ends, drafted, accepted, numbers, strict=True)
    ]


class SpokenLane(QAccessibleWidget):
    """A lane as a list."""

    def __init__(self, lane: Lane) -> None:
        super().__init__(lane, QAccessible.Role.List, "")
        self._made: dict[int, _Item] = {}

    @property
    def items(self) -> list[SpokenItem]:
        """What it says now."""
        lane = self.object()
        return items_of(lane) if isinstance(lane, Lane) else []

    def childCount(self) -> int:
        return len(self.items)

    def child(self, index: int) -> QAccessibleInterface | None:  # type: ignore[override]  # Qt takes none, its stub not
        if not 0 <= index < self.childCount():
            return None
        return self._made.setdefault(index, _Item(self, index))

    def indexOfChild(self, child: QAccessibleInterface) -> int:
        return child.index if isinstance(child, _Item) else -1

    def childAt(self, x: int, y: int) -> QAccessibleInterface | None:  # type: ignore[override]  # as above
        places = (index for index in range(self.childCount()) if self.rect_of(index).contains(x, y))
        return self.child(next(places, -1))

    def text(self, kind: QAccessible.Text) -> str:
        lane = self.object()
        if not isinstance(lane, Lane):
            return ""
        if kind == _Text.Name:
            return one_line(", ".join(part for part in lane.names() if part))
        if kind == _Text.Description:
            chosen = next((item.words for item in self.items if item.is_chosen(lane.scene.selection.chosen)), "")
            return f"selected: {chosen}" if chosen else ""
        return super().text(kind)

    def rect_of(self, index: int) -> QRect:
        """Where an item is on the screen."""
        lane, items = self.object(), self.items
        if not isinstance(lane, Lane) or index >= len(items):
            return QRect()
        left, right = (GUTTER_PX + round(lane.scene.scale.x(t_ns)) for t_ns in items[index][1:3])
        return QRect(lane.mapToGlobal(QPoint(left, 0)), lane.mapToGlobal(QPoint(max(right, left + 1), lane.height())))


class _Item(QAccessibleInterface):
    """One stage or round in the list of its lane."""

    def __init__(self, tree: SpokenLane, index: int) -> None:
        super().__init__()
        self._tree = tree
        self.index = index

    def _told(self) -> SpokenItem | None:
        items = self._tree.items
        return items[self.index] if self.index < len(items) else None

    def isValid(self) -> bool:
        return self._told() is not None

    def object(self) -> QObject | None:  # type: ignore[override]  # no object of its own: Qt's way to say so
        return None

    def parent(self) -> QAccessibleInterface:
        return self._tree

    def child(self, index: int) -> QAccessibleInterface | None:  # type: ignore[override]  # it has none
        return None

    def childAt(self, x: int, y: int) -> QAccessibleInterface | None:  # type: ignore[override]  # it has none
        return None

    def childCount(self) -> int:
        return 0

    def indexOfChild(self, child: QAccessibleInterface) -> int:
        return -1

    def rect(self) -> QRect:
        return self._tree.rect_of(self.index)

    def role(self) -> QAccessible.Role:
        return QAccessible.Role.ListItem

    def state(self) -> QAccessible.State:
        found, told, lane = QAccessible.State(), self._told(), self._tree.object()
        found.selectable = 1
        if told is not None and isinstance(lane, Lane) and told.is_chosen(lane.scene.selection.chosen):
            found.selected = 1
        return found

    def text(self, kind: QAccessible.Text) -> str:
        told = self._told()
        return told.words if kind == _Text.Name and told is not None else ""

    def setText(self, kind: QAccessible.Text, text: str) -> None:
        """Nothing here can be written."""


class Speaking(QObject):
    """Says what is selected, as the timeline's description and, while a screen reader listens, as an event."""

    def __init__(self, timeline: QWidget, lanes: list[Lane]) -> None:
        super().__init__(timeline)
        self._timeline = timeline
        self._lanes = lanes
        timeline.setAccessibleName("Timeline")
        _Factory.install()

    def tell(self, chosen: Chosen | None) -> None:
        """Something else is selected."""
        if not isinstance(chosen, SpanRef | RoundRef):
            self._timeline.setAccessibleDescription("")
            return
        for lane in self._lanes:
            for index, item in enumerate(items_of(lane)):
                if item.is_chosen(chosen):
                    name = one_line(lane.names()[0])
                    self._timeline.setAccessibleDescription(f"selected in {name}: {item.words}")
                    if QAccessible.isActive():
                        event = QAccessibleEvent(lane, QAccessible.Event.Focus)
                        event.setChild(index)
                        QAccessible.updateAccessibility(event)
                    return
        self._timeline.setAccessibleDescription("")


class _Factory:
    """Makes the list of a lane when somebody asks; Qt asks for every object, by the name of its class."""

    _is_installed = False

    @classmethod
    def install(cls) -> None:
        """Once for the program."""
        if not cls._is_installed:
            cls._is_installed = True
            QAccessible.installFactory(_spoken)


def _spoken(_name: str, watched: QObject) -> QAccessibleInterface | None:
    if not isinstance(watched, Lane):
        return None
    # Qt holds on to it without counting: the lane keeps it alive.
    made = SpokenLane(watched)
    watched.spoken = made
    return made
