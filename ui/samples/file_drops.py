"""Files and folders that are dragged onto the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QWidget

from ui.run_facts.run_text import input_name
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.label import Label

_MOST_NAMES = 6


class FileDrops:
    """Covers the window with the names of what is dragged over it, and opens what is dropped."""

    def __init__(self, window: QWidget, holder: ThemeHolder, open_paths: Callable[[Sequence[str]], object]) -> None:
        self._window = window
        self._holder = holder
        self._open_paths = open_paths
        self.overlay = Label(parent=window)
        self.overlay.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.overlay.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.overlay.hide()

    def enter(self, event: QDragEnterEvent) -> None:
        paths = _local_paths(event.mimeData())
        if not paths:
            return
        event.acceptProposedAction()
        names = [input_name(path) for path in paths[:_MOST_NAMES]]
        rest = [f"and {len(paths) - _MOST_NAMES} more"] if len(paths) > _MOST_NAMES else []
        theme = self._holder.theme
        ground = theme.alpha(theme.window, 0.8).name(theme.window.NameFormat.HexArgb)
        self.overlay.setStyleSheet(
            f"background: {ground}; border: 2px dashed {theme.accent.name()}; border-radius: 8px"
        )
        self.overlay.setText("\n".join(["Drop to open", "", *names, *rest]))
        self.overlay.setGeometry(self._window.rect().adjusted(GRID, GRID, -GRID, -GRID))
        self.overlay.raise_()
        self.overlay.show()

    def leave(self) -> None:
        self.overlay.hide()

    def drop(self, event: QDropEvent) -> None:
        self.overlay.hide()
        self._open_paths(_local_paths(event.mimeData()))
        event.acceptProposedAction()


def _local_paths(data: QMimeData) -> list[str]:
    return [url.toLocalFile() for url in data.urls() if url.isLocalFile()]
