"""Time between tokens, one stem per token, both columns above one another on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter

from evprof.core.units import ms_text
from evprof.view.decimate import nearest_row, nice_ceiling, tallest_stems
from evprof.view.lanes import ORIGINS, Track
from evprof.view.timescale import time_text
from ui.run_facts.run_text import NOTHING
from ui.state.selection import TimeRange, TokenRef
from ui.timeline.lane import Lane
from ui.timeline.scene import Hit, TimelineScene

_TOP, _BOTTOM, _GAP = 10.0, 6.0, 10.0
_NAME_PX = 13.0


class Band(NamedTuple):
    """One column's part of the lane: its track, top and bottom in px."""

    column: int
    track: Track
    top: float
    bottom: float


class LatencyLane(Lane):
    """Per-token latency. Stems have the color of decode; their tips show origins other than the target."""

    lane_height_px = 52
    grows = True
    tip = "Time since the previous token, in ms: one stem for each token. Tips show accepted, bonus and drafted tokens."

    def __init__(self, scene: TimelineScene) -> None:
        super().__init__(scene)
        self._ceiling: tuple[object, float] = (None, 1.0)

    def names(self) -> tuple[str, str]:
        return "Token latency", "ms"

    def reading(self, t_ns: int) -> str:
        """The last token of each answer at that moment, and of a single answer its latency."""
        texts = []
        for band in self._bands():
            times, values = band.track.latencies_ms()
            row = int(np.searchsorted(times, t_ns, side="right")) - 1
            is_shown = row >= 0 and t_ns <= band.track.end_ns(self.scene.clock_ns)
            latency = f" · {ms_text(float(values[row]))}" if len(self._bands()) == 1 else ""
            texts.append(f"{band.track.token_positions()[row + 1]}{latency}" if is_shown else NOTHING)
        return f"token {' / '.join(texts)}" if set(texts) - {NOTHING} else NOTHING

    def is_wanted(self) -> bool:
        return self.scene.is_running or bool(self._bands())

    def _ceiling_ms(self) -> float:
        """Top of the scale: the 99th percentile with some air, so that one hiccup does not flatten the rest.

        It is computed again when a twentieth more tokens are there, so that the scale does not move with each token.
        """
        tracks = [band.track for band in self._bands()]
        key = tuple((track.run.run_id, round(20 * np.log(len(track.token_times()) + 1))) for track in tracks)
        if key != self._ceiling[0]:
            values = np.concatenate([track.latencies_ms()[1] for track in tracks])
            high = float(np.percentile(values, 99)) if len(values) > 50 else float(values.max())
            self._ceiling = key, nice_ceiling(high * 1.08)
        return self._ceiling[1]

    def _bands(self) -> list[Band]:
        """The bands of the columns with at least two tokens."""
        shown = [entry for entry in self.scene.shown if entry[1].is_answer and len(entry[1].latencies_ms()[0])]
        height = (self.height() - _TOP - _BOTTOM + _GAP) / max(1, len(shown))
        tops = [_TOP + place * height for place in range(len(shown))]
        return [Band(*entry, top, top + height - _GAP) for entry, top in zip(shown, tops, strict=True)]

    def scale_marks(self) -> Sequence[tuple[float, str]]:
        return [(band.top, f"{self._ceiling_ms():g}") for band in self._bands()]

    def paint_canvas(self, painter: QPainter) -> None:
        """Stems, and a thin line at their mean, the inter-token latency."""
        bands = self._bands()
        if not bands:
            self.paint_hint(painter, "One stem per generated token: the time since the previous token.")
        for band in bands:
            self._paint_band(painter, band, self._ceiling_ms())
            self._paint_mean(painter, band, self._ceiling_ms())

    def _paint_band(self, painter: QPainter, band: Band, ceiling: float) -> None:
        theme, (_column, track, top, bottom) = self.scene.theme, band
        times, values = track.latencies_ms()
        stems = tallest_stems(times, values, self.scene.scale)
        if len(stems.x) > 0.5 * self.canvas_width:
            stems = tallest_stems(times, values, self.scene.scale, per_px=0.5)
        spacing = float(np.median(np.diff(stems.x))) if len(stems.x) > 1 else 6.0
        width = min(5.0, max(1.0, spacing * 0.55))
        x, rows, level = stems.x - width / 2, stems.rows, stems.values / ceiling
        high = np.maximum(np.minimum(level, 1.0) * (bottom - top), 1.0)
        painter.fillRect(QRectF(0, bottom, self.canvas_width, 1), theme.line)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, width >= 2)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.stage("decode"))
        painter.drawRects(list(map(QRectF, x.tolist(), (bottom - high).tolist(), repeat(width), high.tolist())))
        origins = track.token_origins()[1:][rows]
        for code, color in () if width < 2 else ((1, theme.good), (2, theme.warn), (3, theme.stage("draft"))):
            painter.setBrush(color)
            tips = [
                QRectF(float(x[i]), bottom - float(high[i]) - 1.5, width, 3.0) for i in np.flatnonzero(origins == code)
            ]
            painter.drawRects(tips)
        painter.setBrush(theme.warn)  # stems that the scale cuts off
        painter.drawRects([QRectF(at - 1, top - 4.0, width + 2, 2.0) for at in x[level > 1.0].tolist()])
        chosen = self.scene.selection.token
        if chosen is not None and chosen.run_id == track.run.run_id:
            painter.setBrush(theme.text)
            for i in np.flatnonzero(track.token_positions()[1:][rows] == chosen.position):
                painter.drawRect(QRectF(float(x[i]), bottom - float(high[i]), width, float(high[i])))

    def _paint_mean(self, painter: QPainter, band: Band, ceiling: float) -> None:
        theme = self.scene.theme
        mean = band.track.mean_latency_ms() or 0.0
        y = round(band.bottom - min(mean / ceiling, 1.0) * (band.bottom - band.top))
        painter.fillRect(QRectF(0, y, self.canvas_width, 1), theme.alpha(theme.text_dim, 0.5))
        text = f"{self.scene.title(band.column)} · mean {ms_text(mean)}"
        top = max(y - _NAME_PX - 1, band.top - _GAP + 1)
        room = QRectF(8, top, theme.text_width(text, 10.5) + 8, _NAME_PX)
        painter.fillRect(room, theme.alpha(theme.panel, 0.8))
        painter.setPen(theme.text_dim)
        theme.write(painter, room.adjusted(4, 0, 0, 0), text, 10.5)

    def hit(self, pos: QPointF) -> Hit | None:
        """The token nearest to the pointer, within 5 px."""
        band = next((band for band in self._bands() if band.top - 6 <= pos.y() <= band.bottom + 4), None)
        if band is None:
            return None
        track, (times, values) = band.track, band.track.latencies_ms()
        row = nearest_row(times, self.scene.scale.t(pos.x()))
        if row is None or abs(self.scene.scale.x(int(times[row])) - pos.x()) > 5:
            return None
        token, theme = track.run.tokens[row + 1], self.scene.theme
        facts = [
            ("latency", time_text(round(values[row] * 1e6))),
            ("at", time_text(int(times[row]) - track.shift_ns)),
            ("origin", ORIGINS[int(track.token_origins()[row + 1])]),
        ]
        if token.known_id is not None:
            facts.append(("id", str(token.token_id)))
        if token.round_index >= 0:
            facts.append(("round", str(token.round_index + 1)))
        piece = token.piece.replace("\n", "⏎").strip() or "␣"
        return Hit(
            f"token {token.position} “{piece}” · {self.scene.title(band.column)}",
            theme.origin(token.origin) if token.origin != "target" else theme.stage("decode"),
            facts,
            token=TokenRef(track.run.run_id, token.position),
            range=TimeRange(int(times[row] - values[row] * 1e6), int(times[row])),
        )
