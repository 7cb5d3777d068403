"""Asks for a text of several lines."""

from __future__ import annotations

from collections.abc import Sequence

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


class ProblemsDialog(QDialog):
    """Shows them to be read and copied."""

    def __init__(self, title: str, sentences: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(640, 400)
        self.text = QPlainTextEdit("\n\n".join(sentences))
        self.text.setReadOnly(True)
        stacked(section_head(title), self.text, on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID), spacing=GRID)
