"""Files and folders dragged onto the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QMimeData
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QWidget

from ui.samples.drop_overlay import DropOverlay
from ui.style.theme import ThemeHolder


class FileDrops:
    """Looks at what is held above the window, tells what it is, and has it opened when it is dropped."""

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
        """Files and folders are welcome; what they hold is looked at while they are above the window."""
        if paths := _local_paths(event.mimeData()):
            event.acceptProposedAction()
            self.overlay.show_paths(paths)
            self._look(paths)

    def leave(self) -> None:
        """They went elsewhere."""
        self.overlay.hide()
        self._forget()

    def drop(self, event: QDropEvent) -> None:
        """Opens what was dropped."""
        self.overlay.hide()
        self._open_paths(_local_paths(event.mimeData()))
        event.acceptProposedAction()


def _local_paths(data: QMimeData) -> list[str]:
    return [url.toLocalFile() for url in data.urls() if url.isLocalFile()]
