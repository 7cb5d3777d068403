"""The stages of one column's model as bars on the shared axis, their parts on a thinner row below."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QLinearGradient, QPainter, QPen, QPolygonF

from evprof.core.records import STAGES
from evprof.core.rows.spans import Span
from evprof.core.run_info import CANCELLED, FAILED
from evprof.core.units import bytes_text, percent_text
from evprof.core.vocabulary.modes import mode_of
from evprof.view.decimate import GAP_PX, WIDE_PX, Ints, span_coverage
from evprof.view.labels import is_drafting, stage_labels, stage_title, stages_in, widest_that_fits
from evprof.view.lanes import PROVISIONAL, RUNNING, SpanRow, SpanTable, Track
from evprof.view.timescale import time_text
from ui.run_facts.run_text import energy_text
from ui.state.selection import SpanRef, TimeRange
from ui.style.theme import SMALL_PX
from ui.timeline.lane import Lane, blended, paint_row, palette_of, pixels_per_px
from ui.timeline.scene import Hit, TimelineScene
from ui.timeline.speculation_lanes import paint_overlap_ground
from ui.widgets.figure_table import is_striped, paint_label_ground, stage_brush

BAR_TOP, BAR_HEIGHT = 7.0, 22.0
PART_TOP, PART_HEIGHT = 31.0, 13.0
_LABEL_PX = 11.0
_PART_LABEL_PX = 9.5
_TICK_PX = 5.0
_EDGED_PX, _EDGE_PX = 5.0, 2.0
"""Wider parts begin with an edge, and how wide it is."""

_LABELLED_PX = 16.0
_GROUND, _STRONG = 0.32, 0.6
"""Share of its colour that a part has over the lane's ground: usually, and when it is selected or hovered."""

SPECULATION = ("draft", "verify")
"""Parts with colours of their own."""

_PART_COLORS = (*STAGES, *SPECULATION, "")
"""Names of colours of parts; the last is that of a stage without one."""


