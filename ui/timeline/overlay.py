"""What lies over all lanes: selected range, marks, flows, ruler, pointer line, and the card with exact figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPainterPath, QPaintEvent, QPen, QPolygonF, QRegion
from PySide6.QtWidgets import QWidget

from evprof.core.safe_text import one_line
from evprof.view.timescale import time_text
from ui.state.selection import TimeRange
from ui.style.theme import BASE_PX, SMALL_PX
from ui.timeline.lane import Lane
from ui.timeline.places import FlowStep, flow_of, round_of
from ui.timeline.scene import GUTTER_PX, Hit, TimelineScene
from ui.timeline.speculation_lanes import ROUND_HEIGHT, ROUND_TOP, RoundLane
from ui.timeline.stage_lane import PART_HEIGHT, PART_TOP, StageLane
from ui.widgets.stage_fill import paint_swatch

_RULER_PX = 18.0
_HEAD_PX = 4.0


class Overlay(QWidget):
    """Lets the mouse through. Only the strips that changed are repainted."""

    def __init__(self, scene: TimelineScene, lanes: Sequence[Lane], parent: QWidget) -> None:
        super().__init__(parent)
        self.scene = scene
        self._lanes = lanes
        self._strip: TimeRange | None = None
        self.drop_y: int | None = None
        """Where a lane that is dragged would go."""

        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)

    def set_pointer(self, x_px: float | None) -> None:
        before, self.scene.pointer_px = self.scene.pointer_px, x_px
        if x_px != before:
            for x in (before, x_px):
                if x is not None:
                    self.update(QRect(GUTTER_PX + int(x) - 1, 0, 3, self.height()))

    def show_range(self) -> None:
        """Repaints the parts that the selected range covered or covers now."""
        for chosen in (self._strip, self.scene.marked_range):
            if chosen is not None:
                left, right = (self.scene.scale.x(t_ns) for t_ns in chosen)
                left, right = max(-2.0, left - 6), min(float(self.width()), right + 6)
                if right > left:
                    self.update(QRect(GUTTER_PX + int(left), 0, int(right - left) + 3, self.height()))
        self._strip = self.scene.marked_range

    def paintEvent(self, event: QPaintEvent) -> None:
        """The range's ground and edges, marks, flows, ruler and the pointer's line; what stays breaks around texts."""
        painter = QPainter(self)
        theme = self.scene.theme
        if self.drop_y is not None:
            painter.fillRect(QRectF(0, self.drop_y - 1, self.width(), 2), theme.accent)
        painter.setClipRect(QRectF(event.rect()).intersected(QRectF(GUTTER_PX, 0, self.width(), self.height())))
        painter.translate(GUTTER_PX, 0)
        self._paint_grounds(painter)
        painter.save()
        painter.setClipRegion(self._beside_texts(painter.clipRegion()))
        self._paint_range(painter)
        self._paint_marks(painter)
        self._paint_flow(painter)
        painter.restore()
        self._paint_levels(painter)
        if self.scene.pointer_px is not None:
            painter.fillRect(QRectF(int(self.scene.pointer_px), 0, 1, self.height()), theme.alpha(theme.text_dim, 0.55))
        self._paint_ruler(painter)
        painter.end()

    def _paint_grounds(self, painter: QPainter) -> None:
        theme, x = self.scene.theme, self.scene.scale.x
        chosen = [] if self.scene.marked_range is None else [(self.scene.marked_range, theme.alpha(theme.accent, 0.13))]
        marked = [(when, theme.alpha(theme.warn, 0.06)) for _, when in self.scene.placed_marks()]
        for (start, end), color in (*chosen, *marked):
            painter.fillRect(QRectF(x(start), 0, x(end) - x(start), self.height()), color)

    def _paint_range(self, painter: QPainter) -> None:
        for t_ns in self.scene.marked_range or ():
            painter.fillRect(QRectF(round(self.scene.scale.x(t_ns)), 0, 1, self.height()), self.scene.theme.accent)

    def _paint_marks(self, painter: QPainter) -> None:
        theme = self.scene.theme
        painter.setPen(QPen(theme.alpha(theme.warn, 0.8), 1, Qt.PenStyle.DashLine))
        for x in {round(self.scene.scale.x(t_ns)) for _, when in self.scene.placed_marks() for t_ns in when}:
            painter.drawLine(QPointF(x + 0.5, 0), QPointF(x + 0.5, self.height()))

    def _paint_levels(self, painter: QPainter) -> None:
        """A dot on each line of levels where what is selected ends: what it left behind."""
        when, theme = self.scene.range_of(self.scene.selection.chosen), self.scene.theme
        if when is None:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.panel, 1.5))
        x = self.scene.scale.x(when.end_ns)
        for lane in self._lanes:
            if lane.isHidden() or lane.is_folded:
                continue
            for y, color in lane.levels_at(when.end_ns):
                painter.setBrush(color)
                painter.drawEllipse(QPointF(x, lane.y() + y), 3.5, 3.5)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    # Flows.

    def _paint_flow(self, painter: QPainter) -> None:
        """Arrows between the steps of the selected round, or of the one under the pointer."""
        tracks = [track for _, track in self.scene.shown]
        chosen = round_of(tracks, self.scene.selection.chosen) or self.scene.hovered_round
        steps = [] if chosen is None else flow_of(self.scene.shown, chosen)
        placed = [(step, room) for step in steps if (room := self._room_of(step)) is not None]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self.scene.theme
        for step, room in placed:
            if step.span is not None:
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.setPen(QPen(theme.text, 1.2))
                painter.drawRoundedRect(room.adjusted(-0.5, -0.5, 0.5, 0.5), 2, 2)
        for (before, left), (after, right) in pairwise(placed):
            if before.column is not None or after.column is not None:
                self._paint_arrow(painter, left, right)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _beside_texts(self, region: QRegion) -> QRegion:
        """What of a region (canvas coordinates) holds no text of a lane."""
        around = region.boundingRect()
        for lane in self._lanes:
            for room in lane.texts if lane.isVisible() else ():
                held = room.translated(0, lane.y()).toAlignedRect()
                if held.intersects(around):
                    region = region.subtracted(QRegion(held))
        return region

    def _room_of(self, step: FlowStep) -> QRectF | None:
        """Where a step is drawn, in canvas coordinates."""
        x0, x1 = (self.scene.scale.x(t_ns) for t_ns in step.range)
        low, high = -self.scene.scale.width_px, 2 * self.scene.scale.width_px
        x0, x1 = min(max(x0, low), high), min(max(x1, low), high)
        for lane in self._lanes:
            if lane.isHidden():
                continue
            if step.column is not None and isinstance(lane, StageLane) and lane.column == step.column:
                top, height = (PART_TOP, PART_HEIGHT) if not lane.is_folded else (0.0, float(lane.height()))
                return QRectF(x0, lane.y() + top, max(1.0, x1 - x0), height)
            if step.column is None and isinstance(lane, RoundLane) and not lane.is_folded:
                return QRectF(x0, lane.y() + ROUND_TOP, max(1.0, x1 - x0), ROUND_HEIGHT)
        return None

    def _paint_arrow(self, painter: QPainter, left: QRectF, right: QRectF) -> None:
        """From the end of one step to the beginning of the next, leaving and arriving from the side they face."""
        theme = self.scene.theme
        down = right.center().y() >= left.center().y()
        start = QPointF(left.right(), left.bottom() if down else left.top())
        end = QPointF(right.left(), right.top() if down else right.bottom())
        if abs(right.center().y() - left.center().y()) < 1:
            start, end = QPointF(left.right(), left.bottom()), QPointF(right.left(), right.bottom())
        bend = max(10.0, min(40.0, abs(end.y() - start.y()) / 2))
        sign = 1.0 if down else -1.0
        path = QPainterPath(start)
        path.cubicTo(start + QPointF(0, sign * bend), end - QPointF(0, sign * bend), end)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(theme.alpha(theme.panel, 0.9), 3.5))
        painter.drawPath(path)
        painter.setPen(QPen(theme.text, 1.4))
        painter.drawPath(path)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.text)
        tip = [QPointF(0, 0), QPointF(-_HEAD_PX, -sign * 1.6 * _HEAD_PX), QPointF(_HEAD_PX, -sign * 1.6 * _HEAD_PX)]
        painter.drawPolygon(QPolygonF([end + point for point in tip]))

    # The ruler.

    def _paint_ruler(self, painter: QPainter) -> None:
        """A line with both ends and its length, as on a drawing."""
        measured = self.scene.ruler
        if measured is None:
            return
        theme, scale = self.scene.theme, self.scene.scale
        x0, x1 = (round(scale.x(t_ns)) + 0.5 for t_ns in measured)
        view = self.visibleRegion().boundingRect()
        y = view.top() + _RULER_PX
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.text, 1))
        for x in (x0, x1):
            painter.drawLine(QPointF(x, 0), QPointF(x, self.height()))
        painter.setPen(QPen(theme.text, 1.6))
        painter.drawLine(QPointF(x0, y), QPointF(x1, y))
        painter.setBrush(theme.text)
        painter.setPen(Qt.PenStyle.NoPen)
        if x1 - x0 > 4 * _HEAD_PX:
            for x, sign in ((x0, 1), (x1, -1)):
                corners = [(0, 0), (sign * 2 * _HEAD_PX, -_HEAD_PX), (sign * 2 * _HEAD_PX, _HEAD_PX)]
                painter.drawPolygon(QPolygonF([QPointF(x + dx, y + dy) for dx, dy in corners]))
        text = time_text(measured[1] - measured[0], scale.ns_per_px)
        painter.setFont(theme.font(SMALL_PX, 600))
        width = QFontMetricsF(painter.font()).horizontalAdvance(text) + 14
        middle = (max(x0, 0.0) + min(x1, scale.width_px)) / 2
        left = min(max(middle - width / 2, 4.0), scale.width_px - width - 4)
        room = QRectF(left, y - 9 if x1 - x0 > width + 4 * _HEAD_PX else y + 6, width, 18)
        painter.setPen(QPen(theme.text, 1))
        painter.setBrush(theme.raised)
        painter.drawRoundedRect(room, 4, 4)
        painter.setPen(theme.text)
        painter.drawText(room, Qt.AlignmentFlag.AlignCenter, text)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


class HoverCard(QWidget):
    """A small card of exact figures beside the pointer; a child of the timeline, never a window of its own."""

    _PAD, _LINE, _GAP = 10, 18, 16

    def __init__(self, scene: TimelineScene, parent: QWidget) -> None:
        super().__init__(parent)
        self.scene = scene
        self.ground = parent
        self.hit: Hit | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def show_hit(self, hit: Hit | None, at: QPoint) -> None:
        self.hit = None if hit is None else _safe(hit)
        if self.hit is None:
            self.hide()
            return
        self.resize(*self._measure(self.hit))
        room = self.ground.rect()
        x = at.x() + 14 if at.x() + 14 + self.width() < room.right() - 4 else at.x() - 14 - self.width()
        y = min(at.y() + 14, room.bottom() - self.height() - 4)
        self.move(max(4, x), max(4, y))
        self.raise_()
        self.show()
        self.update()

    def _measure(self, hit: Hit) -> tuple[int, int]:
        title = QFontMetricsF(self.scene.theme.font(BASE_PX, 600))
        text = QFontMetricsF(self.scene.theme.font(SMALL_PX + 0.5))
        left = max((text.horizontalAdvance(name) for name, _ in hit.facts), default=0)
        right = max((text.horizontalAdvance(value) for _, value in hit.facts), default=0)
        width = max(title.horizontalAdvance(hit.title) + 14, left + self._GAP + right, text.horizontalAdvance(hit.note))
        lines = 1 + len(hit.facts) + bool(hit.note)
        return int(width) + 2 * self._PAD + 2, lines * self._LINE + 2 * self._PAD - 2

    def paintEvent(self, event: QPaintEvent) -> None:
        """Title with its colour, facts with right-aligned figures, a note."""
        if self.hit is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self.scene.theme
        painter.setPen(QPen(theme.alpha(theme.text_dim, 0.45), 1))
        painter.setBrush(theme.raised)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
        room = QRectF(self._PAD, self._PAD - 2, self.width() - 2 * self._PAD, self._LINE)
        mark = QRectF(room.left(), room.top() + 3, 3, self._LINE - 6)
        if self.hit.swatch:
            paint_swatch(painter, theme, self.hit.swatch, mark)
        else:
            painter.fillRect(mark, self.hit.color)
        painter.setFont(theme.font(BASE_PX, 600))
        painter.setPen(theme.text)
        painter.drawText(room.adjusted(10, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self.hit.title)
        painter.setFont(theme.font(SMALL_PX + 0.5))
        for name, value in self.hit.facts:
            room.translate(0, self._LINE)
            painter.setPen(theme.text_dim)
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, name)
            painter.setPen(theme.text)
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, value)
        if self.hit.note:
            room.translate(0, self._LINE)
            painter.setPen(theme.warn)
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.hit.note)
        painter.end()


_MOST = 200
"""Characters of a line of the card; what is longer fits on no screen."""


def _safe(hit: Hit) -> Hit:
    """What a session says, with nothing hidden and nothing endless in it."""
    facts = [(one_line(name, _MOST), one_line(value, _MOST)) for name, value in hit.facts]
    return replace(hit, title=one_line(hit.title, _MOST), facts=facts, note=one_line(hit.note, _MOST))
