"""The key help: all keys and gestures in columns of about the same height, on any screen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtWidgets import QApplication, QLabel

from ui.help.shortcuts import ShortcutsDialog, divided
from ui.style.theme import ThemeHolder

GROUPS = st.lists(st.tuples(st.text("abc", min_size=1, max_size=3), st.integers(0, 40)), max_size=6)


@given(sizes=GROUPS, columns=st.integers(1, 4))
def test_no_gesture_is_lost_or_moved(sizes: list[tuple[str, int]], columns: int) -> None:
    groups = [(head, [(f"{head}{n}", "does it") for n in range(count)]) for head, count in sizes]
    found = divided(groups, columns)
    assert len(found) <= columns
    listed = [gesture for column in found for _, gestures in column for gesture in gestures]
    assert listed == [gesture for _, gestures in groups for gesture in gestures]
    assert all(gestures for column in found for _, gestures in column)


def test_it_fits_the_screen(application: QApplication, themes: ThemeHolder) -> None:
    groups = [("Timeline", [("W", "Zoom in")] * 40), ("Mouse", [("drag", "select a range of some length " * 3)] * 30)]
    dialog = ShortcutsDialog(groups)
    dialog.show()
    application.processEvents()
    room = dialog.screen().availableSize()
    assert dialog.width() <= room.width()
    assert dialog.height() <= room.height()
    assert len([label for label in dialog.findChildren(QLabel) if label.text() == "Zoom in"]) == 40
    assert all(label.height() >= label.sizeHint().height() for label in dialog.findChildren(QLabel))
    dialog.close()
    dialog.deleteLater()
