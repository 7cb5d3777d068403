"""The one label of the window: it shows letters, whatever they spell.

Left to itself, Qt takes a text that looks like HTML for HTML, and loads the pictures it names: a model called
`<img src="/dev/zero">` would take all memory. Labels that Qt makes itself (tool tips, dialogs) are told the same by
the style sheet.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics, QFontMetricsF
from PySide6.QtWidgets import QLabel, QWidget

from evprof.core.texts import one_line, plain


class Label(QLabel):
    """Plain text; hidden characters are told by their number, and what is longer than a page is cut."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setText(text)

    def setText(self, text: str) -> None:
        super().setText(plain(text))


_MOST = 500
"""Characters of a name that are looked at: more fit on no screen, and measuring millions takes seconds."""


def elided_text(metrics: QFontMetrics | QFontMetricsF, text: str, mode: Qt.TextElideMode, room: float) -> str:
    """`text` in at most `room` logical px, cut at its end or in its middle."""
    # Of a longer text both ends are kept: some are cut in the middle.
    ends = text if len(text) <= _MOST else f"{text[: _MOST // 2]}…{text[-_MOST // 2 :]}"
    line = plain(ends, 2 * _MOST).replace("\n", " ").replace("\t", " ")
    if isinstance(metrics, QFontMetrics):
        return metrics.elidedText(line, mode, int(room))
    return metrics.elidedText(line, mode, room)


def literal(text: str) -> str:
    """A text for a button or a menu, where a single `&` would underline what follows it."""
    return one_line(text, _MOST).replace("&", "&&")
