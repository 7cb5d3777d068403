"""How computing keeps up with the camera: compute time per sensor time, and from where on it falls behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPen, QPolygonF

from evprof.core.units import ms_from_ns, ms_text
from evprof.metrics.costs.two_clocks import sensor_us, work_of
from evprof.view.lanes import News, Track
from evprof.view.real_time import KEEPS_UP, FactorCurve, factor_curve
from evprof.view.timescale import time_text
from ui.style.theme import SMALL_PX
from ui.timeline.lane import Lane
from ui.timeline.scene import Hit
from ui.timeline.sensor_lane import columns_of_players

_HEAD_ROOM = 1.25
"""The axis goes at least so far, so that the band is in sight, and a little beyond what there is."""

_LEVEL_TOP, _LEVEL_BOTTOM = 5.0, 4.0


class ModelFactor(NamedTuple):
    """How one shown model keeps up."""

    column: int
    track: Track
    sensor_us: int
    curve: FactorCurve


class RealTimeLane(Lane):
    """A line for each shown model that rises while it works; the band lies above 1."""

    lane_height_px = 56
    gives_way = True

    def is_wanted(self) -> bool:
        """Only where it is known how much sensor time a model was shown."""
        return any(sensor_us(track.run, track.role) for _, track in columns_of_players(self.scene))

    def names(self) -> tuple[str, str]:
        """The lane, and what is divided by what."""
        return "Real-time factor", "compute / sensor"

    def wants(self, column: int, news: News) -> bool:
        """Stages."""
        return news.spans

    def paces(self) -> list[ModelFactor]:
        """The curves, from the runs' zero."""
        found = []
        for column, track in columns_of_players(self.scene):
            sensed = sensor_us(track.run, track.role)
            if sensed is None:
                continue
            work = work_of(track.run, track.role, track.now(self.scene.clock_ns))
            zero = track.zero_ns
            curve = factor_curve([start - zero for start, _ in work], [end - zero for _, end in work], sensed)
            found.append(ModelFactor(column, track, sensed, curve))
        return found

    def _y(self, factor: float, highest: float) -> float:
        room = self.height() - _LEVEL_TOP - _LEVEL_BOTTOM
        return self.height() - _LEVEL_BOTTOM - room * factor / (_HEAD_ROOM * max(1.0, highest))

    def _highest(self) -> float:
        return max((pace.curve.last for pace in self.paces()), default=0.0)

    def scale_marks(self) -> Sequence[tuple[float, str]]:
        """Where computing takes as long as sensing."""
        return [(self._y(KEEPS_UP, self._highest()), "1")]

    def paint_canvas(self, painter: QPainter, clip: QRectF) -> None:
        """The band, then the lines, with what they came to at their ends."""
        theme, paces, highest = self.scene.theme, self.paces(), self._highest()
        level = self._y(KEEPS_UP, highest)
        painter.fillRect(QRectF(clip.left(), 0, clip.width(), level), theme.alpha(theme.bad, 0.12))
        painter.setPen(QPen(theme.alpha(theme.bad, 0.7), 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(clip.left(), level), QPointF(clip.right(), level))
        font = theme.font(SMALL_PX)
        painter.setFont(font)
        if highest > KEEPS_UP or level > 12:
            painter.setPen(theme.bad)
            # On the left, where lines only begin.
            flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(12, 0, 120, max(14.0, min(level, 20.0))), flags, "falling behind")
        taken: list[QRectF] = []
        for pace in paces:
            self._paint_line(painter, pace, highest, taken)

    def _paint_line(self, painter: QPainter, pace: ModelFactor, highest: float, taken: list[QRectF]) -> None:
        if not len(pace.curve.times):
            return
        x, color = self.scene.scale.x, self.scene.line_color(pace.column)
        zipped = zip(pace.curve.times.tolist(), pace.curve.factors.tolist(), strict=True)
        points = [QPointF(x(t_ns), self._y(factor, highest)) for t_ns, factor in zipped]
        painter.setPen(QPen(color, 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(QPolygonF(points))
        text = f"{pace.curve.last:.2f}"
        width = QFontMetricsF(painter.font()).horizontalAdvance(text)
        end = points[-1]
        left = min(end.x() + 5, self.canvas_width - width - 4)
        place = QRectF(left, min(max(end.y() - 14, 0.0), self.height() - 15.0), width, 14)
        while any(place.intersects(other) for other in taken):
            place.moveLeft(place.left() - width - 8)
        taken.append(place)
        painter.fillRect(place, self.scene.theme.alpha(self.scene.theme.panel, 0.8))  # no line strikes it through
        painter.setPen(color)
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, text)

    def hit(self, pos: QPointF) -> Hit | None:
        """How far each model had come at the pointer's moment."""
        t_ns = self.scene.scale.t(pos.x())
        facts, notes = [], []
        for pace in self.paces():
            name = self.scene.title(pace.column)
            facts.append((f"{name}, by then", f"{pace.curve.at(t_ns):.2f}"))
            done = ms_text(ms_from_ns(round(pace.curve.last * pace.sensor_us * 1000)))
            facts.append((f"{name}, in all", f"{pace.curve.last:.2f} = {done} / {ms_text(pace.sensor_us / 1000)}"))
            behind = pace.curve.falls_behind_ns()
            if behind is not None:
                notes.append(f"{name} falls behind from {time_text(round(behind))} on")
        if not facts:
            return None
        notes.append("compute time without reading the input, per sensor time that the model was shown")
        return Hit(f"Real-time factor at {time_text(t_ns)}", self.scene.theme.text_dim, facts, "; ".join(notes))
