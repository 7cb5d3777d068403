"""A list whose lines change under the hand: runs come in while a person scrolls, presses and drags."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from kept import Keep
from ui.style.theme import ThemeHolder
from ui.widgets.line_list import LineList, ListLine

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


@pytest.fixture
def lines(themes: ThemeHolder, application: QApplication, keep: Keep) -> LineList:
    """Lines 40 to 1, the newest first, of which six are in sight; they can be dragged."""
    made = LineList(themes)
    made.mime_of = lambda _: QMimeData()
    made.resize(240, 240)
    made.show()
    show(made, 40)
    application.processEvents()
    return keep(made)


def show(lines: LineList, newest: int, current: object = None) -> None:
    lines.show_lines([ListLine(number, f"run {number}") for number in range(newest, 0, -1)], current)


def place(lines: LineList, key: int) -> QPoint:
    row = [line.key for line in lines.lines].index(key)
    return lines.visualRect(lines.model().index(row, 0)).center()


def test_a_click_picks_the_line_that_was_pressed(lines: LineList) -> None:
    picked: list[object] = []
    lines.picked.connect(picked.append)
    at = place(lines, 38)
    QTest.mousePress(lines.viewport(), LEFT, NONE, at)
    show(lines, 41)
    QTest.mouseRelease(lines.viewport(), LEFT, NONE, at)
    assert picked == [38]


def test_a_line_that_went_away_under_the_press_picks_no_other(lines: LineList) -> None:
    picked: list[object] = []
    lines.picked.connect(picked.append)
    at = place(lines, 40)
    QTest.mousePress(lines.viewport(), LEFT, NONE, at)
    show(lines, 39)
    QTest.mouseRelease(lines.viewport(), LEFT, NONE, at)
    assert picked == []


def test_what_is_dragged_is_the_line_that_was_pressed(lines: LineList) -> None:
    dragged: list[object] = []
    lines.mime_of = dragged.append
    at = place(lines, 38)
    QTest.mousePress(lines.viewport(), LEFT, NONE, at)
    show(lines, 41)
    QTest.mouseMove(lines.viewport(), at + QPoint(0, QApplication.startDragDistance()))
    assert dragged == [38]


@pytest.mark.parametrize("current", [None, 39, 20])
def test_the_lines_in_sight_stay_when_one_comes(lines: LineList, current: int | None) -> None:
    show(lines, 40, current)
    lines.scrollTo(lines.model().index(30, 0), LineList.ScrollHint.PositionAtTop)
    before = place(lines, 10)
    assert lines.viewport().rect().contains(before)
    show(lines, 41, current)
    QApplication.processEvents()
    assert place(lines, 10) == before
