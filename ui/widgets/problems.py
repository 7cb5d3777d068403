"""A list of sentences that do not fit into the message bar."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QPlainTextEdit, QWidget

from ui.style.theme import GRID
from ui.widgets.boxes import stacked
from ui.widgets.panel_parts import section_head


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
