"""How the window is divided: the two columns in the middle, panels around them that can be tabbed and hidden."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, QStandardPaths, Qt, Signal
from PySide6.QtWidgets import QDockWidget, QMainWindow, QTabWidget, QWidget

from ui.state.recent import Recent
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder, theme_named
from ui.window.panels import LEFT, LOWER, PANELS, RIGHT, PanelEntry

LEFT_PX, RIGHT_PX = 220, 304
"""First widths of the side panels in logical px."""

_NARROW_PX = 1400
_LOW_PX = 800
_VERSION = 1


class Body(QMainWindow):
    """The columns and the panels.

    Signals:
        panel_made(object): a panel was shown for the first time, as its widget.
    """

    panel_made = Signal(object)

    def __init__(
        self,
        middle: QWidget,
        made: Mapping[str, QWidget],
        controller: RunController,
        selection: Selection,
        themes: ThemeHolder,
    ) -> None:
        """`made` are the panels, by name, that are open at first."""
        super().__init__(None, Qt.WindowType.Widget)
        self._context = controller, selection, themes
        self.setDockNestingEnabled(True)
        self.setAnimated(False)
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        self.setCorner(Qt.Corner.BottomLeftCorner, LEFT)
        self.setCorner(Qt.Corner.BottomRightCorner, RIGHT)
        self.setCentralWidget(middle)
        self._docks = {entry.name: self._dock(entry) for entry in PANELS}
        for name, widget in made.items():
            self._docks[name].setWidget(widget)
        self._lay_out()

    def _dock(self, entry: PanelEntry) -> QDockWidget:
        dock = QDockWidget(entry.title, self)
        dock.setObjectName(entry.name)
        dock.setFeatures(QDockWidget.DockWidgetFeature.NoDockWidgetFeatures)
        dock.setTitleBarWidget(QWidget(dock))
        dock.visibilityChanged.connect(lambda is_visible, entry=entry: self._fill(entry) if is_visible else None)
        return dock

    def _lay_out(self) -> None:
        """As at the very first start: what is open at first. Hidden tabs would leave their bar behind."""
        for entry in PANELS:
            if entry.make is None:
                self.addDockWidget(entry.area, self._docks[entry.name])
            else:
                self.removeDockWidget(self._docks[entry.name])

    def _place(self, name: str) -> None:
        """Gives a panel that has no place yet its first one: beside the timeline in a wide window, else a tab."""
        dock = self._docks[name]
        if self.dockWidgetArea(dock) != Qt.DockWidgetArea.NoDockWidgetArea:
            return
        entry = next(entry for entry in PANELS if entry.name == name)
        self.addDockWidget(entry.area, dock)
        docks = [self._docks[other.name] for other in PANELS if other is not entry]
        shown = [one for one in docks if not one.isHidden() and self.dockWidgetArea(one) == entry.area]
        if shown == [self._docks["timeline"]] and self.width() >= _NARROW_PX:
            self.splitDockWidget(shown[0], dock, Qt.Orientation.Horizontal)
            self.resizeDocks([shown[0], dock], [3, 2], Qt.Orientation.Horizontal)
        elif shown:
            self.tabifyDockWidget(shown[-1], dock)

    def _fill(self, entry: PanelEntry) -> None:
        dock = self._docks[entry.name]
        if entry.make is None or dock.widget() is not None:
            return
        dock.setWidget(entry.make(*self._context))
        self.panel_made.emit(dock.widget())

    def panel(self, name: str) -> QWidget | None:
        return self._docks[name].widget()

    def toggle(self, name: str) -> None:
        """Hides a panel that is in sight; shows any other one."""
        dock = self._docks[name]
        if dock.isVisible() and not dock.visibleRegion().isEmpty():
            dock.hide()
        else:
            self.show_panel(name)

    def show_panel(self, name: str) -> None:
        """Shows a panel, in front of those it shares a place with."""
        self._place(name)
        self._docks[name].show()
        self._docks[name].raise_()

    def divide(self) -> None:
        """The first division: side panels at their own width, columns and timeline share the rest."""
        left, right = (LEFT_PX - 20, RIGHT_PX) if self.width() < _NARROW_PX else (LEFT_PX, RIGHT_PX)
        lower = round(self.height() * (0.54 if self.height() > _LOW_PX else 0.56))
        found = {entry.area: self._docks[entry.name] for entry in reversed(PANELS)}
        self.resizeDocks([found[LEFT], found[RIGHT]], [left, right], Qt.Orientation.Horizontal)
        self.resizeDocks([found[LOWER]], [lower], Qt.Orientation.Vertical)


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
        self.settings.setValue("window/layout", body.saveState(_VERSION))
        self.settings.setValue("window/theme", holder.theme.name)

    def restore(self, window: QMainWindow, body: Body, holder: ThemeHolder) -> bool:
        """Puts the window back; False when its division is not known."""
        if self.settings is None:
            return False
        holder.set_theme(theme_named(str(self.settings.value("window/theme", holder.theme.name))))
        geometry, layout = (self.settings.value(f"window/{key}") for key in ("geometry", "layout"))
        if isinstance(geometry, QByteArray):
            window.restoreGeometry(geometry)
        return isinstance(layout, QByteArray) and body.restoreState(layout, _VERSION)
