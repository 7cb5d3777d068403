"""The panels on token costs inside the real window: opened by their keys, as tabs beside the timeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTabBar

from ui.costs.kv_panel import KvPanel
from ui.costs.visual_panel import VisualPanel
from ui.widgets.following import FollowingPanel
from ui.window.main_window import MainWindow
from ui.window.panels import PANELS
from ui.work.long_work import Requests


@pytest.fixture
def window(make_window: Callable[..., MainWindow], session_file: Path, application: QApplication) -> MainWindow:
    """A window that shows the scripted runs."""
    made = make_window()
    made.session.read(session_file)
    made.controller.pull()
    made.selection.set_runs(1, 2)
    application.processEvents()
    return made


@pytest.mark.parametrize(("name", "kind"), [("kv", KvPanel), ("visual", VisualPanel)])
def test_keys_bring_a_panel_into_sight(
    window: MainWindow, application, wait_until, name: str, kind: type[FollowingPanel]
) -> None:
    assert window.body.panel(name) is None, "nothing is made before it is asked for"
    entry = next(entry for entry in PANELS if entry.name == name)
    QTest.keySequence(window, QKeySequence(entry.keys))
    application.processEvents()
    panel = window.body.panel(name)
    assert isinstance(panel, kind)
    assert panel.isVisible()
    wait_until(lambda: not panel.is_busy)
    # Nothing scrolls sideways at the smallest size.
    assert panel.width() <= window.width()
    (bar,) = [bar for bar in window.body.findChildren(QTabBar) if bar.isVisible() and bar.count() > 1]
    assert [bar.tabText(place) for place in range(bar.count())] == ["Timeline", entry.title]


def test_an_empty_panel_runs_the_demo(window: MainWindow, application, monkeypatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(Requests, "submit", lambda *requests: asked.append(len(requests)))
    window.body.show_panel("kv")
    application.processEvents()
    window.session.start_new()
    application.processEvents()
    panel = window.body.panel("kv")
    assert isinstance(panel, KvPanel)
    assert panel.empty.isVisible()
    panel.empty.activated.emit()
    assert asked
