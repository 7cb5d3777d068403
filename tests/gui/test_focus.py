"""Each Tab stop of the window shows that it has the keyboard, in both themes."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from ui.style.theme import ThemeHolder, theme_named
from ui.window import app
from ui.window.main_window import MainWindow

MOST_STOPS = 120


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_tab_stop_shows_that_it_has_the_keyboard(
    theme: str, window: MainWindow, themes: ThemeHolder, session_file: Path, application: QApplication
) -> None:
    themes.set_theme(theme_named(theme))
    window.open_paths([str(session_file)], waits=True)
    app.settle(application, window)
    window.activateWindow()
    window.toolbar.prompt.setFocus()
    stops: list[QWidget] = []
    while (stop := window.focusWidget()) not in stops and len(stops) < MOST_STOPS:
        stops.append(stop)
        QTest.keyClick(stop, Qt.Key.Key_Tab)
    assert {window.timeline, window.runs.list} <= set(stops)
    same = [name_of(stop) for stop in stops if looks(window, stop, has_focus=False) == looks(window, stop)]
    assert not same, f"{len(same)} of {len(stops)} stops look as without the keyboard: {same}"


def looks(window: MainWindow, stop: QWidget, *, has_focus: bool = True) -> QImage:
    """The picture of a stop with the keyboard on it, or without any focus in the window."""
    (window.focusWidget() or window).clearFocus()
    if has_focus:
        stop.setFocus(Qt.FocusReason.TabFocusReason)
    QApplication.processEvents()
    return window.grab(QRect(stop.mapTo(window, stop.rect().topLeft()), stop.size())).toImage()


def name_of(stop: QWidget) -> str:
    return f"{type(stop).__name__} {stop.accessibleName()}".strip()
