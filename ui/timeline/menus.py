"""The context menus of the timeline, and what they copy to the clipboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QObject, QPoint, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QWidget

from evprof.core.texts import guarded, one_line
from evprof.core.vocabulary.modes import mode_of
from evprof.session.facts import Mark
from evprof.view.timescale import time_text
from ui.state.selection import TimeRange
from ui.timeline.lane import Lane
from ui.timeline.lane_stack import LaneStack
from ui.timeline.marks import Marking
from ui.timeline.navigation import Zooming
from ui.timeline.scene import Hit, TimelineScene
from ui.timeline.stage_lane import StageLane
from ui.widgets.choice_box import ChoiceMenu
from ui.widgets.drawn import picture_of
from ui.widgets.label import literal

Line = Sequence[str]
"""The cells of a line; the first line of a table names its columns."""


def copy_table(lines: Sequence[Line]) -> None:
    """Copies lines as tab-separated text, for spreadsheets that compute nothing of it."""
    rows = ("\t".join(guarded(one_line(cell)) for cell in line) for line in lines)
    QGuiApplication.clipboard().setText("".join(f"{row}\n" for row in rows))


class Offers(QObject):
    """Makes and opens the menus.

    Signals:
        clinic_asked(): the acceptance clinic is to open.
    """

    clinic_asked = Signal()

    def __init__(
        self, ground: QWidget, scene: TimelineScene, stack: LaneStack, *, marking: Marking, zooming: Zooming
    ) -> None:
        super().__init__(ground)
        self._ground = ground
        self._scene = scene
        self._stack = stack
        self._marking = marking
        self._zooming = zooming
        self.menu: QMenu | None = None
        self.range_lines: Callable[[], list[Line]] = list
        """Returns the figures of the selected range."""

    def show_lane(self, lane: Lane | None, hit: Hit | None, place: QPoint) -> None:
        """The menu of a lane and of the hit in it; over its name: of the lane alone."""
        menu = self._begin()
        if self._scene.pointer_px is not None:
            self._add_hit(menu, hit)
            moment = self._scene.scale.t(self._scene.pointer_px)
            menu.addAction("Mark here", partial(self._marking.mark_at, moment, _run_of(lane, hit)))
            if lines := self.lines_of(hit):
                menu.addAction("Copy as text", partial(copy_table, lines))
            self._add_view(menu)
        if lane is not None:
            verb = "Open" if lane.is_folded else "Collapse"
            menu.addAction(f"{verb} {literal(lane.names()[0])}", partial(self._stack.toggle_fold, lane))
        menu.popup(place)

    def show_head(self, mark: Mark | None, place: QPoint) -> None:
        menu = self._begin()
        if mark is not None:
            menu.addAction("Go to it", partial(self._marking.go_to, mark))
            menu.addAction("Write a note…", partial(self._marking.note, mark))
            menu.addAction("Delete the mark", partial(self._marking.book.delete, mark))
        self._add_view(menu)
        menu.popup(place)

    def _begin(self) -> QMenu:
        self.menu = ChoiceMenu(self._ground)
        return self.menu

    def _add_view(self, menu: QMenu) -> None:
        menu.addAction("Show everything", self._zooming.fit)
        menu.addAction("Copy the timeline as a picture", self._copy_picture)

    def _copy_picture(self) -> None:
        """Copies twice the pixels of a plain screen, for print."""
        QGuiApplication.clipboard().setImage(picture_of(self._ground, 2.0))

    def _add_hit(self, menu: QMenu, hit: Hit | None) -> None:
        selection = self._scene.selection
        if hit is not None and hit.range is not None:
            menu.addAction("Zoom to it", partial(self._zooming.zoom_to, hit.range))
            menu.addAction("Select its range", partial(selection.select, hit.range))
        if selection.time_range is not None:
            menu.addAction("Zoom to the range", partial(self._zooming.zoom_to, selection.time_range))
        if any(mode_of(track.run.info.mode).drafts for _, track in self._scene.shown):
            menu.addAction("Show in the clinic", partial(self._show_in_clinic, hit))

    def _show_in_clinic(self, hit: Hit | None) -> None:
        if hit is not None and hit.chosen is not None:
            self._scene.selection.select(hit.chosen)
        self.clinic_asked.emit()

    def lines_of(self, hit: Hit | None) -> list[Line]:
        """A table of the selected range where the pointer is in it, else of the hit; empty without both."""
        chosen, at_px = self._scene.selection.time_range, self._scene.pointer_px
        is_inside = chosen is not None and at_px is not None and chosen[0] <= self._scene.scale.t(at_px) <= chosen[1]
        if hit is not None and not is_inside:
            return [(hit.title, ""), *hit.facts, *([("note", hit.note)] if hit.note else [])]
        if chosen is None:
            return []
        moments = (("from", chosen.start_ns), ("to", chosen.end_ns), ("length", chosen.end_ns - chosen.start_ns))
        return self.range_lines() or [("Selected range", ""), *((name, time_text(t_ns)) for name, t_ns in moments)]


def _run_of(lane: Lane | None, hit: Hit | None) -> int | None:
    """The run under the pointer; None where the lane shows several runs."""
    if hit is not None and hit.chosen is not None and not isinstance(hit.chosen, TimeRange):
        return hit.chosen.run_id
    track = lane.track if isinstance(lane, StageLane) else None
    return None if track is None else track.run.run_id
