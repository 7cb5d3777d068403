"""The start page: what it shows, what closes it, and what it never does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from kept import Keep
from ui.state.recent import Recent
from ui.style.theme import ThemeHolder
from ui.welcome.welcome import look_up
from ui.window.main_window import MainWindow

Wait = Callable[..., Any]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def settings(tmp_path: Path) -> QSettings:
    return QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)


@pytest.fixture
def window(themes: ThemeHolder, settings: QSettings, keep: Keep) -> MainWindow:
    made = MainWindow(themes, settings)
    made.resize(1280, 720)
    made.show()
    return keep(made)


def test_recent_sessions_are_those_that_are_still_there(tmp_path: Path) -> None:
    recent = Recent(tmp_path / "recent.json")
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.evprof").write_text("")
        recent.note_session(tmp_path / f"{name}.evprof")
    recent.note_session(tmp_path / "a.evprof")
    (tmp_path / "b.evprof").unlink()
    assert [entry.name for entry in look_up(Recent(tmp_path / "recent.json"))] == ["a", "c"]


def test_a_session_that_was_open_is_listed_on_the_start_page(window: MainWindow, session_file, wait_until) -> None:
    window.session.open(session_file)
    wait_until(lambda: window.controller.runs)
    window.welcome.note()
    window.welcome.open()
    sessions = window.welcome.page.sessions
    wait_until(sessions.count)
    assert str(session_file) in sessions.item(0).toolTip()
    window.session.start_new()
    wait_until(lambda: not window.controller.runs)
    window.welcome.open()
    wait_until(sessions.count)
    place = sessions.visualItemRect(sessions.item(0)).center()
    QTest.mouseClick(sessions.viewport(), Qt.MouseButton.LeftButton, pos=place)
    wait_until(lambda: window.controller.runs)
    assert not window.welcome.page.isVisible()


def test_the_start_page_goes_with_esc_and_its_buttons_are_the_windows_actions(window: MainWindow) -> None:
    window.actions_by_name["start_page"].trigger()
    page = window.welcome.page
    assert page.isVisible()
    assert page.geometry() == window.body.rect()
    assert set(page.buttons) <= set(window.actions_by_name.by_name)
    window.activateWindow()
    QApplication.processEvents()
    QTest.keyClick(page.buttons["demo"], Qt.Key.Key_Escape)
    assert not page.isVisible()
    assert window.focusWidget() is window.timeline
