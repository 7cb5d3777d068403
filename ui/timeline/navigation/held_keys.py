"""W, A, S and D glide while they are held."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent

from ui.timeline.navigation.keys import cross_key

_GLIDE_MS = 16
_ZOOM_PER_FRAME = 1.06
_PAN_PER_FRAME_PX = 22.0


class HeldKeys(QObject):
    """Turns keys that are held into zoom factors and px to pan by, sixty times a second."""

    def __init__(self, zoom: Callable[[float], None], pan: Callable[[float], None], parent: QObject) -> None:
        super().__init__(parent)
        self._zoom, self._pan = zoom, pan
        self._held: set[str] = set()
        self._timer = QTimer(self)
        self._timer.setInterval(_GLIDE_MS)
        self._timer.timeout.connect(self._glide)

    def press(self, event: QKeyEvent) -> bool:
        """Acts on a key press; False when the key means nothing here."""
        plain = not event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier)
        cross = cross_key(event) if plain else None
        if cross is not None and not event.isAutoRepeat():
            self._held.add(cross)
            self._glide()
            self._timer.start()
        return cross is not None

    def release(self, event: QKeyEvent) -> bool:
        """Takes note of a released key; False when it means nothing here."""
        cross = cross_key(event)
        if cross is None or event.isAutoRepeat():
            return cross is not None
        self._held.discard(cross)
        if not self._held:
            self._timer.stop()
        return True

    def let_go(self) -> None:
        """All keys: a window that loses the keyboard never sees them released."""
        self._held.clear()
        self._timer.stop()

    def _glide(self) -> None:
        if "w" in self._held:
            self._zoom(_ZOOM_PER_FRAME)
        if "s" in self._held:
            self._zoom(1 / _ZOOM_PER_FRAME)
        if "a" in self._held:
            self._pan(-_PAN_PER_FRAME_PX)
        if "d" in self._held:
            self._pan(_PAN_PER_FRAME_PX)
