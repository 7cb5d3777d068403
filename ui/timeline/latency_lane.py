"""Time between tokens, one stem per token, both columns above one another on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from evprof.core.units import ms_text
from evprof.view.decimate import nearest_row, nice_ceiling, tallest_stems
from evprof.view.lanes import ORIGINS, Track
from evprof.view.timescale import time_text
from ui.run_facts.run_text import lacking
from ui.state.selection import TimeRange, TokenRef
from ui.timeline.lane import Lane
from ui.timeline.scene import Hit, TimelineScene

_TOP, _BOTTOM, _GAP = 10.0, 6.0, 10.0
_NAME_PX = 13.0


class LatencyLane(Lane):
    """Per-token latency. Stems are blue (the decode stage); their tips show origins that are not plain target's."""

    lane_height_px = 52
    grows = True

    def __init__(self, scene: TimelineScene) -> None:
        super().__init__(scene)
        self._ceiling: tuple[object, float] = (None, 1.0)

    def names(self) -> tuple[str, str]:
        return "Token latency", "ms"

    def is_empty(self) -> bool:
        return not any(len(track.latencies_ms()[0]) for _, track in self._rows)

    @property
    def _rows(self) -> list[tuple[int, Track]]:
        return [(column, track) for column, track in self.scene.shown if track.is_answer]

    def _ceiling_ms(self) -> float:
        """Top of the scale: the 99th percentile with some air, so that one hiccup does not flatten the rest.

        It is computed again when a twentieth more tokens are there: a scale that moves with every token unsettles.
        """
        rows = self._rows
        key = tuple((track.run.run_id, round(20 * np.log(len(track.token_times()) + 1))) for _, track in rows)
        if key != self._ceiling[0]:
            values = [track.latencies_ms()[1] for _, track in rows]
            together = np.concatenate(values) if values else np.empty(0)
            high = float(np.percentile(together, 99)) if len(together) > 50 else float(max(together, default=0.0))
            self._ceiling = key, nice_ceiling(high * 1.08)
        return self._ceiling[1]

    def _bands(self) -> list[tuple[int, Track, float, float]]:
        """Column, track, top and bottom of each half."""
        rows = self._rows
        if not rows:
            return []
        room = (self.height() - _TOP - _BOTTOM - _GAP * (len(rows) - 1)) / len(rows)
        return [
            (column, track, _TOP + place * (room + _GAP), _TOP + place * (room + _GAP) + room)
            for place, (column, track) in enumerate(rows)
        ]

    def scale_marks(self) -> Sequence[tuple[float, str]]:
        if not any(len(track.latencies_ms()[0]) for _, track in self._rows):
            return ()
        ceiling = self._ceiling_ms()
        marks: list[tuple[float, str]] = []
        bands = self._bands()
        marks.extend((top, f"{ceiling:g}") for _, _, top, _ in bands)
        if bands[-1][3] - bands[-1][2] > 28:
            marks.append((bands[-1][3], "0"))
        return marks

    def paint_canvas(self, painter: QPainter, clip: QRectF) -> None:
        """Stems, and a thin line at their mean, the inter-token latency."""
        bands = [band for band in self._bands() if len(band[1].latencies_ms()[0])]
        if not bands:
            lack = lacking((track.run for _, track in self._rows), "the time of each token")
            self.paint_hint(painter, lack or "One stem per generated token: the time since the token before it.")
            return
        ceiling = self._ceiling_ms()
        for column, track, top, bottom in bands:
            self._paint_band(painter, clip, track, (top, bottom), ceiling)
            self._paint_name(painter, column, track, (top, bottom), ceiling)

    def _paint_band(
        self, painter: QPainter, clip: QRectF, track: Track, band: tuple[float, float], ceiling: float
    ) -> None:
        theme = self.scene.theme
        top, bottom = band
        times, values = track.latencies_ms()
        scale = self.scene.scale
        stems = tallest_stems(times, values, scale)
        if len(stems.x) > 0.5 * self.canvas_width:
            stems = tallest_stems(times, values, scale, per_px=0.5)
        origins = track.token_origins()[1:]
        spacing = float(np.median(np.diff(stems.x))) if len(stems.x) > 1 else 6.0
        width = min(5.0, max(1.0, spacing * 0.55))
        painter.fillRect(QRectF(clip.left(), bottom, clip.width(), 1), theme.line)
        is_near = (stems.x > clip.left() - 8) & (stems.x < clip.right() + 8)
        x, rows = stems.x[is_near] - width / 2, stems.rows[is_near]
        level = stems.values[is_near] / ceiling
        high = np.maximum(np.minimum(level, 1.0) * (bottom - top), 1.0)
        sharp = width < 2
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, not sharp)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.stage("decode"))
        painter.drawRects(list(map(QRectF, x.tolist(), (bottom - high).tolist(), repeat(width), high.tolist())))
        for code, color in () if sharp else ((1, theme.good), (2, theme.warn), (3, theme.stage("draft"))):
            tipped = np.flatnonzero(origins[rows] == code)
            painter.setBrush(color)
            painter.drawRects([QRectF(float(x[i]), bottom - float(high[i]) - 1.5, width, 3.0) for i in tipped])
        # Taller than the scale: cut, and marked so.
        painter.setBrush(theme.warn)
        if len(cut := x[level > 1.0]):
            painter.drawRects([QRectF(at - 1, top - 4.0, width + 2, 2.0) for at in cut.tolist()])
        strong = [ref for ref in (self.scene.selection.token, self.hovered.token if self.hovered else None) if ref]
        painter.setBrush(theme.text)
        for ref in strong:
            for i in np.flatnonzero(track.token_positions()[1:][rows] == ref.position):
                if ref.run_id == track.run.run_id:
                    painter.drawRect(QRectF(float(x[i]), bottom - float(high[i]), width, float(high[i])))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)

    def _paint_name(
        self, painter: QPainter, column: int, track: Track, band: tuple[float, float], ceiling: float
    ) -> None:
        theme = self.scene.theme
        top, bottom = band
        mean = track.mean_latency_ms() or 0.0
        y = round(bottom - min(mean / ceiling, 1.0) * (bottom - top)) + 0.5
        text = f"{self.scene.title(column)} · mean {ms_text(mean)}"
        # Underlined by its own line, which is as near as the band above lets it: another column's may be near, too.
        room = QRectF(8, max(y - _NAME_PX - 1, top - _GAP + 1), round(theme.text_width(text, 10.5)) + 8, _NAME_PX)
        pen = QPen(theme.alpha(theme.text_dim, 0.8), 1, Qt.PenStyle.DotLine)
        painter.setPen(pen)
        painter.drawLine(QPointF(room.right(), y), QPointF(self.canvas_width, y))
        if room.bottom() < y:
            pen.setStyle(Qt.PenStyle.SolidLine)
            painter.setPen(pen)
            painter.drawLine(QPointF(room.left() + 4, y), QPointF(room.right() - 4, y))
        painter.fillRect(room, theme.alpha(theme.panel, 0.8))
        painter.setPen(theme.text_dim)
        theme.write(painter, room.adjusted(4, 0, 0, 0), text, 10.5)

    def hit(self, pos: QPointF) -> Hit | None:
        """The token nearest to the pointer, within a few px."""
        for column, track, top, bottom in self._bands():
            if not top - 6 <= pos.y() <= bottom + 4:
                continue
            times, values = track.latencies_ms()
            row = nearest_row(times, self.scene.scale.t(pos.x()))
            if row is None or abs(self.scene.scale.x(int(times[row])) - pos.x()) > 5:
                return None
            token = track.run.tokens[row + 1]
            facts = [
                ("latency", time_text(round(values[row] * 1e6))),
                ("at", time_text(int(times[row]) - track.shift_ns)),
                ("origin", ORIGINS[int(track.token_origins()[row + 1])]),
                *([("id", str(token.token_id))] if token.known_id is not None else ()),
            ]
            if token.round_index >= 0:
                facts.append(("round", str(token.round_index + 1)))
            piece = token.piece.replace("\n", "⏎").strip() or "␣"
            return Hit(
                f"token {token.position} “{piece}” · {self.scene.title(column)}",
                self.scene.theme.origin(token.origin) if token.origin != "target" else self.scene.theme.stage("decode"),
                facts,
                token=TokenRef(track.run.run_id, token.position),
                range=TimeRange(int(times[row] - values[row] * 1e6), int(times[row])),
            )
        return None
