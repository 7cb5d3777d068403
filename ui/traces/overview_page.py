"""The trace window's pages of time by category and of memory."""

from __future__ import annotations

from collections.abc import Sequence

import pyqtgraph as pg
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.core.units import MIB, bytes_text, count_text
from evprof.metrics.traces.memory import MemoryCurve
from evprof.metrics.traces.tables import ALLOCATIONS, DEVICES, OPERATOR_MEMORY, share_text, time_of
from ui.style.theme import GRID, ThemeHolder
from ui.traces.reading import ReadTrace
from ui.widgets.boxes import beside, stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.panel_parts import EmptyState, WordSwitch, say, scrolling, section_head, sentence
from ui.widgets.plots import PlotView
from ui.widgets.record_table import RecordTable

_TABLE_PX, _CURVE_PX = 420, 190


class OverviewPage(QWidget):
    def __init__(self, themes: ThemeHolder) -> None:
        super().__init__()
        self._themes = themes
        self.table, self.devices = FigureTable(themes), FigureTable(themes)
        self.summary = sentence("title")
        self.problems = sentence("warn")
        self._device_head = section_head("Devices")
        for table in (self.table, self.devices):
            table.setMaximumWidth(_TABLE_PX)
        by_category = stacked(section_head("Time by category"), self.table, None, spacing=GRID // 2)
        by_device = stacked(self._device_head, self.devices, None, spacing=GRID // 2)
        tables = beside((by_category, 1), (by_device, 1), None, spacing=6 * GRID)
        ground = QWidget()
        parts = (self.summary, self.problems, GRID, tables, GRID, None)
        stacked(*parts, on=ground, margins=(0, GRID, GRID, GRID), spacing=GRID // 2)
        stacked(scrolling(ground), on=self)

    def show_trace(self, read: ReadTrace) -> None:
        analysis, found = read.analysis, read.analysis.overview
        slices = count_text(len(analysis.trace.slices), "slice")
        say(self.problems, "\n".join(analysis.problems))
        self.table.setVisible(found is not None)
        self._device_head.setVisible(found is not None and bool(found.devices))
        self.devices.setVisible(found is not None and bool(found.devices))
        if found is None:
            say(self.summary, f"{slices}, but no operators and no work on a device: there is no time to divide.")
            return
        steps = count_text(len(found.steps), "step")
        say(self.summary, f"{time_of(found.wall_ns)} in {steps}, {slices}")
        self.table.show_rows(
            [TableRow(one.name, (time_of(one.ns), share_text(one.share))) for one in found.categories if one.ns],
            ("time", "share"),
        )
        self.devices.show_rows(
            [
                TableRow(column.head, tuple(map(column.text, found.devices)), tip=column.tip)
                for column in DEVICES
                if column.key not in ("device", "name")
            ],
            tuple(f"GPU {one.device}" for one in found.devices),
        )


class MemoryCurvePlot(PlotView):
    """Allocated MiB as a filled line, reserved MiB as a thin line, over the trace's time in ms."""

    def __init__(self, themes: ThemeHolder) -> None:
        self._curve: MemoryCurve | None = None
        self._start_ns = 0
        super().__init__(themes, "ms from the trace's beginning · MiB")
        self.left.setTicks(None)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(400, _CURVE_PX)

    def show_curve(self, curve: MemoryCurve | None, span: tuple[int, int]) -> None:
        self._curve, self._start_ns = curve, span[0]
        self.setAccessibleName(f"Memory of {curve.device}, at most {bytes_text(curve.peak_bytes)}" if curve else "")
        self.box.setXRange(0, max(1e-6, (span[1] - span[0]) / 1e6), padding=0)
        self.draw()

    def draw(self) -> None:
        self._clear()
        curve, theme = self._curve, self.theme
        if curve is None or not len(curve.times_ns):
            return
        ms = (curve.times_ns - self._start_ns) / 1e6
        reserved, allocated = curve.reserved_bytes / MIB, curve.allocated_bytes / MIB
        self.box.setYRange(0, 1.15 * max(float(reserved.max()), float(allocated.max()), 1e-3), padding=0)
        ground = pg.mkBrush(theme.alpha(theme.accent, 0.22))
        self.box.addItem(pg.PlotCurveItem(ms, reserved, stepMode="right", pen=pg.mkPen(theme.text_dim)))
        filled = {"pen": pg.mkPen(theme.accent, width=1.5), "fillLevel": 0, "brush": ground}
        self.box.addItem(pg.PlotCurveItem(ms, allocated, stepMode="right", **filled))
        peak = (curve.peak_at_ns - self._start_ns) / 1e6, curve.peak_bytes / MIB
        is_right = 2 * peak[0] > self.box.viewRange()[0][1]
        self._write(f"● peak {bytes_text(curve.peak_bytes)}", peak, theme.text, (1.0 if is_right else 0.0, 1.0))


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
        self._read = read
        memory = read.analysis.memory
        has_any = bool(memory.curves or memory.operators or memory.allocation_count)
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
        if self._read is not None:
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
            return
        self.table.show_records(sorted(memory.allocations, key=lambda one: -one.bytes), ALLOCATIONS)
        count, start = memory.allocation_count, self._read.analysis.start_ns
        shown = f"The largest {len(memory.allocations):,} of {count:,}. " if count > len(memory.allocations) else ""
        times = f"Times are the trace's own, which begins at {time_of(start)}. – lies outside the trace."
        say(self.note, f"{shown}{times}")
