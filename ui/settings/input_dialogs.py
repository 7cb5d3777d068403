"""File dialogs that ask for inputs; what is picked is opened whatever it holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from evprof.core.sample import Sample
from evprof.loaders.bundled import assets_folder
from ui.settings.file_filters import event_filters, video_filters


class InputDialogs:
    """Each begins where the open sample lies, unless that came with the program; nothing picked is an empty answer."""

    def __init__(self, parent: QWidget, sample: Callable[[], Sample]) -> None:
        self._parent = parent
        self._sample = sample

    def recordings(self) -> list[str]:
        """Event recordings."""
        return QFileDialog.getOpenFileNames(self._parent, "Open events", self._place(), event_filters())[0]

    def videos(self) -> list[str]:
        """Videos."""
        return QFileDialog.getOpenFileNames(self._parent, "Open video", self._place(), video_filters())[0]

    def folder(self, title: str) -> str:
        """A folder."""
        return QFileDialog.getExistingDirectory(self._parent, title, self._place())

    def _place(self) -> str:
        sample = self._sample()
        path = sample.events_path or sample.video_path
        if path is None or Path(path).is_relative_to(assets_folder()):
            return ""
        return str(Path(path).parent)
