"""The context menus of the timeline, and what they copy to the clipboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QByteArray, QMimeData, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtWidgets import QMenu, QWidget

from evprof.core.texts import one_line
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
from ui.widgets.label import literal

Line = Sequence[str]
"""The cells of a line; the first line of a table names its columns."""


def copy_table(lines: Sequence[Line]) -> None:
    """Copies lines as tab-separated text."""
    QGuiApplication.clipboard().setText("".join("\t".join(map(one_line, line)) + "\n" for line in lines))


def copy_picture(widget: QWidget, form: str) -> None:
    """Puts a picture of a widget on the clipboard: `form` is PNG or SVG, which is there as text, too."""
    if form == "PNG":
        QGuiApplication.clipboard().setImage(picture_of(widget))
        return
    drawn = svg_of(widget)
    data = QMimeData()
    data.setData("image/svg+xml", drawn)
    data.setText(drawn.toStdString())
    QGuiApplication.clipboard().setMimeData(data)


def picture_of(widget: QWidget) -> QImage:
    """As it looks now, twice as fine as on a plain screen: such pictures end up on paper."""
    image = QImage(widget.size() * 2, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(2.0)
    image.fill(widget.palette().window().color())
    painter = QPainter(image)
    widget.render(painter, QPoint())
    painter.end()
    return image


def svg_of(widget: QWidget) -> QByteArray:
    """The same in lines and letters."""
    from PySide6.QtCore import QBuffer, QIODevice
    from PySide6.QtSvg import QSvgGenerator

    drawn = QByteArray()
    buffer = QBuffer(drawn)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(widget.size())
    generator.setViewBox(widget.rect())
    painter = QPainter(generator)
    widget.render(painter, QPoint())
    painter.end()
    return drawn


class Offers(QObject):
    """Makes and opens the menus.

    Signals:
        clinic_asked(): the acceptance clinic is to open.
    """

    clinic_asked = Signal()

    def __init__(
        self,
        ground: QWidget,
        scene: TimelineScene,
        stack: LaneStack,
        *,
        marking: Marking,
        zooming: Zooming,
    ) -> None:
        super().__init__(ground)
        self._scene = scene
        self._selection = scene.selection
        self._stack = stack
        self._zooming = zooming
        self._marking = marking
        self._ground = ground
        self.menu: QMenu | None = None
        self.range_lines: Callable[[], list[Line]] = list
        """The figures of the selected range, from who works them out."""

    def show_lane(self, lane: Lane | None, hit: Hit | None, place: QPoint) -> None:
        """For a lane and what was hit in it; over its name: for the lane alone."""
        menu = self._begin()
        if self._scene.pointer_px is not None:
            self._offer_hit(menu, hit)
            self._offer_moment(menu, self._scene.scale.t(self._scene.pointer_px), _run_of(lane, hit))
            self._offer_copies(menu, hit)
            menu.addSeparator()
        if lane is not None:
            self._offer_lane(menu, lane)
        menu.popup(place)

    def show_head(self, mark: Mark | None, place: QPoint) -> None:
        menu = self._begin()
        if mark is not None:
            self._add(menu, "Go to it", partial(self._marking.go_to, mark))
            self._add(menu, "Write a note…", partial(self._marking.note, mark))
            self._add(menu, "Delete the mark", partial(self._marking.book.delete, mark))
            menu.addSeparator()
        self._add(menu, "Show everything", self._zooming.fit)
        self._offer_pictures(menu)
        menu.popup(place)

    def _begin(self) -> QMenu:
        self.menu = QMenu(self._ground)
        self.menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return self.menu

    @staticmethod
    def _add(menu: QMenu, text: str, work: Callable[[], object]) -> None:
        # Qt hands `checked` to whoever takes an argument.
        menu.addAction(text).triggered.connect(lambda _=False: work())

    def _offer_hit(self, menu: QMenu, hit: Hit | None) -> None:
        when = hit.range if hit is not None else None
        if when is not None:
            self._add(menu, "Zoom to it", partial(self._zooming.zoom_to, when))
            self._add(menu, "Select its range", partial(self._selection.select, when))
        chosen = self._selection.time_range
        if chosen is not None:
            self._add(menu, "Zoom to the range", partial(self._zooming.zoom_to, chosen))
        if any(mode_of(track.run.info.mode).drafts for _, track in self._scene.shown):
            self._add(menu, "Show in the clinic", partial(self._show_in_clinic, hit))
        self._add(menu, "Show everything", self._zooming.fit)
        menu.addSeparator()

    def _show_in_clinic(self, hit: Hit | None) -> None:
        if hit is not None and hit.chosen is not None:
            self._selection.select(hit.chosen)
        self.clinic_asked.emit()

    def _offer_moment(self, menu: QMenu, t_ns: int, run_id: int | None) -> None:
        self._add(menu, "Mark here", partial(self._marking.mark_at, t_ns, run_id))
        menu.addSeparator()

    def _offer_copies(self, menu: QMenu, hit: Hit | None) -> None:
        lines = self.lines_of(hit)
        if lines:
            self._add(menu, "Copy as text", partial(copy_table, lines))
        self._offer_pictures(menu)

    def _offer_pictures(self, menu: QMenu) -> None:
        for form in ("PNG", "SVG"):
            self._add(menu, f"Copy the timeline as {form}", partial(copy_picture, self._ground, form))

    def lines_of(self, hit: Hit | None) -> list[Line]:
        """The selected range where the pointer is in it, else what was hit, as lines for a table; maybe none."""
        chosen: TimeRange | None = self._selection.time_range
        at_px = self._scene.pointer_px
        if chosen is not None and at_px is not None:
            is_inside = chosen.start_ns <= self._scene.scale.t(at_px) <= chosen.end_ns
            chosen = chosen if is_inside or hit is None else None
        if chosen is None:
            facts = [] if hit is None else [*hit.facts, *([("note", hit.note)] if hit.note else [])]
            return [] if hit is None else [(hit.title, ""), *facts]
        if told := self.range_lines():
            return told
        length = chosen.end_ns - chosen.start_ns
        named = (("from", chosen.start_ns), ("to", chosen.end_ns), ("length", length))
        return [("Selected range", ""), *((name, time_text(t_ns)) for name, t_ns in named)]

    def _offer_lane(self, menu: QMenu, lane: Lane) -> None:
        stack = self._stack
        name = lane.names()[0]
        shown = stack.in_sight()
        place = shown.index(lane)
        self._add(menu, f"{'Open' if lane.is_folded else 'Collapse'} {literal(name)}", partial(stack.toggle_fold, lane))
        if place > 0:
            self._add(menu, "Move it up", partial(stack.move_lane, lane, shown[place - 1]))
        if place + 1 < len(shown):
            after = shown[place + 2] if place + 2 < len(shown) else None
            self._add(menu, "Move it down", partial(stack.move_lane, lane, after))
        self._add(menu, "All lanes as at first", stack.reset_lanes)


def _run_of(lane: Lane | None, hit: Hit | None) -> int | None:
    """Whose moment the pointer is at, where what lies under it is of one run."""
    if hit is not None and hit.chosen is not None and not isinstance(hit.chosen, TimeRange):
        return hit.chosen.run_id
    track = lane.track if isinstance(lane, StageLane) else None
    return None if track is None else track.run.run_id
