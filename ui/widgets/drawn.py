"""Widgets that draw themselves: in the theme's colours, with a tool tip for each place."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtGui import QGuiApplication, QHelpEvent, QImage, QKeyEvent
from PySide6.QtWidgets import QApplication, QFrame, QToolTip, QWidget
from shiboken6 import isValid

from evprof.core.texts import plain
from ui.style.theme import ThemeHolder
from ui.widgets.boxes import in_role


def show_tip(event: QEvent, widget: QWidget, tip_at: Callable[[QPoint], str]) -> bool:
    """Shows what `tip_at` says of the place that a tool tip is asked for, "" hides it; False for any other event."""
    if event.type() != QEvent.Type.ToolTip or not isinstance(event, QHelpEvent):
        return False
    QToolTip.showText(event.globalPos(), plain(tip_at(event.pos())), widget)
    return True


def picture_of(widget: QWidget, scale: float) -> QImage:
    """A picture of a widget with `scale` pixels for each logical px."""
    picture = QImage(widget.size() * scale, QImage.Format.Format_RGB32)
    picture.setDevicePixelRatio(scale)
    picture.fill(widget.palette().window().color())
    widget.render(picture)
    return picture


class Drawn(QWidget):
    """Is drawn again when the theme changes."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        themes.changed.connect(self._redraw)

    def tip_at(self, _point: QPoint) -> str:
        """What the tool tip says of a place; "" says nothing."""
        return ""

    def event(self, event: QEvent) -> bool:
        return show_tip(event, self, self.tip_at) or super().event(event)

    def _redraw(self, *_: object) -> None:
        self.update()


def asks_for_escape(event: QEvent) -> bool:
    """Whether Qt asks with this event who wants Esc; it is taken, and comes as an ordinary key press next."""
    if event.type() != QEvent.Type.ShortcutOverride or not is_escape(event):
        return False
    event.accept()
    return True


def is_escape(event: QEvent) -> bool:
    return isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Escape


class FocusRing(QObject):
    """Draws a ring on the widget that has the keyboard, in every window, from the first Tab until the next click.

    The ring is a child of that widget, so that it moves, is clipped and goes away with it.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._ring: QFrame | None = None
        self._is_wanted = False
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.focusChanged.connect(self._follow)

    def _follow(self, old: QWidget | None, new: QWidget | None) -> None:
        if self._ring is not None and isValid(self._ring):
            if old is not None:
                old.removeEventFilter(self)
            self._ring.hide()
            self._ring.deleteLater()
        self._ring = None
        if QGuiApplication.mouseButtons() != Qt.MouseButton.NoButton:
            self._is_wanted = False
        elif new is not None and new.window().testAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange):
            self._is_wanted = True
        if new is None or not self._is_wanted:
            return
        self._ring = in_role(QFrame(new), "focus")
        self._ring.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._ring.setGeometry(new.rect())
        self._ring.show()
        self._ring.raise_()
        new.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and isinstance(watched, QWidget) and self._ring is not None:
            self._ring.setGeometry(watched.rect())
        return False
