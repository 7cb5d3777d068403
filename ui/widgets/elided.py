"""Names as they are painted and put on buttons: on one line, without anything hidden, cut to the room there is."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics, QFontMetricsF

from evprof.core.safe_text import one_line, plain

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
