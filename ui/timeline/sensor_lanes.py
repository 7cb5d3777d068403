"""Lanes on the sensor's clock: when a picture was encoded, and how computing keeps up with the camera."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPen, QPolygonF

from evprof.core.units import count_text, ms_from_ns, ms_text
from evprof.metrics.costs.two_clocks import (
    Passage,
    SensorSpan,
    passage_of,
    roles_behind,
    sensor_us,
    slice_at,
    slices_of,
    work_of,
)
from evprof.view.labels import widest_that_fits
from evprof.view.lanes import Track
from evprof.view.overlap import KEEPS_UP, FactorCurve, factor_curve
from evprof.view.timescale import time_text
from ui.state.selection import SpanRef, TimeRange
from ui.style.theme import SMALL_PX
from ui.timeline.lane import Lane
from ui.timeline.scene import Hit, TimelineScene

_ROW_PX = 20.0
_BAR_PX = 14.0
_TOP_PX = 4.0


def columns_of_players(scene: TimelineScene) -> list[tuple[int, Track]]:
    return [(place, track) for place, track in scene.shown if place < 2]


class Sensed(NamedTuple):
    """The picture of one column at the moment, and its way through the model."""

    column: int
    track: Track
    place: int
    slices: list[SensorSpan]
    passage: Passage
    tokens: int


class SensorLane(Lane):
    """A row for each shown model: a bar from preprocessing to the end of vision, and a line while tokens could know."""

    lane_height_px = round(2 * _ROW_PX + _TOP_PX)
    gives_way = True

    def __init__(self, scene: TimelineScene) -> None:
        super().__init__(scene)
        scene.selection.moment_changed.connect(lambda _: self.update())

    def is_wanted(self) -> bool:
        """Only where a model kept the pictures it was shown."""
        return any(track.run.frames.get(track.role) for _, track in columns_of_players(self.scene))

    def names(self) -> tuple[str, str]:
        return "Sensor time", f"players at {self.scene.selection.moment_us / 1000:.1f} ms"

    def sensed(self) -> list[Sensed]:
        """What the players show of each column that has pictures."""
        found = []
        for column, track in columns_of_players(self.scene):
            slices, passage = slices_of(track.run, track.role), passage_of(track.run, track.role)
            index = slice_at(slices, self.scene.selection.moment_us)
            if index is not None and passage is not None:
                counts = Counter(token.origin for token in track.run.tokens).items()
                tokens = sum(count for origin, count in counts if track.role in roles_behind(track.run, origin))
                found.append(Sensed(column, track, index, slices, passage, tokens))
        return found

    def paint_canvas(self, painter: QPainter, clip: QRectF) -> None:
        """One row for each column, at its place whatever the other column has."""
        rows = self.sensed()
        if not rows:
            self.paint_hint(painter, "The pictures a model is shown appear here with the time they are encoded.")
        for one in rows:
            self._paint_row(painter, one)

    def _edges(self, one: Sensed) -> tuple[QRectF, float | None, float]:
        """The bar; where tokens begin to know, if they do; where they end."""
        scale, zero = self.scene.scale, one.track.zero_ns
        now = one.track.now(self.scene.clock_ns)
        encoded = one.passage.encoded_ns if one.passage.encoded_ns is not None else now
        left, right = scale.x(one.passage.start_ns - zero), scale.x(encoded - zero)
        top = _TOP_PX + one.column * _ROW_PX
        seen = None if one.passage.seen_ns is None else scale.x(one.passage.seen_ns - zero)
        return QRectF(left, top, max(2.0, right - left), _BAR_PX), seen, scale.x(now - zero)

    def _paint_row(self, painter: QPainter, one: Sensed) -> None:
        theme = self.scene.theme
        bar, seen, end = self._edges(one)
        color = self.scene.line_color(one.column)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.alpha(color, 0.3))
        painter.drawRoundedRect(bar, 3, 3)
        room = bar.intersected(QRectF(0, bar.top(), self.canvas_width, bar.height()))
        words = widest_that_fits(self._wordings(one), room.width() - 12, partial(theme.text_width, size_px=SMALL_PX))
        painter.setPen(theme.text)
        theme.write(painter, room.adjusted(6, 0, 0, 0), words, SMALL_PX)
        if seen is None or one.tokens == 0:
            return
        text, left = f"{count_text(one.tokens, 'token')} could have seen it", max(seen, 0.0) + 6
        begin = left + theme.text_width(text, SMALL_PX) + 6
        painter.setPen(QPen(color, 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(begin, bar.center().y()), QPointF(max(begin, end), bar.center().y()))
        painter.fillRect(QRectF(seen, bar.top(), 1.5, bar.height()), color)
        painter.setPen(theme.text_dim)
        theme.write(painter, QRectF(left, bar.top(), 0, bar.height()), text, SMALL_PX)

    def _wordings(self, one: Sensed) -> list[str]:
        start, stop = one.slices[one.place]
        when = f"{start / 1000:.1f}–{stop / 1000:.1f} ms" if start != stop else f"{start / 1000:.0f} ms"
        count = f"{one.place + 1} of {len(one.slices)}"
        return [f"picture {count} · {when}", f"{count} · {when}", count]

    def hit(self, pos: QPointF) -> Hit | None:
        """The row under the pointer; a click selects the stage that encodes."""
        for one in self.sensed():
            bar, _, end = self._edges(one)
            if not bar.top() <= pos.y() <= bar.bottom() or not bar.left() - 2 <= pos.x() <= max(end, bar.right()):
                continue
            is_bar = pos.x() <= bar.right() + 2
            zero, passage = one.track.zero_ns, one.passage
            facts = [("picture", self._wordings(one)[0].removeprefix("picture "))]
            facts.append(("preprocessed from", time_text(passage.start_ns - zero)))
            if passage.encoded_ns is not None:
                facts.append(("encoded by", time_text(passage.encoded_ns - zero)))
            if passage.seen_ns is not None:
                facts.append(("known to tokens from", time_text(passage.seen_ns - zero)))
            facts.append(("tokens that could have seen it", str(one.tokens)))
            vision = one.track.run.stage("vision", one.track.role) if is_bar else None
            return Hit(
                f"{self.scene.title(one.column)}: what the players show",
                self.scene.line_color(one.column),
                facts,
                "all pictures of a run pass in one batch" if len(one.slices) > 1 else "",
                span=None if vision is None else SpanRef(one.track.run.run_id, vision.span_id),
                range=None
                if passage.encoded_ns is None
                else TimeRange(passage.start_ns - zero, passage.encoded_ns - zero),
            )
        return None


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
        return "Real-time factor", "compute / sensor"

    def paces(self) -> list[ModelFactor]:
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
