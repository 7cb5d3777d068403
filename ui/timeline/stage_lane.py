"""The stages of one model as bars on the shared axis, their parts on a thinner row below."""

from __future__ import annotations

import math

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from evprof.core.records import STAGES
from evprof.core.rows.spans import Span
from evprof.core.run_info import CANCELLED, FAILED
from evprof.core.units import bytes_text, percent_text
from evprof.core.vocabulary.modes import mode_of
from evprof.view.decimate import Ints, merged_bars, row_at, span_coverage
from evprof.view.labels import is_drafting, stage_labels, stage_title, stages_in
from evprof.view.lanes import PROVISIONAL, RUNNING, SpanRow, SpanTable, Track
from evprof.view.timescale import time_text
from ui.run_facts.run_text import NOTHING, energy_text
from ui.state.selection import SpanRef, TimeRange
from ui.style.theme import SMALL_PX
from ui.timeline.lane import Lane, blended, paint_row, palette_of, pixels_per_px
from ui.timeline.scene import Hit, TimelineScene
from ui.timeline.speculation_lanes import paint_overlap_ground
from ui.widgets.figure_table import is_striped, paint_label_ground, stage_brush

BAR_TOP, BAR_HEIGHT = 7.0, 22.0
PART_TOP, PART_HEIGHT = 31.0, 13.0
_LABEL_PX, _PART_LABEL_PX = 11.0, 9.5
_LABELLED_PX = 16.0
_GROUND = 0.32
"""Share of its colour that a part has over the lane's ground."""

SPECULATION = ("draft", "verify")
"""Parts with colours of their own."""

_PART_COLORS = (*STAGES, *SPECULATION, "")
"""Names of colours of parts; the last is that of a stage without one."""


