"""Each stage's share of a model's time as one bar, and the counters of the model below it."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QMouseEvent, QPainter, QPainterPath, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy

from evprof.core.protocols import Clock, monotonic_ns
from evprof.core.rows.spans import Span
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns, ms_text, percent_text
from evprof.view.columns import ShownModel
from evprof.view.labels import is_drafting, stage_title
from ui.run_facts.run_text import stages_in_order
from ui.state.selection import Selection, SpanRef
from ui.style.theme import RADIUS, SMALL_PX, ThemeHolder
from ui.widgets.drawn import Drawn
from ui.widgets.figure_table import is_striped, paint_label_ground, stage_brush
from ui.widgets.label import elided_text

HEIGHT = 20
LINE_PX = 20
LEAST_PX = 78
"""Least width of a counter: a narrower one would cut its figure."""

_LEAST_WIDTH = 3.0
_GAP_PX, _NAME_GAP_PX = 8, 5


@dataclass(frozen=True)
class Segment:
    """A stage's part of the bar, in px from its left end."""

    span: Span
    duration_ns: int
    left: float
    width: float


class StageStrip(Drawn):
    """The bar. A click selects the stage."""

    def __init__(self, selection: Selection, themes: ThemeHolder, *, clock: Clock = monotonic_ns) -> None:
        super().__init__(themes)
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
        self._column = column
        self._version = -1
        self.refresh()
        self.update()

    def refresh(self) -> None:
        """Follows the run; the running stage grows with the clock."""
        if self._column is None:
            return
        run = self._column.run
        if run.version != self._version or run.running_span is not None:
            self._version = run.version
            self.update()

    def segments(self) -> list[Segment]:
        """The stages and their places; a short stage keeps a sliver that can be seen and clicked."""
        if self._column is None:
            return []
        spans = stages_in_order(*self._column)
        durations = [self._duration(span) for span in spans]
        whole = sum(durations)
        if not whole:
            return []
        room = self.width() - (len(spans) - 1)
        raw = [max(_LEAST_WIDTH, room * duration / whole) for duration in durations]
        surplus = sum(raw) - room
        wide = sum(width - _LEAST_WIDTH for width in raw)
        widths = [width - surplus * (width - _LEAST_WIDTH) / wide if wide > 0 else width for width in raw]
        segments, left = [], 0.0
        for span, duration, width in zip(spans, durations, widths, strict=True):
            segments.append(Segment(span, duration, left, width))
            left += width + 1
        return segments

    def _duration(self, span: Span) -> int:
        if span.duration_ns is not None:
            return max(0, span.duration_ns)
        if self._column is not None and self._column.run.info.is_over:
            return max(0, self._column.run.last_sign_ns - span.start_ns)  # cut off
        return max(0, self._clock() - span.start_ns)

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self._column is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self._themes.theme
        frame = QRectF(0, 0, self.width(), HEIGHT)
        shape = QPainterPath()
        shape.addRoundedRect(frame, RADIUS, RADIUS)
        painter.setClipPath(shape)
        painter.fillRect(frame, theme.panel if (segments := self.segments()) else theme.raised)
        painter.setFont(theme.font(SMALL_PX, 600))
        for segment in segments:
            self._paint_segment(painter, segment, *self._column)

    def _paint_segment(self, painter: QPainter, segment: Segment, run: RunLog, role: str) -> None:
        theme, span = self._themes.theme, segment.span
        name = "draft" if is_drafting(run, role, span.name) else span.name
        color = theme.stage("draft" if name == "draft" else span.stage_name)
        box = QRectF(segment.left, 0, segment.width, HEIGHT)
        running = span.end_ns is None and not run.info.is_over
        provisional = not span.is_settled
        # Provisional times are lighter until the device's times arrive.
        painter.fillRect(box, stage_brush(theme, name, box, 0.55 if provisional and not running else 1.0))
        if running or self._selection.span == (run.run_id, span.span_id):
            painter.fillRect(QRectF(box.left(), HEIGHT - (3 if running else 2), box.width(), 3), theme.text)
        painter.setPen(theme.ink(color) if not provisional or running else theme.text)
        inner = box.adjusted(6, 0, -4, 0)
        metrics = QFontMetricsF(painter.font())
        title = "draft" if name == "draft" else stage_title(span.name)
        texts = (f"{title} {ms_text(ms_from_ns(segment.duration_ns))}", title)
        text = next((text for text in texts if metrics.horizontalAdvance(text) <= inner.width()), "")
        if text and is_striped(span.name):
            width = metrics.horizontalAdvance(text)
            paint_label_ground(painter, theme, QRectF(box.left() + 3, 2, width + 6, HEIGHT - 4))
            painter.setPen(theme.text)
        painter.drawText(inner, Qt.AlignmentFlag.AlignVCenter, text)

    def segment_at(self, point: QPoint) -> Segment | None:
        return next((part for part in self.segments() if part.left <= point.x() <= part.left + part.width), None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        segment = self.segment_at(event.position().toPoint())
        if segment is not None and self._column is not None:
            self._selection.select(SpanRef(self._column.run.run_id, segment.span.span_id))

    def tip_at(self, point: QPoint) -> str:
        segment = self.segment_at(point)
        if segment is None or self._column is None:
            return ""
        whole = sum(part.duration_ns for part in self.segments())
        title = "draft" if is_drafting(*self._column, segment.span.name) else stage_title(segment.span.name)
        took = ms_text(ms_from_ns(segment.duration_ns))
        return f"{title}   {took}\n{percent_text(segment.duration_ns / whole, 1)} of this model's stages"


class CounterRow(Drawn):
    """Figures beside their names in equal parts of the width, so that growing figures push nothing about.

    The counters stand on two lines where one is too narrow.
    """

    def __init__(self, themes: ThemeHolder) -> None:
        super().__init__(themes)
        self.entries: list[tuple[str, str]] = []
        self._is_laid_out = False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_entries(self, entries: list[tuple[str, str]]) -> None:
        if entries != self.entries:
            self.entries = entries
            self.updateGeometry()
            self.setAccessibleName(", ".join(f"{name} {figure}" for name, figure in entries))
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(240, LINE_PX * self._lines())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._is_laid_out = True
        self.updateGeometry()

    def _lines(self) -> int:
        is_narrow = self._is_laid_out and self.width() < LEAST_PX * len(self.entries)
        return 2 if is_narrow and len(self.entries) > 1 else 1

    def places(self) -> list[QRectF]:
        in_line = max(1, -(-len(self.entries) // self._lines()))
        width = self.width() / in_line
        return [
            QRectF(place % in_line * width, place // in_line * LINE_PX, width - _GAP_PX, LINE_PX)
            for place in range(len(self.entries))
        ]

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme = self._themes.theme
        for (name, figure), box in zip(self.entries, self.places(), strict=True):
            painter.setFont(theme.font(weight=500))
            painter.setPen(theme.text)
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, figure)
            box.setLeft(box.left() + theme.text_width(figure, weight=500) + _NAME_GAP_PX)
            painter.setFont(theme.font(SMALL_PX))
            painter.setPen(theme.text_dim)
            metrics = QFontMetricsF(painter.font())
            text = elided_text(metrics, name, Qt.TextElideMode.ElideRight, box.width() + _NAME_GAP_PX)
            painter.drawText(box.adjusted(0, 0, _GAP_PX, 0), Qt.AlignmentFlag.AlignVCenter, text)
