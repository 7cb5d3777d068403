"""What the window can be told to do, as actions with keys: one list that the menu and the key help both show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

from evprof.run.works.work_form import FORMS
from ui.window.panels import PANELS


@dataclass(frozen=True)
class ActionEntry:
    """One action: its name in the code, its text, its keys, and the submenu that it stands in."""

    name: str
    text: str
    keys: str = ""
    below: str = ""


TIMELINE = "Timeline"

WINDOW = "Window"
"""The menu of what changes the window, and in the key help the group of whatever has none of its own."""

ENTRIES: tuple[ActionEntry | None, ...] = (
    ActionEntry("new_session", "New session", "Ctrl+N"),
    ActionEntry("open_session", "Open session…", "Ctrl+O"),
    ActionEntry("start_page", "Start page", "Ctrl+Shift+H"),
    ActionEntry("save_session", "Save session as…", "Ctrl+S"),
    ActionEntry("import_results", "Import results…", "Ctrl+Shift+I"),
    ActionEntry("write_report", "Write report…", "Ctrl+Shift+R"),
    None,
    ActionEntry("open_events", "Open events…", "Ctrl+E", below="Open input"),
    ActionEntry("open_video", "Open video…", "Ctrl+Shift+E", below="Open input"),
    ActionEntry("open_sequence", "Open sequence…", "Ctrl+Shift+O", below="Open input"),
    ActionEntry("settings", "Settings…", "Ctrl+,"),
    ActionEntry("run", "Run", "Ctrl+R"),
    ActionEntry("stop", "Stop", "Ctrl+."),
    ActionEntry("demo", "Run the bundled demo"),
    None,
    *(ActionEntry(entry.name, entry.title, entry.keys, below="Panels") for entry in PANELS),
    ActionEntry("zoom_in", "Zoom in", "W", below=TIMELINE),
    ActionEntry("zoom_out", "Zoom out", "S", below=TIMELINE),
    ActionEntry("pan_left", "Pan left", "A", below=TIMELINE),
    ActionEntry("pan_right", "Pan right", "D", below=TIMELINE),
    ActionEntry("fit", "Show everything, follow a live run", "F", below=TIMELINE),
    ActionEntry("zoom_selection", "Zoom to the selection", "Shift+F", below=TIMELINE),
    ActionEntry("previous_span", "Previous span, round or token", ",", below=TIMELINE),
    ActionEntry("next_span", "Next span, round or token", ".", below=TIMELINE),
    ActionEntry("to_range", "Turn the selection into a range", "R", below=TIMELINE),
    ActionEntry("deselect", "Select nothing", "Esc", below=TIMELINE),
    ActionEntry("mark", "Mark the selection, the pointer or the middle", "M", below=TIMELINE),
    ActionEntry("write_note", "Mark it and write a note", "Shift+M", below=TIMELINE),
    ActionEntry("run_as_a", "Show the chosen run as A", "Ctrl+1", below="Runs"),
    ActionEntry("run_as_b", "Show the chosen run as B", "Ctrl+2", below="Runs"),
    ActionEntry("rename_run", "Rename the chosen run…", "F2", below="Runs"),
    ActionEntry("note_run", "Write a note on the chosen run…", "Shift+F2", below="Runs"),
    ActionEntry("delete_run", "Delete the chosen run", "Ctrl+Del", below="Runs"),
    ActionEntry("undo", "Undo the last deletion", "Ctrl+Z", below="Runs"),
    ActionEntry("restore_runs", "Bring deleted runs back", below="Runs"),
    ActionEntry("weigh_run", "Choose what the run is weighed against…", "Ctrl+Shift+W", below="Runs"),
    ActionEntry("run_alone", "Measure in turns with its target alone", "Ctrl+Shift+X", below="Runs"),
    ActionEntry("filter_runs", "Filter runs…", "Ctrl+Shift+F", below="Runs"),
    ActionEntry("distributions", "Distributions…", "Ctrl+D", below="Analysis"),
    ActionEntry("clinic", "Acceptance clinic…", "Ctrl+Shift+A", below="Analysis"),
    ActionEntry("compare", "Compare…", "Ctrl+K", below="Analysis"),
    ActionEntry("torch_trace", "Torch trace…", "Ctrl+Shift+T", below="Analysis"),
    ActionEntry("align_start", "Align at the start", "Alt+1", below="Runs A and B"),
    ActionEntry("align_first_token", "Align at the first token", "Alt+2", below="Runs A and B"),
    ActionEntry("align_span", "Align at the selected span", "Alt+3", below="Runs A and B"),
    ActionEntry("queue", "Queue…", "Ctrl+J", below="Tasks"),
    *(ActionEntry(form.name, f"{form.title}…", below="Tasks") for form in FORMS),
    ActionEntry("theme", "Light or dark", "Ctrl+Shift+L", below=WINDOW),
    ActionEntry("palette", "Find…", "Ctrl+Shift+P"),
    None,
    ActionEntry("contents", "Contents", "F1", below="Help"),
    ActionEntry("keys", "Keys and mouse", "?", below="Help"),
    ActionEntry("troubleshooting", "Troubleshooting", below="Help"),
    ActionEntry("about", "About evprof", below="Help"),
    ActionEntry("quit", "Quit", "Ctrl+Q"),
)
"""In menu order; None is a line."""

MOUSE = (
    ("wheel", "zoom at the pointer"),
    ("Shift+wheel", "pan; so does dragging with the middle button"),
    ("drag", "select a range"),
    ("click", "select a span, round or token"),
    ("double-click", "zoom to it; beside everything: fit"),
    ("right-click", "zoom, copy, mark, collapse lanes"),
    ("click a lane's name", "collapse the lane, or open it"),
    ("click a bar, an area", "select its stage"),
    ("drag a run", "onto the left or right column: show it as A or B"),
    ("Ctrl+click a run", "show it beside the one clicked before"),
    ("drop files, folders", "open events, videos, sequences, lists, sessions, results"),
)

FOCUSED = (
    ("Tab", "go to the next part of the window"),
    ("← →", "previous or next token, bar, or moment of the track; close or open a line of a list"),
    ("Shift+← →", "10 ms back or forward on the track"),
    ("Home, End", "beginning or end of the track"),
    ("Space", "play or pause on the track; tick a line"),
    ("I, O", "the part to run begins or ends here, on the track"),
    ("Enter", "select the bar"),
    ("Delete", "delete the run or mark of the line; on the track: run the whole sample"),
    ("Ctrl+C", "copy the answer or the table"),
)
"""Keys of the part of the window that has the keyboard."""


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
            action.setObjectName(entry.name)
            self.by_name[entry.name] = action

    def __getitem__(self, name: str) -> QAction:
        return self.by_name[name]

    def connect_all(self, does: Mapping[str, Callable[[], object]]) -> None:
        for name, work in does.items():
            # Qt hands `checked` to whoever takes an argument; none of these may.
            self.by_name[name].triggered.connect(lambda _=False, work=work: work())

    def menu(self, parent: QWidget) -> QMenu:
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
        return menu

    def gestures(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Every key and gesture in groups, for the key help."""
        groups = {TIMELINE: [], "Focused part": list(FOCUSED), "Mouse": list(MOUSE), WINDOW: []}
        for entry in ENTRIES:
            if entry is not None and entry.keys:
                head = entry.below if entry.below in groups else WINDOW
                groups[head].append((entry.keys, entry.text.rstrip("…")))
        return list(groups.items())