class StageLane(Lane):
    """One model's five stages. `column` is the place of its track."""

    lane_height_px = 50
    tip = "The stages of one model, below them their parts; time from the run's zero."

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
        """False where the other column's run has no model on this side, and where no draft helped."""
        if self.track is not None or self.column > 1:
            return self.track is not None
        other = self.scene.tracks[1 - self.column]
        return other is None or not mode_of(other.run.info.mode).is_paired

    def names(self) -> tuple[str, str]:
        """The model and its role in this run, or its present stage; of two runs the run first."""
        track = self.track
        if track is None:
            return ("Draft" if self.column == 0 else "Target"), "no run yet"
        model, header = self.scene.model(self.column), self.scene.header(self.column)
        running = track.run.open_stage(track.role)
        now = track.role
        if running is not None:
            now = f"{'drafting' if is_drafting(track.run, track.role, running.name) else running.name} …"
        return (header, f"{model} · {now}") if header else (model, now)

    def reading(self, t_ns: int) -> str:
        """The stage and the part of it."""
        track, names = self.track, []
        if track is None:
            return NOTHING
        for table in (track.stages, track.parts):
            row = table.rows(track.zero_ns, track.now(self.scene.clock_ns))
            if (place := row_at(row.starts, row.ends, t_ns)) is not None:
                names.append(stage_title(table.names[int(row.names[place])]))
        return " › ".join(names) or NOTHING

    def paint_canvas(self, painter: QPainter) -> None:
        track = self.track
        if track is None:
            return
        paint_overlap_ground(painter, self.scene, self.height())
        now = track.now(self.scene.clock_ns)
        self._paint_stages(painter, track, now)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        self._paint_parts(painter, track, now)
        self._paint_chosen(painter, track, now)
        self._paint_end(painter, track)

    def _paint_stages(self, painter: QPainter, track: Track, now: int) -> None:
        theme = self.scene.theme
        row = track.stages.rows(track.zero_ns, now)
        bars = merged_bars(row.starts, row.ends, self.scene.scale)
        for x0, x1, index, _, count in zip(*(part.tolist() for part in bars), strict=True):
            name = track.stages.names[int(row.names[index])]
            color = theme.stage(color_of_stage(track, name))
            state = int(row.states[index])
            rect = QRectF(x0, BAR_TOP, max(1.0, x1 - x0 - (1.0 if x1 - x0 > 3 else 0.0)), BAR_HEIGHT)
            opacity = 0.72 if state == PROVISIONAL else 1.0
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(
                stage_brush(theme, name, rect, opacity) if is_striped(name) else theme.alpha(color, opacity)
            )
            radius = min(3.0, rect.width() / 2)
            painter.drawRoundedRect(rect, radius, radius)
            if state == RUNNING:
                painter.fillRect(QRectF(rect.right() - 1.5, rect.top(), 2.0, rect.height()), theme.text)
            if count == 1 and rect.width() > 14:
                labels = stage_labels(track.run, track.role, name, int(row.ends[index] - row.starts[index]))
                self._paint_label(painter, rect, name, color, labels)

    def _paint_label(self, painter: QPainter, rect: QRectF, name: str, color: QColor, labels: list[str]) -> None:
        theme = self.scene.theme
        painter.setPen(theme.ink(color))
        if is_striped(name):
            plate = QRectF(max(rect.left(), 0.0) + 3, rect.top() + 3, rect.right() - max(rect.left(), 0.0) - 6, 16)
            paint_label_ground(painter, theme, plate)
            painter.setPen(theme.text)
        self.write_inside(painter, rect, labels, _LABEL_PX)

    def _paint_parts(self, painter: QPainter, track: Track, now: int) -> None:
        """All parts as one row of columns, with the names of those that are wide."""
        theme, per_px = self.scene.theme, pixels_per_px(painter)
        row = track.parts.rows(track.zero_ns, now)
        kinds, columns = self._kinds_of(row, track.parts.names), math.ceil(self.canvas_width * per_px)
        covered = span_coverage((row.starts, row.ends, kinds), len(_PART_COLORS), self.scene.scale, columns, per_px)
        grounds = palette_of([blended(theme.panel, theme.stage(name), _GROUND) for name in _PART_COLORS])
        room = QRectF(0, PART_TOP, self.canvas_width, PART_HEIGHT)
        paint_row(painter, np.einsum("ck,kx->cx", covered.shares, grounds), room)
        painter.setPen(theme.text)
        for place, left, right in zip(
            covered.rows.tolist(), covered.left.tolist(), covered.right.tolist(), strict=True
        ):
            visible = QRectF(left, PART_TOP, right - left, PART_HEIGHT).intersected(room)
            if visible.width() >= _LABELLED_PX:
                text = track.parts.names[int(row.names[place])]
                if theme.text_width(text, _PART_LABEL_PX, 500) <= visible.width() - 6:
                    theme.write(painter, visible.adjusted(4, -0.5, 0, 0), text, _PART_LABEL_PX, 500)

    def _kinds_of(self, row: SpanRow, words: list[str]) -> Ints:
        """Indices into `_PART_COLORS`, kept until the row changes."""
        if self._kinds[0] is not row:
            stages = np.array([_PART_COLORS.index(color_name("", word)) for word in words] or [0], dtype=np.int64)
            kinds = stages[row.stages]
            for word in set(SPECULATION).intersection(words):
                kinds[row.names == words.index(word)] = _PART_COLORS.index(word)
            self._kinds = row, kinds
        return self._kinds[1]

    def _paint_chosen(self, painter: QPainter, track: Track, now: int) -> None:
        """An outline around the selected stage or part."""
        chosen, scale = self.scene.selection.span, self.scene.scale
        if chosen is None or chosen.run_id != track.run.run_id:
            return
        for table, top, height in ((track.stages, BAR_TOP, BAR_HEIGHT), (track.parts, PART_TOP, PART_HEIGHT)):
            row = table.rows(track.zero_ns, now)
            for place in np.flatnonzero(row.ids == chosen.span_id).tolist():
                x0, x1 = scale.x(int(row.starts[place])), scale.x(int(row.ends[place]))
                painter.setPen(QPen(self.scene.theme.text, 1.5))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(QRectF(x0 - 0.5, top - 1, max(1.0, x1 - x0), height + 2))

    def _paint_end(self, painter: QPainter, track: Track) -> None:
        """A line and a word where a run failed or was cancelled."""
        status, theme = track.run.info.status, self.scene.theme
        if status not in (FAILED, CANCELLED) or not track.is_answer:
            return
        x, width = self.scene.scale.x(track.end_ns(self.scene.clock_ns)), theme.text_width(status, SMALL_PX, 600)
        color = theme.bad if status == FAILED else theme.warn
        painter.fillRect(QRectF(x, BAR_TOP - 3, 1.5, PART_TOP + PART_HEIGHT - BAR_TOP + 3), color)
        room = QRectF(x + 4, BAR_TOP, width + 6, 17)
        if room.right() > self.canvas_width:
            room.moveTopRight(QPointF(x - 3, PART_TOP))  # the bar's own label stays free
        paint_label_ground(painter, theme, room)
        painter.setPen(color)
        theme.write(painter, room.adjusted(3, 0, 0, 0), status, SMALL_PX, 600)

    def hit(self, pos: QPointF) -> Hit | None:
        track = self.track
        if track is None:
            return None
        if BAR_TOP - 4 <= pos.y() < PART_TOP - 1:
            return self._hit_in(track, track.stages, pos.x())
        if PART_TOP - 1 <= pos.y() <= PART_TOP + PART_HEIGHT + 4:
            return self._hit_in(track, track.parts, pos.x())
        return None

    def _hit_in(self, track: Track, table: SpanTable, x: float) -> Hit | None:
        """The span at a position, or one within 2 px of it, so that thin spans can be hit."""
        row = table.rows(track.zero_ns, track.now(self.scene.clock_ns))
        t_ns, slack = self.scene.scale.t(x), 2.0 * self.scene.scale.ns_per_px
        if (place := row_at(row.starts, row.ends, t_ns, slack)) is None:
            return None
        stage = table.names[int(row.stages[place])]
        span = track.run.spans[int(row.ids[place])]
        return self._describe(track, span, stage, TimeRange(int(row.starts[place]), int(row.ends[place])))

    def _describe(self, track: Track, span: Span, stage: str, when: TimeRange) -> Hit:
        length = when.end_ns - when.start_ns
        facts = [("start", time_text(when.start_ns - track.shift_ns)), ("duration", time_text(length))]
        whole = track.end_ns(self.scene.clock_ns) - track.shift_ns
        if whole > 0:
            facts.append(("share of run", percent_text(length / whole, 1)))
        if energy := energy_text(track.run, span):
            facts.append(("energy", energy))
        facts.extend(
            (f"{tensor.direction} {tensor.name}", f"[{tensor.shape}] {tensor.dtype} · {bytes_text(tensor.nbytes)}")
            for tensor in span.tensors[:4]
        )
        title = stage_title(span.name) if span.name == stage else f"{stage_title(stage)} › {span.name}"
        drafts = is_drafting(track.run, track.role, span.name)
        return Hit(
            title=f"{'draft' if drafts else title} · {self.scene.title(self.column)}",
            color=self.scene.theme.stage("draft" if drafts else color_name(span.stage_name, stage)),
            facts=facts,
            note=_note(track, span),
            span=SpanRef(track.run.run_id, span.span_id),
            range=when,
            swatch=span.name if is_striped(span.name) else "",
        )


def _note(track: Track, span: Span) -> str:
    """What limits the times of a span."""
    if span.end_ns is None:
        return "running" if track.is_running else "did not end"
    if not span.is_settled:
        return "provisional: host times, the device has not reported yet"
    return "one measurement for all of these; the file does not tell them apart" if is_striped(span.name) else ""


def color_of_stage(track: Track, name: str) -> str:
    """The name of a stage's colour; the free drafting of a draft has the draft's."""
    return "draft" if is_drafting(track.run, track.role, name) else stages_in(name)[-1]


def color_name(name: str, stage: str) -> str:
    """The name of a part's colour: drafting and verifying have their own, other parts their stage's."""
    return name if name in SPECULATION else (stages_in(stage) or ("",))[-1]
