"""Keeps Python from holding up the window: garbage little and often, and other threads give way sooner.

Records are plain data without cycles; looking through hundreds of thousands of them finds nothing and takes long.
"""

from __future__ import annotations

import gc
import sys

from PySide6.QtCore import QObject, QTimer

from ui.run_controller import RunController

YOUNG_INTERVAL_MS = 500
OLD_INTERVAL_MS = 30_000
SWITCH_INTERVAL_S = 0.001
"""How long the pump and the session writer may go on while the window waits for its turn (Python's own: 5 ms)."""


class Housekeeping(QObject):
    """Collects young garbage twice a second; old garbage every half a minute while nothing runs."""

    def __init__(self, controller: RunController) -> None:
        super().__init__(controller)
        self._controller = controller
        self._was_enabled = gc.isenabled()
        self._switch_interval_s = sys.getswitchinterval()
        self._timers: list[QTimer] = []

    def start(self) -> None:
        """Takes over from the collector's own rhythm."""
        gc.disable()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        for interval, work in ((YOUNG_INTERVAL_MS, self._collect_young), (OLD_INTERVAL_MS, self._collect_old)):
            timer = QTimer(self)
            timer.setInterval(interval)
            timer.timeout.connect(work)
            timer.start()
            self._timers.append(timer)

    def stop(self) -> None:
        """Gives the collector back."""
        for timer in self._timers:
            timer.stop()
        self._timers.clear()
        sys.setswitchinterval(self._switch_interval_s)
        if self._was_enabled:
            gc.enable()

    def _collect_young(self) -> None:
        gc.collect(0)

    def _collect_old(self) -> None:
        if not self._controller.is_busy:
            gc.collect()
