"""Parts of the window that come after its first picture, and icons that are drawn when they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QSize
from PySide6.QtGui import QColor, QIcon, QImage
from PySide6.QtWidgets import QApplication

from ui.style.icons import icon
from ui.style.theme import ThemeHolder, dark
from ui.window.deeds import deeds
from ui.window.late_parts import LateParts
from ui.window.main_window import MainWindow

PARTS = ("dialogs", "exporting", "finding", "long_work", "machine", "opener", "results", "trace_pages")


@pytest.fixture
def window(application: QApplication, themes: ThemeHolder) -> Iterator[MainWindow]:
    made = MainWindow(themes)
    yield made
    made.close()
    made.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_parts_that_are_not_to_be_seen_come_after_the_first_picture(
    window: MainWindow, wait_until: Callable[..., Any]
) -> None:
    made_before: list[bool] = []
    window.painted.connect(lambda: made_before.extend(map(window.is_made, PARTS)))
    window.show()
    wait_until(lambda: all(map(window.is_made, PARTS)))
    assert made_before == [False] * len(PARTS)


def test_an_action_makes_the_part_it_needs(window: MainWindow) -> None:
    assert not window.is_made("finding")
    window.actions_by_name["palette"].trigger()
    assert window.finding.box.isVisibleTo(window)


def test_every_deed_that_waits_for_a_part_is_one_of_it(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(LateParts, "later", lambda self, deed: asked.append(deed))
    deeds(window)
    assert len(asked) > 10
    for deed in asked:
        part, work = deed.split(".")
        assert callable(getattr(getattr(window, part), work)), deed


def _colors(picture: QImage) -> set[str]:
    seen = (picture.pixelColor(x, y) for x in range(picture.width()) for y in range(picture.height()))
    return {color.name() for color in seen if color.alpha() == 255}


@pytest.mark.parametrize(("edge", "scale"), [(16, 1.0), (16, 2.0), (16, 1.5)])
def test_an_icon_is_drawn_for_the_pixels_it_is_shown_on(application: QApplication, edge: int, scale: float) -> None:
    picture = icon("stop", dark()).pixmap(QSize(edge, edge), scale)
    assert picture.width() == edge * scale
    assert picture.devicePixelRatio() == scale


def test_an_icon_is_dim_when_it_is_disabled_and_takes_another_color(application: QApplication) -> None:
    theme = dark()
    size = QSize(32, 32)
    assert theme.text.name() in _colors(icon("stop", theme).pixmap(size).toImage())
    assert theme.text_dim.name() in _colors(icon("stop", theme).pixmap(size, QIcon.Mode.Disabled).toImage())
    assert "#ff0000" in _colors(icon("stop", theme, QColor("red")).pixmap(size).toImage())