class StageLane(Lane):
    """One model's five stages. `column` is the place of its track."""

    lane_height_px = 50

    def __init__(self, scene: TimelineScene, column: int) -> None:
        self.column = column
        super().__init__(scene)
        self._kinds: tuple[SpanRow | None, Ints] = (None, np.empty(0, dtype=np.int64))

    @property
    def key(self) -> str:
        return f"stages-{self.column}"

    @property
    def track(self) -> Track | None:
        return self.scene.tracks[self.column]

    def is_wanted(self) -> bool:
        """Not where the other column's run has no model on this side, and not where no draft helped."""
        if self.track is not None or self.column > 1:
            return self.track is not None
        other = self.scene.tracks[1 - self.column]
        return other is None or not mode_of(other.run.info.mode).is_paired

    def names(self) -> tuple[str, str]:
        """The model and what it is in this run; of two runs the run first."""
        track = self.track
        if track is None:
            return ("Draft" if self.column == 0 else "Target"), "no run yet"
        model, header = self.scene.model(self.column), self.scene.header(self.column)
        running = track.run.open_stage(track.role)
        now = track.role
        if running is not None:
            now = f"{'drafting' if is_drafting(track.run, track.role, running.name) else running.name} …"
        return (header, f"{model} · {now}") if header else (model, now)

    def paint_canvas(self, painter: QPainter, clip: QRectF) -> None:
        """Stage bars, token ticks, part bars, and how the run ended if not well."""
        track = self.track
        if track is None:
            return
        paint_overlap_ground(painter, self.scene, self.height())
        now = track.now(self.scene.clock_ns)
        self._paint_stages(painter, clip, track, now)
        self._paint_parts(painter, track, now)
        self._paint_end(painter, track)
        self._paint_parting(painter)

    def _paint_stages(self, painter: QPainter, clip: QRectF, track: Track, now: int) -> None:
        row = track.stages.rows(track.zero_ns, now)
        bars = track.stages.bars(track.zero_ns, now, self.scene.scale)
        for x0, x1, index, _, count in zip(*(part.tolist() for part in bars), strict=True):
            if x1 < clip.left() - 2 or x0 > clip.right() + 2:
                continue
            name = track.stages.names[int(row.names[index])]
            drafts = is_drafting(track.run, track.role, name)
            color = self.scene.theme.stage("draft" if drafts else stages_in(name)[-1])
            state = int(row.states[index])
            rect = QRectF(x0, BAR_TOP, max(1.0, x1 - x0 - (1.0 if x1 - x0 > 3 else 0.0)), BAR_HEIGHT)
            ref = SpanRef(track.run.run_id, int(row.ids[index]))
            self._paint_bar(painter, rect, (name, color), state, ref)
            if name == "decode" and count == 1 and not drafts:
                self._paint_token_ticks(painter, track, rect, color)
            if count == 1:
                labels = stage_labels(track.run, track.role, name, int(row.ends[index] - row.starts[index]))
                self._paint_label(painter, rect, (name, color), labels)

    def _paint_bar(self, painter: QPainter, rect: QRectF, look: tuple[str, QColor], state: int, ref: SpanRef) -> None:
        theme = self.scene.theme
        name, color = look
        is_hovered = self.hovered is not None and self.hovered.span == ref
        fill = blended(color, theme.text, 0.16) if is_hovered else color
        radius = min(3.0, rect.width() / 2)
        painter.setPen(Qt.PenStyle.NoPen)
        if state == RUNNING and rect.width() > 6:
            gradient = QLinearGradient(rect.topLeft(), rect.topRight())
            soft = min(0.9, 40.0 / rect.width())
            gradient.setColorAt(0.0, fill)
            gradient.setColorAt(1.0 - soft, fill)
            gradient.setColorAt(1.0, theme.alpha(fill, 0.35))
            painter.setBrush(QBrush(gradient))
        else:
            painter.setBrush(theme.alpha(fill, 0.72) if state == PROVISIONAL else fill)
        if is_striped(name):
            painter.setBrush(stage_brush(theme, name, rect, 0.8 if is_hovered else 1.0))
        painter.drawRoundedRect(rect, radius, radius)
        if state == PROVISIONAL:
            painter.setBrush(QBrush(theme.alpha(theme.panel, 0.45), Qt.BrushStyle.BDiagPattern))
            painter.drawRoundedRect(rect, radius, radius)
        if state == RUNNING:
            painter.fillRect(QRectF(rect.right() - 1.5, rect.top(), 2.0, rect.height()), theme.text)
        if self.scene.selection.span == ref:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(theme.text, 1.5))
            painter.drawRoundedRect(rect.adjusted(-0.75, -1.75, 0.75, 1.75), radius + 1, radius + 1)

    def _paint_token_ticks(self, painter: QPainter, track: Track, rect: QRectF, color: QColor) -> None:
        """Fine lines where tokens came, wherever they are far enough apart to be told from a grey."""
        times = track.token_times()
        scale = self.scene.scale
        low, high = times.searchsorted([scale.start_ns, scale.end_ns]).tolist()
        if high - low < 2 or (high - low) * 4.0 > scale.x(int(times[high - 1])) - scale.x(int(times[low])):
            return
        at = (times[low:high] - scale.start_ns) / scale.ns_per_px
        at = np.rint(at[(rect.left() + 2 < at) & (at < rect.right() - 2)] - 0.5) + 0.5
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(self.scene.theme.alpha(self.scene.theme.ink(color), 0.55))
        painter.drawLines([QLineF(x, rect.bottom() - _TICK_PX, x, rect.bottom() - 1) for x in at.tolist()])
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)

    def _paint_label(self, painter: QPainter, rect: QRectF, look: tuple[str, QColor], wordings: list[str]) -> None:
        name, color = look
        visible = rect.intersected(QRectF(0, rect.top(), self.canvas_width, rect.height()))
        if visible.width() < 14:
            return
        theme = self.scene.theme
        width_of = partial(theme.text_width, size_px=_LABEL_PX, weight=600)
        text = widest_that_fits(wordings, visible.width() - 11, width_of)
        if text:
            painter.setPen(theme.ink(color))
            if is_striped(name):
                plate = QRectF(visible.left() + 3, visible.top() + 3, width_of(text) + 6, visible.height() - 6)
                paint_label_ground(painter, theme, plate)
                painter.setPen(theme.text)
            theme.write(painter, visible.adjusted(6, -1, -3, -1), text, _LABEL_PX, 600)

    def _paint_parts(self, painter: QPainter, track: Track, now: int) -> None:
        """All parts as one row of columns; edges and names on wide ones."""
        theme, scale, per_px = self.scene.theme, self.scene.scale, pixels_per_px(painter)
        row = track.parts.rows(track.zero_ns, now)
        kinds, columns = self._kinds_of(row, track.parts.names), math.ceil(self.canvas_width * per_px)
        covered = span_coverage((row.starts, row.ends, kinds), len(_PART_COLORS), scale, columns, per_px)
        colors = [theme.stage(name) for name in _PART_COLORS]
        grounds = palette_of([blended(theme.panel, color, _GROUND) for color in colors])
        paint_row(
            painter,
            np.einsum("ck,kx->cx", covered.shares, grounds),
            QRectF(0, PART_TOP, self.canvas_width, PART_HEIGHT),
        )
        parts = list(zip(covered.rows.tolist(), covered.left.tolist(), covered.right.tolist(), strict=True))
        for place, left, right in parts:
            if right - left > _EDGED_PX - GAP_PX:
                painter.fillRect(QRectF(left, PART_TOP, _EDGE_PX, PART_HEIGHT), colors[kinds[place]])
        for ref in self._strong_spans():
            places = np.flatnonzero(row.ids == ref.span_id).tolist() if ref.run_id == track.run.run_id else []
            for place in places:
                self._paint_strong(painter, track, row, place)
        painter.setPen(theme.text)
        for place, left, right in parts:
            if right - left < _LABELLED_PX:
                continue
            rect = QRectF(left, PART_TOP, right - left, PART_HEIGHT)
            visible = rect.intersected(QRectF(0, PART_TOP, self.canvas_width, PART_HEIGHT))
            text = track.parts.names[int(row.names[place])]
            width = theme.text_width(text, _PART_LABEL_PX, 500)
            if width <= visible.width() - 8:
                theme.write(painter, visible.adjusted(5, -0.5, 0, 0), text, _PART_LABEL_PX, 500)

    def _kinds_of(self, row: SpanRow, words: list[str]) -> Ints:
        """Indices into `_PART_COLORS`, kept until the row changes."""
        if self._kinds[0] is not row:
            stages = np.array([_PART_COLORS.index(color_name("", word)) for word in words] or [0], dtype=np.int64)
            kinds = stages[row.stages]
            for word in set(SPECULATION).intersection(words):
                kinds[row.names == words.index(word)] = _PART_COLORS.index(word)
            self._kinds = row, kinds
        return self._kinds[1]

    def _paint_strong(self, painter: QPainter, track: Track, row: SpanRow, place: int) -> None:
        """A part that is selected or pointed at, over what was painted of it."""
        theme, scale = self.scene.theme, self.scene.scale
        x0, x1 = scale.x(int(row.starts[place])), scale.x(int(row.ends[place]))
        rect = QRectF(x0, PART_TOP, max(1.0, x1 - x0 - (GAP_PX if x1 - x0 > WIDE_PX else 0.0)), PART_HEIGHT)
        name, stage = (track.parts.names[int(codes[place])] for codes in (row.names, row.stages))
        color = theme.stage(color_name(name, stage))
        painter.fillRect(rect, blended(theme.panel, color, _STRONG))
        if x1 - x0 > _EDGED_PX:
            painter.fillRect(QRectF(x0, PART_TOP, _EDGE_PX, PART_HEIGHT), color)
        if self.scene.selection.span == SpanRef(track.run.run_id, int(row.ids[place])):
            painter.setPen(QPen(theme.text, 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(rect.adjusted(-0.5, -0.5, 0.5, 0.5))

    def _strong_spans(self) -> list[SpanRef]:
        """The span that is selected, and the one under the pointer."""
        pointed = self.hovered.span if self.hovered is not None else None
        return [ref for ref in (self.scene.selection.span, pointed) if ref is not None]

    def _parting_ns(self) -> int | None:
        """When this answer began to differ from the other's, on the axis."""
        if self.column > 1 or self.track is None or (t_ns := self.scene.partings[self.column]) is None:
            return None
        return t_ns + self.track.shift_ns

    def _paint_parting(self, painter: QPainter) -> None:
        """A flag and a line where the answers part."""
        t_ns = self._parting_ns()
        if t_ns is None:
            return
        x = self.scene.scale.x(t_ns)
        painter.setPen(QPen(self.scene.theme.text, 1, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
        painter.drawLine(QLineF(x, 1, x, PART_TOP + PART_HEIGHT))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.scene.theme.warn)
        painter.drawPolygon(QPolygonF([QPointF(x, 0), QPointF(x + 9, 3.5), QPointF(x, 7)]))

    def _hit_parting(self, pos: QPointF) -> Hit | None:
        t_ns, track = self._parting_ns(), self.track
        if track is None or t_ns is None or pos.y() > BAR_TOP + 1:
            return None
        if not -3 <= pos.x() - self.scene.scale.x(t_ns) <= 10:
            return None
        a, b = self.scene.partings
        facts = [(name, time_text(moment)) for name, moment in (("A", a), ("B", b)) if moment is not None]
        return Hit("The answers part here", self.scene.theme.warn, facts, range=TimeRange(t_ns, t_ns))

    def _paint_end(self, painter: QPainter, track: Track) -> None:
        """A failed or cancelled run keeps its lanes and says so where they stop."""
        status = track.run.info.status
        if status not in (FAILED, CANCELLED) or not track.is_answer:
            return
        theme = self.scene.theme
        color = theme.bad if status == FAILED else theme.warn
        x = self.scene.scale.x(track.end_ns(self.scene.clock_ns))
        painter.setPen(QPen(color, 1.5))
        painter.drawLine(QPointF(x, BAR_TOP - 3), QPointF(x, PART_TOP + PART_HEIGHT))
        painter.setFont(theme.font(SMALL_PX, 600))
        width = QFontMetricsF(painter.font()).horizontalAdvance(status)
        left = x + 5 if x + 8 + width < self.canvas_width else x - 5 - width
        if left < x:  # over the bar, whose colour may be any
            painter.setBrush(theme.panel)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawRoundedRect(QRectF(left - 4, BAR_TOP + 3, width + 8, 17), 3, 3)
            painter.setPen(color)
        painter.drawText(QPointF(left, BAR_TOP + 15), status)

    def hit(self, pos: QPointF) -> Hit | None:
        track = self.track
        if track is None:
            return None
        if (found := self._hit_parting(pos)) is not None:
            return found
        if BAR_TOP - 4 <= pos.y() < PART_TOP - 1:
            return self._hit_in(track, track.stages, pos.x())
        if PART_TOP - 1 <= pos.y() <= PART_TOP + PART_HEIGHT + 4:
            return self._hit_in(track, track.parts, pos.x())
        return None

    def _hit_in(self, track: Track, table: SpanTable, x: float) -> Hit | None:
        row = table.rows(track.zero_ns, track.now(self.scene.clock_ns))
        slack = 2.0 * self.scene.scale.ns_per_px
        t_ns = self.scene.scale.t(x)
        index = int(np.searchsorted(row.starts, t_ns, side="right")) - 1
        if index < 0 or row.ends[index] < t_ns:
            # Beside every bar: one that begins or ended a hair away will do, or thin ones could never be hit.
            later = min(index + 1, len(row.starts) - 1)
            near = [place for place in (index, later) if place >= 0]
            near = [i for i in near if row.starts[i] - slack <= t_ns <= row.ends[i] + slack]
            if not near:
                return None
            index = near[0]
        span = track.run.spans[int(row.ids[index])]
        stage = table.names[int(row.stages[index])]
        start, end = int(row.starts[index]), int(row.ends[index])
        return self._describe(track, span, stage, (start, end))

    def _describe(self, track: Track, span: Span, stage: str, around: tuple[int, int]) -> Hit:
        theme = self.scene.theme
        length = around[1] - around[0]
        facts = [("start", time_text(around[0] - track.shift_ns)), ("duration", time_text(length))]
        whole = track.end_ns(self.scene.clock_ns) - track.shift_ns
        if whole > 0:
            facts.append(("share of run", percent_text(length / whole, 1)))
        if energy := energy_text(track.run, span):
            facts.append(("energy", energy))
        facts.extend(
            (f"{tensor.direction} {tensor.name}", f"[{tensor.shape}] {tensor.dtype} · {bytes_text(tensor.nbytes)}")
            for tensor in span.tensors[:4]
        )
        note = "running" if span.end_ns is None and track.is_running else ""
        if span.end_ns is not None and not span.is_settled:
            note = "provisional: host times, the device has not reported yet"
        elif span.end_ns is None and not track.is_running:
            note = "did not end"
        if is_striped(span.name):
            note = note or "one measurement for all of these; the file does not tell them apart"
        title = stage_title(span.name) if span.name == stage else f"{stage_title(stage)} › {span.name}"
        drafts = is_drafting(track.run, track.role, span.name)
        return Hit(
            title=f"{'draft' if drafts else title} · {self.scene.title(self.column)}",
            color=theme.stage("draft" if drafts else color_name(span.stage_name, stage)),
            facts=facts,
            note=note,
            span=SpanRef(track.run.run_id, span.span_id),
            range=TimeRange(*around),
            swatch=span.name if is_striped(span.name) else "",
        )


def color_name(name: str, stage: str) -> str:
    """Whose colour a part of a stage has: drafting and verifying their own, everything else its stage's.

    Parts may be called what stages are called: frames are decoded while they are loaded.
    """
    return name if name in SPECULATION else (stages_in(stage) or ("",))[-1]
