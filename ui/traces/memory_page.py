"""What memory did in a trace: the allocator's totals over time, who kept memory, and the largest allocations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.core.units import bytes_text, memory_text
from evprof.metrics.traces.memory import MemoryCurve
from evprof.view.decimate import nice_ceiling, step_line
from evprof.view.timescale import Timescale, tick_step, tick_unit
from ui.style.theme import GRID, SMALL_PX, ThemeHolder
from ui.traces.columns import ALLOCATIONS, OPERATOR_MEMORY, time_of
from ui.traces.reading import MOST_ALLOCATIONS, ReadTrace
from ui.traces.record_table import RecordTable
from ui.widgets.boxes import beside, stacked
from ui.widgets.drawn import Drawn
from ui.widgets.empty_state import EmptyState
from ui.widgets.panel_parts import WordSwitch, say, sentence

_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_CURVE_PX, _AXIS_PX, _FOOT_PX = 190, 64, 22


class MemoryCurvePlot(Drawn):
    """Allocated bytes as a filled line, reserved ones as a thin line above, over the trace's time."""

    def __init__(self, themes: ThemeHolder) -> None:
        super().__init__(themes)
        self._curve: MemoryCurve | None = None
        self._span = (0, 1)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """Its height is its own."""
        return QSize(400, _CURVE_PX)

    def show_curve(self, curve: MemoryCurve | None, span: tuple[int, int]) -> None:
        """Shows another device's curve over a span of time, ns."""
        self._curve, self._span = curve, span
        self.setAccessibleName(
            "" if curve is None else f"Memory of {curve.device}, at most {bytes_text(curve.peak_bytes)}"
        )
        self.update()

    @property
    def _scale(self) -> Timescale:
        start, end = self._span
        return Timescale(start, max(end, start + 1), max(1.0, self.width() - _AXIS_PX - 8.0))

    @property
    def _most(self) -> float:
        curve = self._curve
        assert curve is not None
        unit = 1 << 30 if curve.peak_reserved_bytes >= 1 << 30 else 1 << 20
        return nice_ceiling(max(curve.peak_bytes, curve.peak_reserved_bytes) / unit) * unit

    def paintEvent(self, _event: QPaintEvent) -> None:
        curve = self._curve
        if curve is None or not len(curve.times_ns):
            return
        painter, theme = QPainter(self), self._themes.theme
        room = self.height() - _FOOT_PX - 6.0
        most, scale = self._most, self._scale
        painter.setFont(theme.font(10.5))
        for share in (0.0, 0.5, 1.0):
            y = 6 + room * (1 - share)
            painter.setPen(QPen(theme.line, 1))
            painter.drawLine(QPointF(_AXIS_PX, y), QPointF(self.width() - 8, y))
            painter.setPen(theme.text_dim)
            painter.drawText(
                QRectF(0, y - 8, _AXIS_PX - 6, 16), int(_RIGHT), memory_text(round(most * share)) if share else "0"
            )
        step = tick_step(scale.ns_per_px * 88)
        for t_ns, text in Timescale(0, scale.span_ns, scale.width_px).ticks():
            at_px = _AXIS_PX + t_ns / scale.ns_per_px
            painter.drawText(
                QRectF(at_px, self.height() - 16, 88, 15), f"{text} {tick_unit(step)}" if not t_ns else text
            )
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(_AXIS_PX, 0)
        for levels, is_filled in ((curve.reserved_bytes, False), (curve.allocated_bytes, True)):
            x, level = step_line(curve.times_ns, levels.astype(np.float64), scale)
            heights = 6 + room * (1 - level / most)
            points = [QPointF(*point) for point in zip(x.tolist(), heights.tolist(), strict=True)]
            if is_filled:
                foot = 6 + room
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(theme.alpha(theme.accent, 0.22))
                painter.drawPolygon(QPolygonF([QPointF(points[0].x(), foot), *points, QPointF(points[-1].x(), foot)]))
            painter.setPen(QPen(theme.accent if is_filled else theme.text_dim, 1.5 if is_filled else 1.0))
            painter.drawPolyline(points)
        peak = QPointF(scale.x(curve.peak_at_ns), 6 + room * (1 - curve.peak_bytes / most))
        painter.setBrush(theme.accent)
        painter.drawEllipse(peak, 3.0, 3.0)
        painter.setFont(theme.font(SMALL_PX, 600))
        text = f"peak {bytes_text(curve.peak_bytes)}"
        width = painter.fontMetrics().horizontalAdvance(text)
        painter.setPen(theme.text)
        left = peak.x() + 8 if peak.x() + 8 + width < scale.width_px else peak.x() - 8 - width
        painter.drawText(QPointF(left, max(peak.y() - 4, 16.0)), text)

    def tip_at(self, point: QPoint) -> str:
        """The totals at a moment."""
        curve = self._curve
        if curve is None or not len(curve.times_ns):
            return ""
        t_ns = self._scale.t(point.x() - _AXIS_PX)
        at = int(np.searchsorted(curve.times_ns, t_ns, side="right")) - 1
        if at < 0:
            return ""
        return (
            f"{time_of(t_ns - self._span[0])} after the trace's beginning\n"
            f"allocated {bytes_text(int(curve.allocated_bytes[at]))}\n"
            f"reserved {bytes_text(int(curve.reserved_bytes[at]))}"
        )


