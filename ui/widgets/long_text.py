"""Asks for a text of several lines."""

from __future__ import annotations

from PySide6.QtWidgets import QInputDialog, QPlainTextEdit, QWidget

from ui.style.theme import GRID


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
