"""Files and folders dragged onto the window, and the card that previews what dropping them opens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QGridLayout, QWidget

from ui.run_facts.run_text import input_name
from ui.samples.openings import Opening
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.drawn import Drawn
from ui.widgets.label import Label, elided_text

MOST_LINES = 6
_CARD_PX, _NAME_PX = 440, 260


class DropOverlay(Drawn):
    """Covers its parent and takes no mouse."""

    def __init__(self, themes: ThemeHolder, parent: QWidget) -> None:
        super().__init__(themes, parent)
        self._ground = parent
        self._paths: tuple[str, ...] = ()
        self._opening: Opening | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName("What dropping opens")
        card = in_role(QFrame(), "card")
        card.setFixedWidth(_CARD_PX)
        self._head = in_role(Label(), "title")
        self._grid = QGridLayout()
        self._labels = [(Label(), in_role(Label(), "small")) for _ in range(MOST_LINES)]
        stacked(self._head, self._grid, on=card, margins=(3 * GRID, 2 * GRID, 3 * GRID, 2 * GRID), spacing=GRID)
        for row, (name, words) in enumerate(self._labels):
            self._grid.addWidget(name, row, 0)
            self._grid.addWidget(words, row, 1, Qt.AlignmentFlag.AlignRight)
        column = stacked(None, on=self)
        column.addWidget(card, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(1)
        parent.installEventFilter(self)
        self.hide()

    @property
    def headline(self) -> str:
        if self._opening is not None:
            return self._opening.headline
        return f"Looking at {input_name(self._paths[0]) if len(self._paths) == 1 else f'{len(self._paths)} files'} …"

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Name and kind of each thing dragged; the last line counts those without room."""
        if self._opening is None:
            listed = [(input_name(path), "") for path in self._paths]
        else:
            listed = [(entry.name, entry.words) for entry in self._opening.found]
        if len(listed) <= MOST_LINES:
            return listed
        return [*listed[: MOST_LINES - 1], (f"and {len(listed) - MOST_LINES + 1} more", "")]

    def show_paths(self, paths: Sequence[str]) -> None:
        """Paths are dragged over the window, and not known yet."""
        self._paths, self._opening = tuple(paths), None
        self.setGeometry(self._ground.rect())
        self.raise_()
        self._fill()
        self.show()

    def show_opening(self, opening: Opening) -> None:
        if self.isVisible():
            self._opening = opening
            self._fill()

    def _fill(self) -> None:
        self._head.setText(self.headline)
        lines = [*self.lines, *[("", "")] * MOST_LINES]
        for (name, words), (text, kind) in zip(self._labels, lines, strict=False):
            name.setText(elided_text(name.fontMetrics(), text, Qt.TextElideMode.ElideMiddle, _NAME_PX))
            words.setText(kind)
            name.setVisible(bool(text))
            words.setVisible(bool(text))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self.setGeometry(self._ground.rect())
        return False

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, painter = self._themes.theme, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), theme.alpha(theme.window, 0.72))
        painter.setPen(QPen(theme.alpha(theme.accent, 0.7), 1.5, Qt.PenStyle.DashLine))
        painter.drawRoundedRect(self.rect().adjusted(GRID, GRID, -GRID, -GRID), 8, 8)


class FileDrops:
    """Looks at what is held above the window, shows what it is, and opens it when it is dropped."""

    def __init__(
        self,
        window: QWidget,
        holder: ThemeHolder,
        look: Callable[[Sequence[str]], object],
        forget: Callable[[], object],
        open_paths: Callable[[Sequence[str]], object],
    ) -> None:
        self.overlay = DropOverlay(holder, window)
        self._look = look
        self._forget = forget
        self._open_paths = open_paths

    def enter(self, event: QDragEnterEvent) -> None:
        if paths := _local_paths(event.mimeData()):
            event.acceptProposedAction()
            self.overlay.show_paths(paths)
            self._look(paths)

    def leave(self) -> None:
        self.overlay.hide()
        self._forget()

    def drop(self, event: QDropEvent) -> None:
        """Opens what was dropped."""
        self.overlay.hide()
        self._open_paths(_local_paths(event.mimeData()))
        event.acceptProposedAction()


def _local_paths(data: QMimeData) -> list[str]:
    return [url.toLocalFile() for url in data.urls() if url.isLocalFile()]
