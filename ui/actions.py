"""What the window can be told to do, as actions with keys: one list that the menu and the key help both show."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget


@dataclass(frozen=True)
class Entry:
    """One action: its name in the code, what the menu calls it, its keys."""

    name: str
    text: str
    keys: str = ""


ENTRIES: tuple[Entry | None, ...] = (
    Entry("new_session", "New session", "Ctrl+N"),
    Entry("open_session", "Open session…", "Ctrl+O"),
    Entry("save_session", "Save session as…", "Ctrl+S"),
    None,
    Entry("open_events", "Open events…", "Ctrl+E"),
    Entry("open_video", "Open video…", "Ctrl+Shift+E"),
    Entry("run", "Run", "Ctrl+R"),
    Entry("stop", "Stop", "Ctrl+."),
    Entry("demo", "Run the bundled demo"),
    None,
    Entry("export_trace", "Export Chrome trace…"),
    Entry("export_json", "Export JSON…"),
    Entry("export_tables", "Export CSV tables…"),
    Entry("tensorboard", "Open torch trace in TensorBoard"),
    None,
    Entry("left", "Samples and runs", "Ctrl+B"),
    Entry("right", "Comparison and inspector", "Ctrl+I"),
    Entry("theme", "Light or dark", "Ctrl+Shift+L"),
    Entry("keys", "Keys and mouse", "?"),
    None,
    Entry("quit", "Quit", "Ctrl+Q"),
)
"""In menu order; None is a line."""

MOUSE_AND_KEYS: tuple[tuple[str, str], ...] = (
    ("W / S  ·  wheel  ·  Ctrl+wheel", "zoom in and out at the pointer"),
    ("A / D  ·  Shift+wheel  ·  middle drag", "pan"),
    ("F  ·  double-click on empty ground", "fit everything, follow a live run"),
    ("Shift+F", "zoom to the selected range or span"),
    ("drag", "select a time range and see its statistics"),
    ("click", "select a span, a token or a run"),
    ("double-click", "zoom to a span"),
    (",  and  .", "previous and next stage"),
    ("Esc", "clear the selection"),
)
"""What the timeline understands beside the actions."""


class WindowActions(QObject):
    """All actions by name, added to the window so that their keys work everywhere in it."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.by_name: dict[str, QAction] = {}
        for entry in ENTRIES:
            if entry is None:
                continue
            action = QAction(entry.text, window)
            if entry.keys:
                action.setShortcut(QKeySequence(entry.keys))
            window.addAction(action)
            self.by_name[entry.name] = action

    def __getitem__(self, name: str) -> QAction:
        return self.by_name[name]

    def menu(self, parent: QWidget) -> QMenu:
        """The window's menu."""
        menu = QMenu(parent)
        for entry in ENTRIES:
            if entry is None:
                menu.addSeparator()
            else:
                menu.addAction(self.by_name[entry.name])
        return menu
