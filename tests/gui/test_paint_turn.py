"""A window is painted after what was due before it, however long the work that asked for the picture took."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QApplication, QWidget

from ui.widgets.pace import LONG_MS
from ui.window.paint_turn import LATEST_MS, PaintTurn

Wait = Callable[..., None]


class Told(QWidget):
    """Says when it is painted."""

    def __init__(self, heard: list[str]) -> None:
        super().__init__()
        self._heard = heard

    def paintEvent(self, _event: QPaintEvent) -> None:
        self._heard.append("painted")


@pytest.fixture
def heard() -> list[str]:
    """What happened, in order."""
    return []


@pytest.fixture
def window(application: QApplication, wait_until: Wait, heard: list[str]) -> Told:
    """Shown, and painted once."""
    made = Told(heard)
    PaintTurn(made)
    made.resize(40, 40)
    made.show()
    wait_until(lambda: heard)
    application.processEvents()
    heard.clear()
    return made


def _after(window: QWidget, ms: int, work: Callable[[], object]) -> None:
    QTimer.singleShot(ms, window, work)


def test_what_became_due_while_long_work_asked_for_a_picture_comes_before_it(
    window: Told, heard: list[str], wait_until: Wait
) -> None:
    def works() -> None:
        time.sleep(4 * LONG_MS / 1000)
        heard.append("worked")
        window.update()

    _after(window, 0, works)
    _after(window, LONG_MS, lambda: heard.append("due"))
    wait_until(lambda: "painted" in heard)
    assert heard == ["worked", "due", "painted"]


def test_work_that_comes_between_the_question_and_the_picture_has_what_it_delayed_done_first(
    window: Told, heard: list[str], wait_until: Wait
) -> None:
    def works() -> None:
        # What is due half way through it is known to Qt only after it.
        _after(window, LONG_MS, lambda: heard.append("due"))
        time.sleep(4 * LONG_MS / 1000)
        heard.append("worked")

    window.update()
    _after(window, 0, works)
    wait_until(lambda: "painted" in heard)
    assert heard == ["worked", "due", "painted"]


def test_a_picture_comes_however_much_else_there_is_to_do(window: Told, heard: list[str], wait_until: Wait) -> None:
    busy = QTimer(window)
    busy.timeout.connect(lambda: time.sleep(2 * LONG_MS / 1000))
    busy.start(0)
    for _ in range(3):
        heard.clear()
        window.update()
        wait_until(lambda: "painted" in heard)
    assert LATEST_MS > LONG_MS


def test_one_question_gives_one_picture(window: Told, heard: list[str], wait_until: Wait) -> None:
    window.update()
    wait_until(lambda: heard)
    is_later: list[bool] = []
    _after(window, 30, lambda: is_later.append(True))
    wait_until(lambda: is_later)
    assert heard == ["painted"]
