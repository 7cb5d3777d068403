"""Dialogs above a window, and those for texts of several lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QInputDialog, QPlainTextEdit, QWidget

from ui.style.theme import GRID
from ui.widgets.boxes import stacked
from ui.widgets.panel_parts import section_head


def ask_long_text(window: QWidget, title: str, question: str, text: str) -> str | None:
    """What a person made of a text, None if nothing; Qt's own dialog for this is small and does not wrap lines."""
    dialog = QInputDialog(window)
    dialog.setOption(QInputDialog.InputDialogOption.UsePlainTextEditForTextInput)
    dialog.setWindowTitle(title)
    dialog.setLabelText(question)
    dialog.setTextValue(text)
    for editor in dialog.findChildren(QPlainTextEdit):
        editor.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        editor.setTabChangesFocus(True)
    dialog.resize(60 * GRID, 30 * GRID)
    is_given = dialog.exec() == QInputDialog.DialogCode.Accepted
    dialog.deleteLater()
    return dialog.textValue() if is_given else None


_Dialog = TypeVar("_Dialog", bound=QDialog)


def show_once(window: QWidget, kind: type[_Dialog], make: Callable[[], _Dialog]) -> _Dialog:
    """Brings the dialog of that kind to the front that is open above a window, or makes one."""
    dialog = next((shown for shown in window.findChildren(kind) if shown.isVisible()), None) or make()
    dialog.show()
    dialog.activateWindow()
    return dialog


class FreeDialog(QDialog):
    """Does not block the window; deleted when it is closed."""

    def __init__(self, title: str, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)


class ProblemsDialog(FreeDialog):
    """Shows them to be read and copied."""

    def __init__(self, title: str, sentences: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(title, parent)
        self.resize(640, 400)
        self.text = QPlainTextEdit("\n\n".join(sentences))
        self.text.setReadOnly(True)
        stacked(section_head(title), self.text, on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID), spacing=GRID)
