"""The key help lists all keys and gestures by group."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication

from ui.help.help_pages import ShortcutsDialog
from ui.style.theme import ThemeHolder


def test_every_gesture_is_listed_in_its_group(application: QApplication, themes: ThemeHolder) -> None:
    dialog = ShortcutsDialog([("Timeline", [("W", "Zoom in"), ("S", "Zoom out")]), ("Mouse", [("drag", "select")])])
    groups = [dialog.list.topLevelItem(place) for place in range(dialog.list.topLevelItemCount())]
    listed = {
        group.text(0): [(group.child(row).text(0), group.child(row).text(1)) for row in range(group.childCount())]
        for group in groups
        if group is not None
    }
    assert listed == {"Timeline": [("W", "Zoom in"), ("S", "Zoom out")], "Mouse": [("drag", "select")]}
    dialog.deleteLater()
