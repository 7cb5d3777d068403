"""A recent session on the start page: what it holds, its name and when it was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QWidget

from evprof.core.safe_text import one_line, plain
from evprof.core.vocabulary.modes import mode_of
from ui.style.theme import GRID, RADIUS, SMALL_PX, ThemeHolder
from ui.welcome.card_size import CARD_GRIDS
from ui.welcome.recent_sessions import RecentSession
from ui.widgets.elided import elided_text

if TYPE_CHECKING:
    from evprof.session.opened import SessionSummary

_BOX_PX = QSize(CARD_GRIDS * GRID, CARD_GRIDS * GRID * 5 // 8)
_WORDS_PX = 5 * GRID


_MOST_MODELS = 2


def content_lines(summary: SessionSummary | None) -> tuple[str, *tuple[tuple[str, bool], ...]]:
    """What a card says of a session: a head, then lines, each with whether it is dim."""
    if summary is None:
        return ("content not read",)
    count = summary.run_count
    models = [one_line(name) for name in summary.models]
    more = f" and {len(models) - _MOST_MODELS} more" if len(models) > _MOST_MODELS else ""
    lines = [(", ".join(mode_of(mode).title for mode in summary.modes), True)]
    lines += [(name, False) for name in models[:_MOST_MODELS]]
    if more:
        lines[-1] = lines[-1][0] + more, False
    lines.append((", ".join(one_line(name) for name in summary.samples), True))
    return (f"{count} run{'s' * (count != 1)}", *[line for line in lines if line[0]])


class SessionCard(QAbstractButton):
    """A button that opens the session."""

    def __init__(self, session: RecentSession, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self._themes = themes
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip(plain(str(session.path)))
        self.setAccessibleName(f"Open session {one_line(session.name)}")
        self.setAccessibleDescription(f"changed {session.when}")
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFixedSize(self.sizeHint())

    def sizeHint(self) -> QSize:
        """A box and two lines."""
        return _BOX_PX + QSize(0, _WORDS_PX)

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme = self._themes.theme
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(0, 0, self.width(), _BOX_PX.height()).adjusted(1, 1, -1, -1)
        shape = QPainterPath()
        shape.addRoundedRect(box, RADIUS, RADIUS)
        painter.fillPath(shape, theme.panel)
        self._paint_content(painter, box)
        is_marked = self.hasFocus() or self.underMouse()
        painter.setPen(QPen(theme.accent if is_marked else theme.line, 1.5 if is_marked else 1))
        painter.drawPath(shape)
        line = QRectF(0, box.bottom() + GRID // 2, self.width(), 2 * GRID + 2)
        self._write(painter, line, self.session.name, is_dim=False)
        self._write(painter, line.translated(0, 2 * GRID), self.session.when, is_dim=True)
        painter.end()

    def _paint_content(self, painter: QPainter, box: QRectF) -> None:
        """How many runs, in which modes, of which models and samples."""
        head, *lines = content_lines(self.session.summary)
        line = QRectF(box.left() + 1.5 * GRID, box.top() + GRID, box.width() - 3 * GRID, 2 * GRID + 2)
        theme = self._themes.theme
        painter.setFont(theme.font(weight=600))
        painter.setPen(theme.text if lines else theme.text_dim)
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, head)
        for place, (text, is_dim) in enumerate(lines, start=1):
            self._write(
                painter,
                line.translated(0, 0.5 * GRID + 2 * GRID * place),
                text,
                is_dim=is_dim,
                cut=Qt.TextElideMode.ElideRight,
            )

    def _write(
        self,
        painter: QPainter,
        line: QRectF,
        text: str,
        *,
        is_dim: bool,
        cut: Qt.TextElideMode = Qt.TextElideMode.ElideMiddle,
    ) -> None:
        theme = self._themes.theme
        painter.setFont(theme.font(SMALL_PX) if is_dim else theme.font())
        painter.setPen(theme.text_dim if is_dim else theme.text)
        shown = elided_text(QFontMetricsF(painter.font()), text, cut, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, shown)
