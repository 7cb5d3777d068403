"""The dialog for texts of several lines: it can be seen where to write, and lines wrap."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication, QInputDialog, QPlainTextEdit, QWidget

from ui.style.theme import theme_named
from ui.widgets.long_text import ask_long_text

TEXT = "A note on the low light and the fan at full speed. " * 20


@pytest.fixture
def window(application: QApplication) -> Iterator[QWidget]:
    made = QWidget()
    made.resize(1280, 720)
    made.show()
    yield made
    made.close()
    made.deleteLater()


@pytest.mark.parametrize("name", ["dark", "light"])
@pytest.mark.parametrize("is_given", [True, False])
def test_a_long_text_is_written_in_a_field_that_can_be_seen(window: QWidget, name: str, is_given: bool) -> None:
    theme = theme_named(name)
    window.setStyleSheet(theme.stylesheet())
    seen: list[tuple[QColor, bool]] = []

    def look() -> None:
        (dialog,) = window.findChildren(QInputDialog)
        (field,) = dialog.findChildren(QPlainTextEdit)
        border = dialog.grab().toImage().pixelColor(field.geometry().left(), field.geometry().center().y())
        seen.append((border, field.horizontalScrollBar().isVisible()))
        field.setPlainText("another\none")
        (dialog.accept if is_given else dialog.reject)()

    QTimer.singleShot(0, look)
    assert ask_long_text(window, "Note", "Note on run 1:", TEXT) == ("another\none" if is_given else None)
    ((border, scrolls),) = seen
    assert border not in (theme.window, theme.panel)
    assert not scrolls
