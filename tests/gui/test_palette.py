"""The palette: actions, settings and runs, found by typing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from evprof.core.recording import RecordLog
from ui.window.main_window import MainWindow


@pytest.fixture
def window(make_window: Callable[..., MainWindow], scripted_recording: RecordLog) -> MainWindow:
    made = make_window()
    made.controller.replace_recording(scripted_recording)
    made.controller.pull()
    made.following.show_run(3)
    made.activateWindow()
    QApplication.processEvents()
    return made


def typed(window: MainWindow, words: str) -> list[str]:
    QTest.keyClicks(window.finding.box.line, words)
    return window.finding.box.titles


def test_an_action_is_found_and_done(window: MainWindow) -> None:
    QTest.keyClick(window, Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    box = window.finding.box
    assert box.isVisible()
    theme = window.holder.theme.name
    assert typed(window, "light dark")[0] == "Light or dark"
    QTest.keyClick(box.line, Qt.Key.Key_Return)
    assert not box.isVisible()
    assert window.holder.theme.name != theme


def test_a_click_on_the_first_line_does_it(window: MainWindow) -> None:
    window.actions_by_name["palette"].trigger()
    theme = window.holder.theme.name
    typed(window, "light dark")
    lines = window.finding.box.list
    QTest.mouseClick(lines.viewport(), Qt.MouseButton.LeftButton, pos=lines.visualRect(lines.currentIndex()).center())
    assert window.holder.theme.name != theme


def test_every_action_of_the_table_is_found_by_its_own_words(window: MainWindow) -> None:
    window.finding.show()
    for action in window.actions_by_name.by_name.values():
        if action.isEnabled():
            window.finding.box.line.setText(action.text())
            assert window.finding.box.titles[0] == action.text()


def test_a_setting_is_found_by_what_it_does(window: MainWindow) -> None:
    window.actions_by_name["palette"].trigger()
    typed(window, "drafted per round")
    titles = window.finding.box.titles
    assert titles
    QTest.keyClick(window.finding.box.line, Qt.Key.Key_Return)
    popover = window.toolbar.settings_popover
    assert popover.isVisible()
    popover.hide()


def test_a_run_is_shown_and_escape_changes_nothing(window: MainWindow) -> None:
    box = window.finding.box
    window.actions_by_name["palette"].trigger()
    typed(window, "nothing at all is called so")
    assert box.titles == []
    assert box.nothing.isVisible()
    QTest.keyClick(box.line, Qt.Key.Key_Escape)
    assert not box.isVisible()
    assert window.selection.runs == (3, 3)
    window.actions_by_name["palette"].trigger()
    typed(window, "side by side")
    assert box.titles
    QTest.keyClick(box.line, Qt.Key.Key_Return)
    assert window.selection.runs == (1, 2)
