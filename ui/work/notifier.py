"""Says that something long is over to a person who looks at another window."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from evprof.core.safe_text import one_line
from ui.style.icons import window_icon

LEAST_S = 5.0
"""What took less is not worth a word: the person has hardly turned away."""

_SHOWN_MS = 8_000


class Notifier:
    """The window's entry in the task bar asks for attention; where the desktop has notifications, one says why."""

    def __init__(self, window: QWidget) -> None:
        self._window = window
        self._tray: QSystemTrayIcon | None = None

    def tell(self, sentence: str) -> bool:
        """Says it, unless the window is in front. True if it was said."""
        if self._window.isActiveWindow() or any(dialog.isActiveWindow() for dialog in QApplication.topLevelWidgets()):
            return False
        QApplication.alert(self._window)
        if QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages():
            if self._tray is None:
                self._tray = QSystemTrayIcon(window_icon(), self._window)
                self._tray.messageClicked.connect(self._come_forward)
            self._tray.show()
            self._tray.showMessage("evprof", one_line(sentence), window_icon(), _SHOWN_MS)
        return True

    def _come_forward(self) -> None:
        self._window.show()
        self._window.raise_()
        self._window.activateWindow()

    def close(self) -> None:
        """Takes the sign in the tray away."""
        if self._tray is not None:
            self._tray.hide()
