"""A window is painted after what was due before it, however long the work that asked for the picture took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QEvent
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
def window(application: QApplication, wait_until: Wait, heard: list[str]) -> Iterator[Told]:
    """Shown, and painted once."""
    made = Told(heard)
    made.resize(40, 40)
    made.show()
    wait_until(lambda: heard)
    heard.clear()
    yield made
    made.close()
    made.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def turn(window: Told, application: QApplication, heard: list[str]) -> PaintTurn:
    """Of a window that somebody has asked to paint itself: that lies in the event loop, and nothing was painted yet."""
    made = PaintTurn(window)
    heard.clear()
    window.update()
    application.sendPostedEvents()
    return made


def test_a_window_is_not_painted_by_what_asks_for_it_but_soon(
    turn: PaintTurn, heard: list[str], wait_until: Wait
) -> None:
    assert heard == []
    wait_until(lambda: heard == ["painted"])


def test_what_other_work_delayed_comes_before_the_picture(turn: PaintTurn, heard: list[str], wait_until: Wait) -> None:
    time.sleep(2 * LONG_MS / 1000)
    turn.paint()
    assert heard == []
    wait_until(lambda: heard == ["painted"])


def test_a_picture_comes_however_much_else_there_is_to_do(turn: PaintTurn, heard: list[str]) -> None:
    time.sleep(LATEST_MS / 1000)
    turn.paint()
    assert heard == ["painted"]