class MemoryPage(QWidget):
    """The curve of one device, below it operators or allocations."""

    def __init__(self, themes: ThemeHolder) -> None:
        super().__init__()
        self._read: ReadTrace | None = None
        self.empty = EmptyState(
            "No memory in this trace",
            "It was recorded without profile_memory. Traces of evprof's own runs have it: switch on Trace, press Run.",
        )
        self.plot = MemoryCurvePlot(themes)
        self.devices: WordSwitch | None = None
        self.what = WordSwitch([("operators", "By operator"), ("allocations", "Largest allocations")])
        self.table = RecordTable("Memory", OPERATOR_MEMORY, self.what)
        self.note = sentence("small")
        self._devices_row = beside()
        self.body = QWidget()
        stacked(self._devices_row, self.plot, GRID, (self.table, 1), self.note, on=self.body, spacing=GRID // 2)
        stacked(self.empty, (self.body, 1), on=self, margins=(0, GRID, 0, 0))
        self.what.chosen.connect(self._fill)

    def show_trace(self, read: ReadTrace) -> None:
        """Shows another trace."""
        self._read = read
        memory = read.analysis.memory
        has_any = bool(memory.curves or memory.operators or len(memory.allocations))
        self.empty.setVisible(not has_any)
        self.body.setVisible(has_any)
        self._offer_devices(memory.curves)
        self._show_curve(0)
        self._fill()

    def _offer_devices(self, curves: Sequence[MemoryCurve]) -> None:
        if self.devices is not None:
            self.devices.hide()
            self.devices.deleteLater()
            self.devices = None
        if len(curves) > 1:
            self.devices = WordSwitch([(str(at), curve.device) for at, curve in enumerate(curves)])
            self.devices.chosen.connect(lambda key: self._show_curve(int(key)))
            self._devices_row.addWidget(self.devices)

    def _show_curve(self, at: int) -> None:
        if self._read is None:
            return
        analysis = self._read.analysis
        curves = analysis.memory.curves
        self.plot.show_curve(curves[at] if curves else None, (analysis.start_ns, analysis.end_ns))
        self.plot.setVisible(bool(curves))

    def _fill(self, *_: object) -> None:
        if self._read is None:
            return
        memory = self._read.analysis.memory
        if self.what.key == "operators":
            self.table.show_records(memory.operators, OPERATOR_MEMORY)
            say(self.note, "Memory belongs to the innermost operator that runs on the thread; a release to its maker.")
        else:
            start = self._read.analysis.start_ns
            self.table.show_records(self._read.largest, ALLOCATIONS)
            count = len(memory.allocations)
            shown = f"The largest {MOST_ALLOCATIONS:,} of {count:,}. " if count > MOST_ALLOCATIONS else ""
            say(
                self.note,
                f"{shown}Times are the trace's own, which begins at {time_of(start)}. – lies outside the trace.",
            )
