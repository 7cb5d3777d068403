"""Other programs are started with the priority that the window had at first."""

from __future__ import annotations

import os
import shutil

import pytest
from PySide6.QtCore import QProcess, QUrl
from PySide6.QtGui import QDesktopServices

from evprof.run.processes.giving_way import GivingWay
from ui.state import outside

PAGE = QUrl("https://example.org/page")


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> GivingWay:
    made = GivingWay()
    monkeypatch.setattr(outside, "WINDOW", made)
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda _url: asked.append("qt") or True)
    return made


asked: list[object] = []


def test_a_window_at_ordinary_priority_asks_the_desktop(way: GivingWay) -> None:
    asked.clear()
    assert outside.open_outside(PAGE)
    assert asked == ["qt"]


def test_a_lowered_window_has_a_thread_that_was_not_lowered_start_it(
    way: GivingWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.clear()
    monkeypatch.setattr(os, "setpriority", lambda *_: None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    started = []
    monkeypatch.setattr(QProcess, "startDetached", lambda program, words: (not started.append((program, words)), 7))
    way.begin()
    try:
        assert outside.open_outside(PAGE)
    finally:
        way.end()
        way.close()
    assert started == [("/bin/xdg-open", [PAGE.toString()])]
    assert asked == []


def test_without_an_opener_the_desktop_is_asked_all_the_same(way: GivingWay, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.clear()
    monkeypatch.setattr(os, "setpriority", lambda *_: None)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    way.begin()
    try:
        assert outside.open_outside(PAGE)
    finally:
        way.end()
        way.close()
    assert asked == ["qt"]
