"""A window's painting as a turn of the event loop of its own.

Qt paints right after the work that asked for it, before any other event: together they hold the window up for longer
than either.
"""

from __future__ import annotations

import time

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QTimer
from PySide6.QtWidgets import QWidget

from ui.widgets.pace import LONG_MS

LATEST_MS = 20
"""A painting is put off no longer than that, however much else there is to do."""


class PaintTurn(QObject):
    """Puts off each painting of `window` until what was due before it is done."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._is_turn = False
        self._first_s = self._asked_s = 0.0
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.timeout.connect(self.paint)
        window.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        """Qt's hook."""
        if event.type() != QEvent.Type.UpdateRequest or self._is_turn:
            return False
        if not self._soon.isActive():
            self._first_s = self._asked_s = time.perf_counter()
            self._soon.start(0)
        return True

    def paint(self) -> None:
        """Paints what was asked for, unless other work was done since: what that delayed comes first."""
        now_s = time.perf_counter()
        if 1000 * (now_s - self._asked_s) > LONG_MS and 1000 * (now_s - self._first_s) < LATEST_MS:
            self._asked_s = now_s
            self._soon.start(0)
        else:
            self.paint_now()

    def paint_now(self) -> None:
        """Paints what was asked for."""
        self._soon.stop()
        self._is_turn = True
        try:
            QCoreApplication.sendEvent(self._window, QEvent(QEvent.Type.UpdateRequest))
        finally:
            self._is_turn = False
