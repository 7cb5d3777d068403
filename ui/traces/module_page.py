"""Time by `nn.Module`, as modules call each other."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from evprof.core.safe_text import plain
from evprof.metrics.traces.modules import ModuleRow
from ui.traces.columns import time_of
from ui.traces.reading import ReadTrace
from ui.widgets.boxes import stacked
from ui.widgets.empty_state import EmptyState

_HEADS = ("module", "calls", "operators", "host self", "host total", "device self", "device total")
_OPEN_DEPTH = 1


class ModulePage(QWidget):
    """A tree; what a module calls lies below it."""

    def __init__(self) -> None:
        super().__init__()
        self.empty = EmptyState(
            "No modules in this trace",
            "Only traces recorded with with_stack=True name the modules (nn.Module) that call operators. evprof's own "
            "stages stand in the trace's timeline.",
        )
        self.tree = QTreeWidget()
        self.tree.setAccessibleName("Modules")
        self.tree.setHeaderLabels(list(_HEADS))
        self.tree.setUniformRowHeights(True)
        head = self.tree.header()
        head.setStretchLastSection(False)
        head.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in range(1, len(_HEADS)):
            self.tree.headerItem().setTextAlignment(column, Qt.AlignmentFlag.AlignRight)
            head.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        stacked(self.empty, (self.tree, 1), on=self)

    def show_trace(self, read: ReadTrace) -> None:
        """Shows another trace."""
        rows = read.analysis.modules
        self.empty.setVisible(not rows)
        self.tree.setVisible(bool(rows))
        self.tree.clear()
        self.tree.addTopLevelItems(list(_items(rows)))
        self.tree.expandToDepth(_OPEN_DEPTH)


def _items(rows: Iterable[ModuleRow]) -> Iterable[QTreeWidgetItem]:
    for row in rows:
        times = (row.host_self_ns, row.host_total_ns, row.device_self_ns, row.device_total_ns)
        item = QTreeWidgetItem([row.name, f"{row.calls:,}", f"{row.operators:,}", *map(time_of, times)])
        item.setToolTip(0, plain(row.name))
        for column in range(1, len(_HEADS)):
            item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight)
        item.addChildren(list(_items(row.children)))
        yield item
