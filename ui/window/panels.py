"""The panels of the window, described once: menu, keys, places and what makes each of them derive from this table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder
from ui.timeline.marks import MarkPanel

Area = Qt.DockWidgetArea
LEFT, RIGHT, LOWER = Area.LeftDockWidgetArea, Area.RightDockWidgetArea, Area.BottomDockWidgetArea

MakePanel = Callable[[RunController, Selection, ThemeHolder], QWidget]


@dataclass(frozen=True)
class PanelEntry:
    """A panel: the name that stored arrangements use, the title, the keys, and the first area.

    `make` is called when the panel is first shown. Without it, the window makes the panel at once, and it is open.
    """

    name: str
    title: str
    area: Area
    keys: str = ""
    make: MakePanel | None = None


def _imported(module: str, name: str) -> MakePanel:
    """Imports the panel's module when the panel opens: it would delay the first picture of the window."""

    def make(*context: object) -> QWidget:
        panel: QWidget = getattr(import_module(module), name)(*context)
        return panel

    return make


PANELS: tuple[PanelEntry, ...] = (
    PanelEntry("left", "Samples, runs", LEFT, "Ctrl+B"),
    PanelEntry("right", "Comparison and selection", RIGHT, "Ctrl+I"),
    PanelEntry("timeline", "Timeline", LOWER, "Ctrl+Shift+M"),
    PanelEntry("marks", "Marks", LEFT, "Ctrl+M", MarkPanel),
    PanelEntry("kv", "KV cache", LOWER, "Ctrl+Shift+K", _imported("ui.costs.kv_panel", "KvPanel")),
    PanelEntry("visual", "Visual tokens", LOWER, "Ctrl+Shift+V", _imported("ui.costs.visual_panel", "VisualPanel")),
    PanelEntry("parts", "Where time goes", LOWER, "Ctrl+Shift+B", _imported("ui.timeline.parts_panel", "PartsPanel")),
    PanelEntry("spans", "Spans", LOWER, "Ctrl+Shift+G", _imported("ui.timeline.span_panel", "SpanPanel")),
)
"""In menu order. Panels of one area that are not open at first become tabs beside the one that is."""
