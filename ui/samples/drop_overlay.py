"""What lies over the window while files are dragged across it: previews what dropping will open."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from ui.run_facts.run_text import input_name
from ui.samples.openings import Opening, OpeningPath
from ui.style.icons import pixmap
from ui.style.theme import GRID, SMALL_PX, ThemeHolder
from ui.widgets.elided import elided_text

MOST_LINES = 6
_CARD_PX = 440
_LINE_PX = 24
_ICON = 14
_HEAD_PX = 15.0


class DropOverlay(QWidget):
    """Covers its parent, takes no mouse: what is dragged goes to the window below."""

    def __init__(self, themes: ThemeHolder, parent: QWidget) -> None:
        super().__init__(parent)
        self._themes = themes
        self._ground = parent
        self._paths: tuple[str, ...] = ()
        self._opening: Opening | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName("What dropping opens")
        parent.installEventFilter(self)
        self.hide()

    @property
    def headline(self) -> str:
        """What it says will happen."""
        if self._opening is not None:
            return self._opening.headline
        return f"Looking at {input_name(self._paths[0]) if len(self._paths) == 1 else f'{len(self._paths)} files'} …"

    @property
    def lines(self) -> list[tuple[str, str, str]]:
        """Icon, name and what it is, of each thing dragged; the last line counts what has no room."""
        entries: Sequence[OpeningPath] = self._opening.found if self._opening is not None else ()
        if self._opening is None:
            listed = [("", input_name(path), "") for path in self._paths]
        else:
            listed = [(_icon(entry), entry.name, entry.words) for entry in entries]
        if len(listed) <= MOST_LINES:
            return listed
        return [*listed[: MOST_LINES - 1], ("", f"and {len(listed) - MOST_LINES + 1} more", "")]

    def show_paths(self, paths: Sequence[str]) -> None:
        """Something is dragged over the window, and being looked at."""
        self._paths = tuple(paths)
        self._opening = None
        self.setGeometry(self._ground.rect())
        self.raise_()
        self.show()

    def show_opening(self, opening: Opening) -> None:
        """It is known what would be opened."""
        if self.isVisible():
            self._opening = opening
            self.update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follows its parent's size; never keeps an event from it."""
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self.setGeometry(self._ground.rect())
        return False

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme = self._themes.theme
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), theme.alpha(theme.window, 0.72))
        frame = QRectF(self.rect()).adjusted(GRID, GRID, -GRID, -GRID)
        painter.setPen(QPen(theme.alpha(theme.accent, 0.7), 1.5, Qt.PenStyle.DashLine))
        painter.drawRoundedRect(frame, 8, 8)
        card = self._card()
        painter.setPen(QPen(theme.line, 1))
        painter.setBrush(theme.panel)
        painter.drawRoundedRect(card, 8, 8)
        inner = card.adjusted(3 * GRID, 2.5 * GRID, -3 * GRID, -2 * GRID)
        painter.setPen(theme.text)
        painter.setFont(theme.font(_HEAD_PX, 600))
        painter.drawText(inner, int(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft), self.headline)
        top = inner.top() + 4 * GRID
        for icon, name, words in self.lines:
            self._paint_line(painter, QRectF(inner.left(), top, inner.width(), _LINE_PX), icon, name, words)
            top += _LINE_PX

    def _card(self) -> QRectF:
        width = min(_CARD_PX, self.width() - 4 * GRID)
        height = 8.5 * GRID + _LINE_PX * len(self.lines)
        return QRectF((self.width() - width) / 2, (self.height() - height) / 2, width, height)

    def _paint_line(self, painter: QPainter, line: QRectF, icon: str, name: str, words: str) -> None:
        theme = self._themes.theme
        is_bad = icon == "warning"
        color = theme.warn if is_bad else theme.text_dim
        if icon:
            place = line.topLeft().toPoint()
            picture = pixmap(icon, color, self.devicePixelRatioF(), _ICON)
            painter.drawPixmap(place.x(), round(line.center().y() - _ICON / 2), picture)
        painter.setFont(theme.font(SMALL_PX))
        width = QFontMetricsF(painter.font()).horizontalAdvance(words)
        painter.setPen(color)
        painter.drawText(line, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight), words)
        painter.setFont(theme.font())
        painter.setPen(theme.text_dim if is_bad or not icon else theme.text)
        room = line.adjusted(_ICON + GRID if icon else 0, 0, -width - GRID, 0)
        text = elided_text(QFontMetricsF(painter.font()), name, Qt.TextElideMode.ElideMiddle, room.width())
        painter.drawText(room, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), text)


def _icon(entry: OpeningPath) -> str:
    known = {"events": "events", "video": "video", "sequence": "folder", "manifest": "info", "session": "trace"}
    return known.get(entry.kind, "trace") if entry.kind else "warning"
