"""What the window remembers from one start to the next: place, division, theme and recent files."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, QStandardPaths
from PySide6.QtWidgets import QMainWindow

from ui.state.recent import Recent
from ui.style.theme import ThemeHolder, theme_named
from ui.window.body import Body


class WindowMemory:
    """Reads and writes the settings; without any, nothing is remembered."""

    def __init__(self, settings: QSettings | None) -> None:
        self.settings = settings

    def recent(self) -> Recent:
        """What was opened before, in a file of the user's."""
        if self.settings is None:
            return Recent(None)
        folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.AppDataLocation)
        return Recent(Path(folder) / "recent.json" if folder else None)

    def remember(self, window: QMainWindow, body: Body, holder: ThemeHolder) -> None:
        if self.settings is None:
            return
        self.settings.setValue("window/geometry", window.saveGeometry())
        self.settings.setValue("window/layout", body.layout_bytes())
        self.settings.setValue("window/theme", holder.theme.name)

    def restore(self, window: QMainWindow, body: Body, holder: ThemeHolder) -> bool:
        """Puts the window back; False when its division is not known."""
        if self.settings is None:
            return False
        holder.set_theme(theme_named(str(self.settings.value("window/theme", holder.theme.name))))
        geometry, layout = (self.settings.value(f"window/{key}") for key in ("geometry", "layout"))
        if isinstance(geometry, QByteArray):
            window.restoreGeometry(geometry)
        return isinstance(layout, QByteArray) and body.restore_layout(layout)
