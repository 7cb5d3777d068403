"""The one label of the window: it shows letters, whatever they spell.

Left to itself, Qt takes a text that looks like HTML for HTML, and loads the pictures it names: a model called
`<img src="/dev/zero">` would take all memory. Labels that Qt makes itself (tool tips, dialogs) are told the same by
the style sheet.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from evprof.core.safe_text import plain


class Label(QLabel):
    """Plain text; hidden characters are told by their number, and what is longer than a page is cut."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(text)

    def setText(self, text: str) -> None:
        super().setText(plain(text))
