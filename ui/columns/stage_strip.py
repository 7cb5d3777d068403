"""One bar per model: each stage's share of its time, the one at work standing out while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QMouseEvent, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.core.clock import monotonic_ns
from evprof.core.rows.span import Span
from evprof.core.units import ms_from_ns, ms_text, percent_text
from evprof.view.columns import ShownModel
from evprof.view.labels import is_drafting, short_stage_titles, stage_title
from ui.run_facts.run_text import stages_in_order
from ui.state.selection import Selection, SpanRef
from ui.style.theme import RADIUS, SMALL_PX, ThemeHolder
from ui.widgets.drawn import Drawn
from ui.widgets.stage_fill import is_striped, paint_label_ground, stage_brush

HEIGHT = 20
_LEAST_WIDTH = 3.0


@dataclass(frozen=True)
class Segment:
    """A stage's part of the bar, in px from its left end."""

    span: Span
    duration_ns: int
    left: float
    width: float


class StageStrip(Drawn):
    """The bar. A click selects the stage everywhere."""

    def __init__(
        self,
        selection: Selection,
        themes: ThemeHolder,
        parent: QWidget | None = None,
        *,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        super().__init__(themes, parent)
        self._selection = selection
        self._clock = clock
        self._column: ShownModel | None = None
        self._version = -1
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Share of each stage")
        selection.chosen_changed.connect(self._redraw)

    def sizeHint(self) -> QSize:
        return QSize(160, HEIGHT)

    def show_column(self, column: ShownModel | None) -> None:
        """Shows the stages of one model of a run."""
        self._column = column
        self._version = -1
        self.refresh()
        self.update()

    def refresh(self) -> None:
        """Follows the run; a stage at work grows with the clock."""
        if self._column is None:
            return
        run = self._column.run
        if run.version != self._version or run.running_span is not None:
            self._version = run.version
            self.update()

    def segments(self) -> list[Segment]:
        """The stages and their places; what is short keeps a sliver that can be seen and clicked."""
        if self._column is None:
            return []
        run, role = self._column
        spans = stages_in_order(run, role)
        durations = [self._duration(span) for span in spans]
        whole = sum(durations)
        if not whole:
            return []
        room = self.width() - (len(spans) - 1)
        raw = [max(_LEAST_WIDTH, room * duration / whole) for duration in durations]
        surplus = sum(raw) - room
        wide = sum(width - _LEAST_WIDTH for width in raw)
        widths = [width - surplus * (width - _LEAST_WIDTH) / wide if wide > 0 else width for width in raw]
        found, left = [], 0.0
        for span, duration, width in zip(spans, durations, widths, strict=True):
            found.append(Segment(span, duration, left, width))
            left += width + 1
        return found

    def _duration(self, span: Span) -> int:
        if span.duration_ns is not None:
            return max(0, span.duration_ns)
        if self._column is not None and self._column.run.info.is_over:
            # Cut off: as far as anything of it is known.
            return max(0, self._column.run.last_sign_ns - span.start_ns)
        return max(0, self._clock() - span.start_ns)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self._themes.theme
        frame = QRectF(0, 0, self.width(), HEIGHT)
        shape = QPainterPath()
        shape.addRoundedRect(frame, RADIUS, RADIUS)
        painter.setClipPath(shape)
        if self._column is None:
            return
        segments = self.segments()
        if not segments:
            painter.fillRect(frame, theme.raised)
            return
        painter.setFont(theme.font(SMALL_PX, 600))
        for segment in segments:
            self._paint_segment(painter, segment)

    def _paint_segment(self, painter: QPainter, segment: Segment) -> None:
        theme, span = self._themes.theme, segment.span
        drafts = self._drafts(span)
        color = theme.stage("draft" if drafts else span.stage_name)
        box = QRectF(segment.left, 0, segment.width, HEIGHT)
        running = span.end_ns is None and self._column is not None and not self._column.run.info.is_over
        provisional = not span.is_settled
        # Provisional times are drawn lighter; they take their full colour once the device has said them.
        painter.fillRect(
            box, stage_brush(theme, "draft" if drafts else span.name, box, 0.55 if provisional and not running else 1.0)
        )
        chosen = self._selection.span
        if running:
            painter.fillRect(QRectF(box.left(), HEIGHT - 3, box.width(), 3), theme.text)
        elif self._column is not None and chosen == (self._column.run.run_id, span.span_id):
            painter.fillRect(QRectF(box.left(), HEIGHT - 2, box.width(), 2), theme.text)
        painter.setPen(theme.ink(color) if not provisional or running else theme.text)
        inner = box.adjusted(6, 0, -4, 0)
        text = self._fitting(segment, inner.width(), painter)
        if text and is_striped(span.name):
            width = QFontMetricsF(painter.font()).horizontalAdvance(text)
            paint_label_ground(painter, theme, QRectF(box.left() + 3, 2, width + 6, HEIGHT - 4))
            painter.setPen(theme.text)
        painter.drawText(inner, Qt.AlignmentFlag.AlignVCenter, text)

    def _drafts(self, span: Span) -> bool:
        return self._column is not None and is_drafting(*self._column, span.name)

    def _fitting(self, segment: Segment, room: float, painter: QPainter) -> str:
        """Name and time, or the name, or its first letters, or nothing: what fits."""
        metrics = QFontMetricsF(painter.font())
        titles = ["draft"] if self._drafts(segment.span) else short_stage_titles(segment.span.name)
        for text in (f"{titles[0]} {ms_text(ms_from_ns(segment.duration_ns))}", *titles):
            if metrics.horizontalAdvance(text) <= room:
                return text
        return ""

    def segment_at(self, point: QPoint) -> Segment | None:
        """The stage under a point."""
        return next((part for part in self.segments() if part.left <= point.x() <= part.left + part.width), None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        segment = self.segment_at(event.position().toPoint())
        if segment is not None and self._column is not None:
            self._selection.select(SpanRef(self._column.run.run_id, segment.span.span_id))

    def tip_at(self, point: QPoint) -> str:
        """The stage, its time and its share."""
        segment = self.segment_at(point)
        if segment is None:
            return ""
        whole = sum(part.duration_ns for part in self.segments())
        title = "draft" if self._drafts(segment.span) else stage_title(segment.span.name)
        took = ms_text(ms_from_ns(segment.duration_ns))
        return f"{title}   {took}\n{percent_text(segment.duration_ns / whole, 1)} of this model's stages"
