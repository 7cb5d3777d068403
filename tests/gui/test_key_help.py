"""The key help lists every key and gesture once, and no key belongs to the desktop."""

from __future__ import annotations

from collections import Counter

from PySide6.QtWidgets import QMainWindow

from kept import Keep
from ui.help.help_pages import ShortcutsDialog
from ui.window.actions import ENTRIES, WindowActions

TRACK = {"I, O", "Shift+← →", "Delete", "Home, End", "Space"}
"""Keys of the track below the players."""


def test_every_key_is_listed_once_in_a_group_of_its_own(keep: Keep) -> None:
    window = keep(QMainWindow())
    dialog = ShortcutsDialog(WindowActions(window).gestures(), window)
    groups = [dialog.list.topLevelItem(place) for place in range(dialog.list.topLevelItemCount())]
    heads = [group.text(0) for group in groups if group is not None]
    listed = [group.child(row).text(0) for group in groups if group is not None for row in range(group.childCount())]
    assert len(heads) == len(set(heads))
    assert [key for key, count in Counter(listed).items() if count > 1] == []
    assert {entry.keys for entry in ENTRIES if entry is not None and entry.keys} | TRACK <= set(listed)


def test_no_key_is_one_that_desktops_take() -> None:
    """Linux desktops use Ctrl+Alt with T, L and D; on Windows Ctrl+Alt is AltGr, which types letters."""
    assert [entry.name for entry in ENTRIES if entry is not None and "Ctrl+Alt" in entry.keys] == []
