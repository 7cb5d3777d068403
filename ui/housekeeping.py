"""Keeps Python's garbage collector from holding up the window: little and often, and never all of it during a run.

Records are plain data without cycles; looking through hundreds of thousands of them finds nothing and takes long.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

from ui.run_controller import RunController

YOUNG_INTERVAL_MS = 500
OLD_INTERVAL_MS = 30_000


class Housekeeping(QObject):
    """Collects young garbage twice a second; old garbage every half a minute while nothing runs."""

    def __init__(self, controller: RunController) -> None:
        super().__init__(controller)
        self._controller = controller
        self._was_enabled = gc.isenabled()
        self._timers: list[QTimer] = []

    def start(self) -> None:
        """Takes over from the collector's own rhythm."""
        gc.disable()
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
        if self._was_enabled:
            gc.enable()

    def _collect_young(self) -> None:
        gc.collect(0)

    def _collect_old(self) -> None:
        if not self._controller.is_busy:
            gc.collect()
