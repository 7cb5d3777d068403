"""Where a trace's time went: by category, by module, how busy the devices were, and advice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from evprof.core.safe_text import plain
from evprof.core.units import count_text, percent_text
from evprof.metrics.traces.modules import ModuleRow
from evprof.metrics.traces.overview import CATEGORIES, DeviceUse, TraceOverview
from ui.style.theme import GRID, SMALL_PX, Theme, ThemeHolder
from ui.timeline.lane import blended
from ui.traces.columns import share_text, time_of
from ui.traces.reading import ReadTrace
from ui.widgets.boxes import beside, stacked
from ui.widgets.drawn import Drawn
from ui.widgets.empty_state import EmptyState
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.panel_parts import say, scrolling, section_head, sentence

_BAR_PX, _TABLE_PX = 22, 420


def category_colors(theme: Theme) -> dict[str, QColor]:
    """From the accent, for what runs on a device, down to the ground: the categories are an order, not stages."""
    last = len(CATEGORIES) - 1
    return {name: blended(theme.accent, theme.line, at / last) for at, name in enumerate(CATEGORIES)}


class CategoryBar(Drawn):
    """One bar, as wide as there is room, divided by category."""

    def __init__(self, themes: ThemeHolder) -> None:
        super().__init__(themes)
        self._shares: list[tuple[str, float, str]] = []
        self.setFixedHeight(_BAR_PX)

    def show_overview(self, found: TraceOverview) -> None:
        """Shows another division."""
        self._shares = [(one.name, one.share, time_of(one.ns)) for one in found.categories if one.share]
        self.setAccessibleName(", ".join(f"{name} {percent_text(share, 1)}" for name, share, _ in self._shares))
        self.update()

    def _parts(self) -> list[tuple[QRectF, str, float, str]]:
        found, left = [], 0.0
        for name, share, took in self._shares:
            width = share * self.width()
            found.append((QRectF(left, 0, width, self.height()), name, share, took))
            left += width
        return found

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter, theme = QPainter(self), self._themes.theme
        colors = category_colors(theme)
        painter.setFont(theme.font(SMALL_PX, 600))
        for room, name, share, _ in self._parts():
            painter.fillRect(room.adjusted(0, 0, -1 if room.width() > 2 else 0, 0), colors[name])
            label = next((text for text in (f"{name} {percent_text(share)}", name) if _fits(painter, text, room)), "")
            painter.setPen(theme.ink(colors[name]))
            painter.drawText(room.adjusted(6, 0, 0, -1), int(Qt.AlignmentFlag.AlignVCenter), label)

    def tip_at(self, point: QPoint) -> str:
        """The category under the pointer."""
        for room, name, share, took in self._parts():
            if room.contains(point):
                return f"{name}: {took}, {percent_text(share, 1)}"
        return ""


def _fits(painter: QPainter, text: str, room: QRectF) -> bool:
    return painter.fontMetrics().horizontalAdvance(text) + 10 <= room.width()


class OverviewPage(QWidget):
    """Categories, devices and advice."""

    def __init__(self, themes: ThemeHolder) -> None:
        super().__init__()
        self._themes = themes
        self.bar = CategoryBar(themes)
        self.table, self.devices = FigureTable(themes), FigureTable(themes)
        self.summary, self.advice = sentence("title"), sentence()
        self.problems = sentence("warn")
        self._device_head, self._advice_head = section_head("Devices"), section_head("What could help")
        for table in (self.table, self.devices):
            table.setMaximumWidth(_TABLE_PX)
        by_category = stacked(section_head("Time by category"), self.table, None, spacing=GRID // 2)
        by_device = stacked(self._device_head, self.devices, None, spacing=GRID // 2)
        tables = beside((by_category, 1), (by_device, 1), None, spacing=6 * GRID)
        ground = QWidget()
        column = stacked(
            *(self.summary, self.problems, GRID, self.bar, GRID, tables, GRID),
            *(self._advice_head, self.advice),
            on=ground,
            margins=(0, GRID, GRID, GRID),
            spacing=GRID // 2,
        )
        column.addStretch(1)
        stacked(scrolling(ground), on=self)

    def show_trace(self, read: ReadTrace) -> None:
        """Shows another trace."""
        analysis, found = read.analysis, read.analysis.overview
        slices = count_text(len(analysis.trace.slices), "slice")
        say(self.problems, "\n".join(analysis.problems))
        for part in (self.bar, self.table):
            part.setVisible(found is not None)
        say(self.advice, "\n".join(one.sentence for one in analysis.advice))
        self._advice_head.setVisible(bool(analysis.advice))
        self._device_head.setVisible(found is not None and bool(found.devices))
        self.devices.setVisible(found is not None and bool(found.devices))
        if found is None:
            say(self.summary, f"{slices}, but no operators and no work on a device: there is no time to divide.")
            return
        steps = count_text(len(found.steps), "step")
        say(self.summary, f"{time_of(found.wall_ns)} in {steps}, {slices}")
        self.bar.show_overview(found)
        self.table.show_rows(
            [TableRow(one.name, (time_of(one.ns), share_text(one.share))) for one in found.categories if one.ns],
            ("time", "share"),
        )
        self.devices.show_rows(*_device_rows(found.devices))


def _device_rows(devices: Sequence[DeviceUse]) -> tuple[list[TableRow], tuple[str, ...]]:
    rows = [
        ("busy", [share_text(one.busy) for one in devices], "share of the steps' time with a kernel running"),
        ("kernels", [f"{one.kernels:,}" for one in devices], ""),
        ("time of kernels", [time_of(one.kernel_ns) for one in devices], ""),
        ("SM efficiency", [share_text(one.sm_efficiency) for one in devices], "estimated from the launches' blocks"),
        ("occupancy", [share_text(one.occupancy) for one in devices], "estimated share of a multiprocessor's warps"),
        (
            "tensor cores",
            [share_text(one.tensor_cores) for one in devices],
            "share of the kernels' time that uses them",
        ),
    ]
    heads = tuple(f"GPU {one.device}" for one in devices)
    return [TableRow(name, tuple(cells), tip=tip) for name, cells, tip in rows], heads


_MODULE_HEADS = ("module", "calls", "operators", "host self", "host total", "device self", "device total")
_OPEN_DEPTH = 1


class ModulePage(QWidget):
    """Time by `nn.Module` as a tree of calls."""

    def __init__(self) -> None:
        super().__init__()
        self.empty = EmptyState(
            "No modules in this trace",
            "Only traces recorded with with_stack=True name the modules (nn.Module) that call operators. evprof's own "
            "stages stand in the trace's timeline.",
        )
        self.tree = QTreeWidget()
        self.tree.setAccessibleName("Modules")
        self.tree.setHeaderLabels(list(_MODULE_HEADS))
        self.tree.setUniformRowHeights(True)
        head = self.tree.header()
        head.setStretchLastSection(False)
        head.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        head.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in range(1, len(_MODULE_HEADS)):
            self.tree.headerItem().setTextAlignment(column, Qt.AlignmentFlag.AlignRight)
        stacked(self.empty, (self.tree, 1), on=self)

    def show_trace(self, read: ReadTrace) -> None:
        """Shows another trace."""
        rows = read.analysis.modules
        self.empty.setVisible(not rows)
        self.tree.setVisible(bool(rows))
        self.tree.clear()
        self.tree.addTopLevelItems(_module_items(rows))
        self.tree.expandToDepth(_OPEN_DEPTH)


def _module_items(rows: Iterable[ModuleRow]) -> list[QTreeWidgetItem]:
    items = []
    for row in rows:
        times = (row.host_self_ns, row.host_total_ns, row.device_self_ns, row.device_total_ns)
        item = QTreeWidgetItem([row.name, f"{row.calls:,}", f"{row.operators:,}", *map(time_of, times)])
        item.setToolTip(0, plain(row.name))
        for column in range(1, len(_MODULE_HEADS)):
            item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight)
        item.addChildren(_module_items(row.children))
        items.append(item)
    return items
