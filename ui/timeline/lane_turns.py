"""Lanes that take turns at being painted, where all at once would hold the window up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QObject
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from ui.timeline.lane import Lane
from ui.widgets.pace import Pace

BETWEEN_LANES_MS = 3
"""Between two of these turns: Qt paints together what is asked for within 5 ms."""

MANY_ROWS = 500
"""From this many tokens and parts on, lanes take turns."""

VERY_MANY_ROWS = 5_000
"""From this many on, tall lanes are repainted every other time."""


class LaneTurns(QObject):
    """Which lanes have news that their pictures do not show, and which of them is painted next."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._owed: set[Lane] = set()
        self._due: list[Lane] = []
        self._pace = Pace(BETWEEN_LANES_MS, self._paint_next, self, answers=True)
        self._turn = 0

    @property
    def has_owed(self) -> bool:
        """Whether lanes wait for their turn at a picture yet to come."""
        return bool(self._owed)

    @property
    def is_busy(self) -> bool:
        """Whether lanes are yet to be painted."""
        return bool(self._due)

    def owe(self, lanes: Iterable[Lane]) -> None:
        """These have news."""
        self._owed.update(lanes)

    def repaint(self, lanes: Sequence[Lane], row_count: int) -> None:
        """Repaints those of all `lanes` that have news; where they show many rows each in a turn of the event loop of
        its own, so that the window answers in between."""
        self._turn = 1 - self._turn
        due = [
            lane
            for place, lane in enumerate(lanes)
            if lane in self._owed and not (row_count > VERY_MANY_ROWS and lane.grows and place % 2 != self._turn)
        ]
        self._owed.difference_update(due)
        self._due += [lane for lane in due if lane not in self._due]
        if row_count > MANY_ROWS:
            self._paint_next()
            return
        for lane in [lane for lane in self._due if lane.updatesEnabled()]:
            self._due.remove(lane)
            lane.show_news()

    def paint_anew(self, lanes: list[Lane]) -> None:
        """Has lanes that show another run, or more time, painted one by one: until then each keeps its picture."""
        self.end()
        for lane in lanes:
            lane.setUpdatesEnabled(False)
        self._owed.clear()
        self._due = lanes
        if lanes:
            self._pace.note()

    def forget(self) -> None:
        """All lanes were asked to paint themselves; those whose turn is yet to come do so then."""
        self._owed.clear()
        self._due = [lane for lane in self._due if not lane.updatesEnabled()]

    def end(self) -> None:
        """Nobody waits any longer."""
        for lane in self._due:
            lane.setUpdatesEnabled(True)
        self._due = []

    def _paint_next(self) -> None:
        self._pace.begin()
        if self._due:
            lane = self._due.pop(0)
            if lane.updatesEnabled():
                lane.show_news()
            else:
                lane.setUpdatesEnabled(True)  # which has all of it painted
        if self._due:
            self._pace.note()


def end_turns(widget: QWidget) -> None:
    """Has no lane in `widget` wait for its turn: a picture of it would have none of those that do."""
    for lane in widget.findChildren(Lane):
        if not lane.updatesEnabled():
            lane.setUpdatesEnabled(True)


def grabbed(widget: QWidget) -> QImage:
    """A picture of a widget with everything in it."""
    end_turns(widget)
    return widget.grab().toImage()
