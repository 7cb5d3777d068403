"""What the window remembers from one start to the next: place, division, theme, recent files and named layouts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, QStandardPaths
from PySide6.QtWidgets import QInputDialog, QMainWindow, QMenu

from ui.state.recent import Recent
from ui.style.theme import ThemeHolder, theme_named
from ui.widgets.message_bar import INFO, UNDO, MessageBar
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


_GROUP = "layouts"
_LONGEST = 60


class Layouts:
    """Keeps, shows and forgets layouts by name. Without settings they last as long as the window."""

    def __init__(self, body: Body, settings: QSettings | None, messages: MessageBar) -> None:
        self._body = body
        self._settings = settings
        self._messages = messages
        self._kept: dict[str, QByteArray] = {}
        if settings is not None:
            settings.beginGroup(_GROUP)
            found = {name: settings.value(name) for name in settings.childKeys()}
            settings.endGroup()
            self._kept = {name: state for name, state in found.items() if isinstance(state, QByteArray)}

    @property
    def names(self) -> list[str]:
        return sorted(self._kept)

    def ask(self) -> None:
        """Asks for a name and keeps the layout under it."""
        name, is_wanted = QInputDialog.getText(self._body, "Save the layout", "Name")
        if is_wanted and name.strip():
            self.keep(name)

    def keep(self, name: str) -> None:
        """Keeps how the panels stand now; a layout of the same name is replaced, which can be undone."""
        # A slash would make a group of its own in the settings.
        name = name.replace("/", "-").strip()[:_LONGEST]
        before = self._kept.get(name)
        self._put(name, self._body.layout_bytes())
        if before is None:
            self._messages.post(f"The layout “{name}” was saved.", INFO, about=_about(name))
        else:
            self._offer_undo(f"The layout “{name}” was replaced.", name, before)

    def _offer_undo(self, sentence: str, name: str, before: QByteArray) -> None:
        self._messages.post(sentence, INFO, UNDO, partial(self._put, name, before), about=_about(name))

    def _put(self, name: str, state: QByteArray) -> None:
        self._kept[name] = state
        if self._settings is not None:
            self._settings.setValue(f"{_GROUP}/{name}", state)

    def show(self, name: str) -> None:
        """Puts the panels as they stood when the layout was kept."""
        self._body.restore_layout(self._kept[name])

    def forget(self, name: str) -> None:
        state = self._kept.pop(name)
        if self._settings is not None:
            self._settings.remove(f"{_GROUP}/{name}")
        self._offer_undo(f"The layout “{name}” was removed.", name, state)

    def fill(self, menu: QMenu) -> None:
        """Lists the layouts in a menu, each with what can be done with it."""
        menu.clear()
        for name in self.names:
            menu.addAction(name.replace("&", "&&")).triggered.connect(lambda _=False, name=name: self.show(name))
        if not self.names:
            menu.addAction("None saved yet").setEnabled(False)
            return
        removal = QMenu("Remove", menu)
        menu.addMenu(removal)
        for name in self.names:
            removal.addAction(name.replace("&", "&&")).triggered.connect(lambda _=False, name=name: self.forget(name))


def _about(name: str) -> str:
    return f"layout {name}"
