"""What the window can be told to do, as actions with keys: one list that the menu and the key help both show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

from ui.window.panels import PANELS


@dataclass(frozen=True)
class ActionEntry:
    """One action: its name in the code, what the menu calls it, its keys, the menu below the menu that it stands in."""

    name: str
    text: str
    keys: str = ""
    below: str = ""


ENTRIES: tuple[ActionEntry | None, ...] = (
    ActionEntry("new_session", "New session", "Ctrl+N"),
    ActionEntry("open_session", "Open session…", "Ctrl+O"),
    ActionEntry("save_session", "Save session as…", "Ctrl+S"),
    ActionEntry("import_results", "Import results…", "Ctrl+Shift+I"),
    ActionEntry("write_report", "Write report…", "Ctrl+Shift+R"),
    None,
    ActionEntry("open_events", "Open events…", "Ctrl+E"),
    ActionEntry("open_video", "Open video…", "Ctrl+Shift+E"),
    ActionEntry("open_sequence", "Open sequence…", "Ctrl+Shift+O"),
    ActionEntry("settings", "Settings…", "Ctrl+,"),
    ActionEntry("run", "Run", "Ctrl+R"),
    ActionEntry("stop", "Stop", "Ctrl+."),
    ActionEntry("demo", "Run the bundled demo"),
    None,
    *(ActionEntry(entry.name, entry.title, entry.keys, below="Panels") for entry in PANELS),
    ActionEntry("arrange", "Arrange panels", "Ctrl+Alt+P", below="Panels"),
    ActionEntry("save_layout", "Save the layout…", below="Layouts"),
    ActionEntry("reset_layout", "Reset the layout", below="Layouts"),
    ActionEntry("distributions", "Distributions…", "Ctrl+D"),
    ActionEntry("clinic", "Acceptance clinic…", "Ctrl+Shift+A"),
    ActionEntry("training", "Training curves…", "Ctrl+Shift+T"),
    ActionEntry("compare", "Compare…", "Ctrl+K"),
    ActionEntry("align_start", "Align at the start", "Alt+1", below="Runs A and B"),
    ActionEntry("align_first_token", "Align at the first token", "Alt+2", below="Runs A and B"),
    ActionEntry("align_span", "Align at the selected span", "Alt+3", below="Runs A and B"),
    ActionEntry("align_by", "Type an offset…", "Alt+4", below="Runs A and B"),
    ActionEntry("theme", "Light or dark", "Ctrl+Shift+L"),
    ActionEntry("palette", "Find an action…", "Ctrl+Shift+P"),
    ActionEntry("find", "Find in the runs…", "/"),
    None,
    ActionEntry("contents", "Contents", "F1", below="Help"),
    ActionEntry("keys", "Keys and mouse", "?", below="Help"),
    ActionEntry("troubleshooting", "Troubleshooting", below="Help"),
    ActionEntry("about", "About evprof", below="Help"),
    ActionEntry("quit", "Quit", "Ctrl+Q"),
)
"""In menu order; None is a line."""

TIMELINE = (
    ("W  S", "zoom in and out"),
    ("A  D", "pan left and right"),
    ("F", "fit everything, follow a live run"),
    ("Shift+F", "zoom to the selection"),
    (",  .", "previous and next stage"),
    ("Esc", "clear the selection"),
)
"""Keys of the timeline; W, A, S and D by their place on the keyboard."""

MOUSE = (
    ("wheel", "zoom at the pointer"),
    ("Shift+wheel", "pan; so does dragging with the middle button"),
    ("drag", "select a time range"),
    ("click", "select a span or a token"),
    ("double-click", "zoom to a span; beside one: fit"),
    ("drop files, folders", "open events, videos, sequences, lists, sessions, results"),
)
"""What the mouse does."""


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

    def connect_all(self, does: Mapping[str, Callable[[], object]]) -> None:
        """Does this for each name from now on."""
        for name, work in does.items():
            # Qt hands `checked` to whoever takes an argument; none of these may.
            self.by_name[name].triggered.connect(lambda _=False, work=work: work())

    def menu(self, parent: QWidget, lists: Mapping[str, Callable[[QMenu], None]] = MappingProxyType({})) -> QMenu:
        """The window's menu. `lists` fill a further menu, "Saved", of the menus that they are named by."""
        menu = QMenu(parent)
        below: dict[str, QMenu] = {"": menu}
        for entry in ENTRIES:
            if entry is None:
                menu.addSeparator()
                continue
            if entry.below not in below:
                below[entry.below] = QMenu(entry.below, menu)
                menu.addMenu(below[entry.below])
            below[entry.below].addAction(self.by_name[entry.name])
        for name, fill in lists.items():
            saved = QMenu("Saved", below[name])
            below[name].addMenu(saved)
            saved.aboutToShow.connect(lambda saved=saved, fill=fill: fill(saved))
        return menu

    def gestures(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Every key and gesture in groups, for the key help."""
        keyed = [(entry.keys, entry.text.rstrip("…")) for entry in ENTRIES if entry is not None and entry.keys]
        return [("Timeline", list(TIMELINE)), ("Mouse", list(MOUSE)), ("Window", keyed)]
