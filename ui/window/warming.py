"""Imports what a run's first picture needs, one module after another, while nothing happens yet.

The window is seen before all of this is there; when a run begins, it would hold up the picture for as long as several
pictures take.
"""

from __future__ import annotations

import importlib
import logging

from PySide6.QtCore import QObject, QTimer

from ui.state.run_controller import RunController

INTERVAL_MS = 40
"""Between two modules: people move the window meanwhile."""

MODULES = (
    "evprof.metrics.configurations.settings_text",
    "evprof.metrics.estimates.estimates",
    "evprof.metrics.speculation.clinic",
    "evprof.metrics.speculation.verdicts",
    "evprof.metrics.figures.loading",
    "evprof.metrics.comparison.answers",
    "evprof.metrics.comparison.rows",
    "evprof.metrics.comparison.document",
    "evprof.metrics.comparison.figures",
    "evprof.metrics.costs.two_clocks",
    "evprof.metrics.run_summary",
    "concurrent.futures.thread",
    "numpy.ma",
)
"""What is asked for from the first row of a run to its end, in parts that take about as long."""

logger = logging.getLogger(__name__)


class Warming(QObject):
    """Begins with `start`; rests while a run goes on."""

    def __init__(self, controller: RunController) -> None:
        super().__init__(controller)
        self._controller = controller
        self._left = list(reversed(MODULES))
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL_MS)
        self._timer.timeout.connect(self._import_one)

    @property
    def is_done(self) -> bool:
        """Whether everything is there."""
        return not self._left

    def start(self) -> None:
        """Begins, for after the first paint."""
        self._timer.start()

    def stop(self) -> None:
        """Ends early."""
        self._timer.stop()

    def _import_one(self) -> None:
        if self._controller.is_busy:
            return
        try:
            if self._left:
                importlib.import_module(self._left.pop())
        except ImportError:
            # Who needs it tells what is wrong with it.
            logger.warning("A part of the program could not be read.", exc_info=True)
        if not self._left:
            self._timer.stop()
