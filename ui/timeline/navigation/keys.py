"""Keys by where they lie on the keyboard, so that W, A, S and D form the same cross on every layout."""

from __future__ import annotations

import sys

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent

_LINUX = {25: "w", 38: "a", 39: "s", 40: "d"}
_WINDOWS = {0x11: "w", 0x1E: "a", 0x1F: "s", 0x20: "d"}
_MAC = {13: "w", 0: "a", 1: "s", 2: "d"}
_NAMES = {Qt.Key.Key_W: "w", Qt.Key.Key_A: "a", Qt.Key.Key_S: "s", Qt.Key.Key_D: "d"}
_ARROWS = {Qt.Key.Key_Up: "w", Qt.Key.Key_Left: "a", Qt.Key.Key_Down: "s", Qt.Key.Key_Right: "d"}


def cross_key(event: QKeyEvent) -> str | None:
    """ "w", "a", "s" or "d" for the key at that place, or for the arrow of that direction; None for all others."""
    if Qt.Key(event.key()) in _ARROWS:
        return _ARROWS[Qt.Key(event.key())]
    platform = QGuiApplication.platformName()
    if platform in ("xcb", "wayland") and event.nativeScanCode():
        return _LINUX.get(event.nativeScanCode())
    if platform == "windows" and event.nativeScanCode():
        return _WINDOWS.get(event.nativeScanCode())
    if sys.platform == "darwin" and platform == "cocoa":
        return _MAC.get(event.nativeVirtualKey())
    return _NAMES.get(Qt.Key(event.key()))
